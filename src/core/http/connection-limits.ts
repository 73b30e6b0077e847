/** Limits connections in total and per address, and chooses which one to close for a new one. */
import { readFileSync } from 'node:fs'
import { DEFAULT_CONNECTIONS, type Config } from '../../config/config.ts'
import type { ClientConnection } from './connections.ts'

/** descriptors: the limit of open files allows fewer connections than configured. */
export const connectionBounds = ['total', 'address', 'descriptors'] as const
export type ConnectionBound = (typeof connectionBounds)[number]
/** proxy: a PROXY header was due, but none came in time, or its sender is not trusted. */
export const connectionRefusals = [...connectionBounds, 'proxy'] as const
export type ConnectionRefusal = (typeof connectionRefusals)[number]

/** File descriptors reserved for listeners, log, store, admin and Node.js itself. */
const OWN_DESCRIPTORS = 64
/** Number of connections that are examined before a new one is refused. */
const MAX_LOOKS = 1_024
/** Time that a new connection may need, over a slow network, for its first request with a valid key. */
const YOUNG_MS = 1_000
/** Young connections are spared while they are at most this share of the limit. */
const YOUNG_SHARE = 1 / 4

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

/** busy: a request is under way. recent: one began since the last look. */
export type Use = 'busy' | 'recent' | 'idle'

/** A group holds the connections under one limit and chooses the one to close for a new one. */
class Group {
  /** Connections without a valid key so far, oldest first; even busy ones may be closed. */
  readonly #unproven = new Set<ClientConnection>()
  /** Connections with a valid key, oldest first; those found in use move to the end. */
  readonly #proven = new Set<ClientConnection>()

  get size(): number {
    return this.#unproven.size + this.#proven.size
  }

  *members(): Generator<ClientConnection> {
    yield* this.#unproven
    yield* this.#proven
  }

  add(connection: ClientConnection): void {
    ;(connection.isProven ? this.#proven : this.#unproven).add(connection)
  }

  delete(connection: ClientConnection): boolean {
    return (connection.isProven ? this.#proven : this.#unproven).delete(connection)
  }

  /**
   * Returns the connection to close: the oldest one without a valid key, otherwise an idle one; undefined: all are busy.
   * A few young connections are spared: otherwise a client that holds all others with a valid key could displace each new
   * connection of its neighbours before the first request.
   */
  oneToDisplace(most: number, nowMs: number): ClientConnection | undefined {
    const [oldest] = this.#unproven
    const isSpared =
      oldest !== undefined &&
      nowMs - oldest.sinceMs < YOUNG_MS &&
      this.#unproven.size <= most * YOUNG_SHARE
    return isSpared ? (this.#idle() ?? oldest) : (oldest ?? this.#idle())
  }

  /** Returns an idle connection. Those found in use move to the end, so that the search stays cheap. */
  #idle(): ClientConnection | undefined {
    let recent: ClientConnection | undefined
    let looks = Math.min(this.#proven.size, MAX_LOOKS)
    for (const connection of this.#proven) {
      if (looks-- === 0) break
      const use = connection.look()
      if (use === 'idle') return connection
      if (use === 'recent') recent ??= connection
      this.#proven.delete(connection)
      this.#proven.add(connection)
    }
    return recent
  }
}

export class ConnectionLimits {
  /** A change of the room closes no existing connection. */
  room: ConnectionRoom
  readonly #all = new Group()
  readonly #ofAddress = new Map<string, Group>()
  readonly #onDisplaced: (bound: ConnectionBound) => void

  /** onDisplaced: called when a connection was closed for a new one. */
  constructor(room: ConnectionRoom, onDisplaced: (bound: ConnectionBound) => void) {
    this.room = room
    this.#onDisplaced = onDisplaced
  }

  get size(): number {
    return this.#all.size
  }

  all(): Iterable<ClientConnection> {
    return this.#all.members()
  }

  /** Counts a new connection until leave(). Returns the limit that refuses it; undefined: it may stay. */
  enter(connection: ClientConnection): ConnectionBound | undefined {
    const { connections, connectionsPerAddress, openFiles } = this.room
    const { addressKey, sinceMs: nowMs } = connection
    const siblings = addressKey === undefined ? undefined : this.#ofAddress.get(addressKey)
    if (siblings !== undefined && siblings.size >= connectionsPerAddress)
      if (!this.#displace('address', siblings, connectionsPerAddress, nowMs)) return 'address'
    const bound = openFiles === undefined ? 'total' : 'descriptors'
    if (this.#all.size >= connections && !this.#displace(bound, this.#all, connections, nowMs))
      return bound
    if (addressKey !== undefined && !this.#ofAddress.has(addressKey))
      this.#ofAddress.set(addressKey, new Group())
    for (const group of this.#groupsOf(connection)) group.add(connection)
    return undefined
  }

  /** Has no effect if the connection is not counted. */
  leave(connection: ClientConnection): void {
    for (const group of this.#groupsOf(connection)) group.delete(connection)
    const { addressKey } = connection
    if (addressKey !== undefined && this.#ofAddress.get(addressKey)?.size === 0)
      this.#ofAddress.delete(addressKey)
  }

  /** A request on the connection has carried a valid key: those without one are closed before it from now on. */
  prove(connection: ClientConnection): void {
    const groups = this.#groupsOf(connection).filter((group) => group.delete(connection))
    connection.isProven = true
    for (const group of groups) group.add(connection)
  }

  #groupsOf({ addressKey }: ClientConnection): Group[] {
    const siblings = addressKey === undefined ? undefined : this.#ofAddress.get(addressKey)
    return siblings === undefined ? [this.#all] : [this.#all, siblings]
  }

  /** Closes a connection of the group for a new one; false: all are busy. */
  #displace(bound: ConnectionBound, group: Group, most: number, nowMs: number): boolean {
    const connection = group.oneToDisplace(most, nowMs)
    if (connection === undefined) return false
    this.leave(connection)
    connection.close()
    this.#onDisplaced(bound)
    return true
  }
}
