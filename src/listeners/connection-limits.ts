/** How many connections there may be, in all and of one address, and which one goes where there is no room for a new one. */
import { readFileSync } from 'node:fs'
import type { Config } from '../config/config.ts'
import { defaults } from '../config/defaults.ts'
import type { Penalties } from './penalties.ts'

/**
 * descriptors: fewer than configured are possible, as the process may not open as many files.
 * proxy: a PROXY header was due, and none came in time, or from somebody who is not believed. abuse: see Penalties.
 */
export const connectionRefusals = ['total', 'address', 'descriptors', 'proxy', 'abuse'] as const
export type ConnectionRefusal = (typeof connectionRefusals)[number]

/** For listeners, log, store, admin and what Node.js has open itself. */
const OWN_DESCRIPTORS = 64
/** Connections that are looked at before a new one is turned away. */
const LOOKS_AT_MOST = 256

export interface ConnectionRoom {
  readonly connections: number
  readonly connectionsPerAddress: number
  /** Of files that this process may have open; undefined where they are no bound. */
  readonly openFiles: number | undefined
  /** Far fewer than somebody has asked for: the default is for machines of all sizes. */
  readonly isFar: boolean
}

/** Room for clients that leaves backends theirs, but for half of what there is at most, and no address all. openFiles: undefined where it is not known. */
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
  const { connections: standard } = defaults.server.limits
  const isFar = connections !== Number(standard) && possible < connections / 2
  return { connections: possible, connectionsPerAddress: ofOne, openFiles, isFar }
}

/** With fewer there is no room for listeners, log and store beside a handful of clients and as many backends. */
export const OPEN_FILES_AT_LEAST = 2 * (OWN_DESCRIPTORS + 8)

/** How many files this process may have open; undefined where that cannot be read. */
export function openFilesAtMost(): number | undefined {
  try {
    const limit = /^Max open files +(\d+)/m.exec(readFileSync('/proc/self/limits', 'latin1'))
    return limit === null ? undefined : Number(limit[1])
  } catch {
    return undefined
  }
}

export interface Guest {
  /** Under which its connections are counted; undefined for a trusted proxy, whose connections are those of many. */
  readonly addressKey: string | undefined
  /** Whether nothing was or is under way since the last look. */
  wasIdle(): boolean
  /** Takes its connection away. */
  close(): void
}

export class ConnectionLimits {
  /** Connections that there are already stay. */
  room: ConnectionRoom
  readonly #penalties: Pick<Penalties, 'holds'>
  /** Oldest first, but for those that were in use when somebody looked. */
  readonly #guests = new Set<Guest>()
  readonly #ofAddress = new Map<string, number>()

  constructor(room: ConnectionRoom, penalties: Pick<Penalties, 'holds'>) {
    this.room = room
    this.#penalties = penalties
  }

  get size(): number {
    return this.#guests.size
  }

  /** undefined: it may stay, until leave(). */
  enter(guest: Guest): ConnectionRefusal | undefined {
    const { connections, connectionsPerAddress, openFiles } = this.room
    const { addressKey } = guest
    if (addressKey !== undefined && this.#penalties.holds(addressKey, performance.now()))
      return 'abuse'
    const siblings = addressKey === undefined ? 0 : (this.#ofAddress.get(addressKey) ?? 0)
    if (siblings >= connectionsPerAddress) return 'address'
    if (this.#guests.size >= connections && !this.#makeRoom())
      return openFiles === undefined ? 'total' : 'descriptors'
    this.#guests.add(guest)
    if (addressKey !== undefined)
      this.#ofAddress.set(addressKey, (this.#ofAddress.get(addressKey) ?? 0) + 1)
    return undefined
  }

  leave(guest: Guest): void {
    const { addressKey } = guest
    if (!this.#guests.delete(guest) || addressKey === undefined) return
    const siblings = (this.#ofAddress.get(addressKey) ?? 1) - 1
    if (siblings === 0) this.#ofAddress.delete(addressKey)
    else this.#ofAddress.set(addressKey, siblings)
  }

  /** Closes the oldest connection that is not used. Who is looked at and was in use comes last next time, so that looking stays cheap. */
  #makeRoom(): boolean {
    let looks = 0
    for (const guest of this.#guests) {
      if (guest.wasIdle()) {
        this.leave(guest)
        guest.close()
        return true
      }
      if (++looks > LOOKS_AT_MOST) return false
      this.#guests.delete(guest)
      this.#guests.add(guest)
    }
    return false
  }
}
