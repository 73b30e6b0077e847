/** How many connections clients may have, as configured and as the limit of open files allows. */
import { readFileSync } from 'node:fs'
import { DEFAULT_CONNECTIONS, type Config } from '../../config/config.ts'

/** descriptors: the limit of open files allows fewer connections than configured. */
export const connectionBounds = ['total', 'address', 'descriptors'] as const
export type ConnectionBound = (typeof connectionBounds)[number]
/** proxy: a PROXY header was due, but none came in time, or its sender is not trusted. */
export const connectionRefusals = [...connectionBounds, 'proxy'] as const
export type ConnectionRefusal = (typeof connectionRefusals)[number]

/** File descriptors reserved for listeners, log, store, admin and Node.js itself. */
const OWN_DESCRIPTORS = 64

export interface ConnectionRoom {
  readonly connections: number
  readonly connectionsPerAddress: number
  /** Limit of open files of this process; undefined: it does not reduce the room. */
  readonly openFiles: number | undefined
  /** The room is less than half of an explicitly configured number; the default number does not count. */
  readonly isFar: boolean
}

/** Computes the room for clients: backend connections keep up to half of the open files, and no address gets all. openFiles: undefined if unknown. */
export function roomForConnections(
  { server, upstream }: Pick<Config, 'server' | 'upstream'>,
  openFiles: number | undefined,
): ConnectionRoom {
  const { connections, connectionsPerAddress } = server.limits
  const unbound = { connections, connectionsPerAddress, openFiles: undefined, isFar: false }
  if (openFiles === undefined) return unbound
  const toBackends = Math.min(upstream.urls.length * upstream.connections, openFiles / 2)
  const possible = Math.max(1, Math.floor(openFiles - toBackends - OWN_DESCRIPTORS))
  if (possible >= connections) return unbound
  const ofOne = Math.min(connectionsPerAddress, Math.max(1, Math.floor(possible / 4)))
  const isFar = connections !== DEFAULT_CONNECTIONS && possible < connections / 2
  return { connections: possible, connectionsPerAddress: ofOne, openFiles, isFar }
}

/** A limit of open files under which all connections of the configuration are possible. */
export const enoughFiles = ({ server, upstream }: Config): number =>
  server.limits.connections + upstream.urls.length * upstream.connections + OWN_DESCRIPTORS

/** Least number of open files for listeners, log, store and a few clients and backend connections. */
export const OPEN_FILES_AT_LEAST = 2 * (OWN_DESCRIPTORS + 8)

/** Returns the limit of open files of this process; undefined: it cannot be read. */
export function openFilesAtMost(): number | undefined {
  try {
    const limit = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))
    return limit === null ? undefined : Number(limit[1])
  } catch {
    return undefined
  }
}
