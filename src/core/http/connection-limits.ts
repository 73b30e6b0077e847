/** How many connections there may be, in all and of one address, and which one goes where there is no room for a new one. */
import { readFileSync } from 'node:fs'
import type { Config } from '../../config/config.ts'
import { defaults } from '../../config/defaults.ts'

/** descriptors: fewer than configured are possible, as the process may not open as many files. */
export const connectionBounds = ['total', 'address', 'descriptors'] as const
export type ConnectionBound = (typeof connectionBounds)[number]
/** proxy: a PROXY header was due, and none came in time, or from somebody who is not believed. */
export const connectionRefusals = [...connectionBounds, 'proxy'] as const
export type ConnectionRefusal = (typeof connectionRefusals)[number]

/** For listeners, log, store, admin and what Node.js has open itself. */
const OWN_DESCRIPTORS = 64
/** Connections that are looked at before a new one is turned away. */
const LOOKS_AT_MOST = 1_024
/** How long a new connection may take, over a slow network, to its first request with a valid key. */
const YOUNG_MS = 1_000
/** Young connections are spared as long as they are no more than this share of the bound. */
const YOUNG_SHARE = 1 / 4

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

/** busy: a request is under way. recent: none is, but one began since the last look. */
export type Use = 'busy' | 'recent' | 'idle'

export interface Guest {
  /** Under which its connections are counted; undefined for a trusted proxy, whose connections are those of many. */
  readonly addressKey: string | undefined
  /** When it was accepted, by performance.now(). */
  readonly sinceMs: number
  /** A request on it has carried a valid key. Written by ConnectionLimits alone. */
  isProven: boolean
  /** How it is used; that it was used recently is said once. */
  look(): Use
  /** Takes its connection away. */
  close(): void
}

/** Connections under one bound, and which of them gives way to a new one. */
class Group {
  /** Oldest first. Without a valid key nothing is under way that is worth more than another connection. */
  readonly #unproven = new Set<Guest>()
  /** Oldest first, but for those that were in use when they were looked at. */
  readonly #proven = new Set<Guest>()

  get size(): number {
    return this.#unproven.size + this.#proven.size
  }

  add(guest: Guest): void {
    ;(guest.isProven ? this.#proven : this.#unproven).add(guest)
  }

  delete(guest: Guest): boolean {
    return (guest.isProven ? this.#proven : this.#unproven).delete(guest)
  }

  /**
   * Those that never carried a valid key go first, the oldest of them; then those that did and are idle. A few that have just
   * come are spared: who holds all other connections with a key of his own could take them from his neighbours otherwise, each
   * before its first request. undefined: all are at work.
   */
  leastWanted(most: number, nowMs: number): Guest | undefined {
    const [oldest] = this.#unproven
    const isSpared =
      oldest !== undefined &&
      nowMs - oldest.sinceMs < YOUNG_MS &&
      this.#unproven.size <= most * YOUNG_SHARE
    return isSpared ? (this.#idle() ?? oldest) : (oldest ?? this.#idle())
  }

  /** Who is looked at and is in use comes last next time, so that looking stays cheap. */
  #idle(): Guest | undefined {
    let recent: Guest | undefined
    let looks = Math.min(this.#proven.size, LOOKS_AT_MOST)
    for (const guest of this.#proven) {
      if (looks-- === 0) break
      const use = guest.look()
      if (use === 'idle') return guest
      if (use === 'recent') recent ??= guest
      this.#proven.delete(guest)
      this.#proven.add(guest)
    }
    return recent
  }
}

export class ConnectionLimits {
  /** Connections that there are already stay. */
  room: ConnectionRoom
  readonly #all = new Group()
  readonly #ofAddress = new Map<string, Group>()
  readonly #onDisplaced: (bound: ConnectionBound) => void

  /** onDisplaced: a connection was closed for a new one. */
  constructor(room: ConnectionRoom, onDisplaced: (bound: ConnectionBound) => void) {
    this.room = room
    this.#onDisplaced = onDisplaced
  }

  get size(): number {
    return this.#all.size
  }

  /** undefined: it may stay, until leave(). */
  enter(guest: Guest): ConnectionBound | undefined {
    const { connections, connectionsPerAddress, openFiles } = this.room
    const { addressKey, sinceMs: nowMs } = guest
    const siblings = addressKey === undefined ? undefined : this.#ofAddress.get(addressKey)
    if (siblings !== undefined && siblings.size >= connectionsPerAddress)
      if (!this.#displace('address', siblings, connectionsPerAddress, nowMs)) return 'address'
    const bound = openFiles === undefined ? 'total' : 'descriptors'
    if (this.#all.size >= connections && !this.#displace(bound, this.#all, connections, nowMs))
      return bound
    if (addressKey !== undefined && !this.#ofAddress.has(addressKey))
      this.#ofAddress.set(addressKey, new Group())
    for (const group of this.#groupsOf(guest)) group.add(guest)
    return undefined
  }

  leave(guest: Guest): void {
    for (const group of this.#groupsOf(guest)) group.delete(guest)
    const { addressKey } = guest
    if (addressKey !== undefined && this.#ofAddress.get(addressKey)?.size === 0)
      this.#ofAddress.delete(addressKey)
  }

  /** A request on it has carried a valid key: from now on it goes after all on which none has. */
  prove(guest: Guest): void {
    const groups = this.#groupsOf(guest).filter((group) => group.delete(guest))
    guest.isProven = true
    for (const group of groups) group.add(guest)
  }

  #groupsOf({ addressKey }: Guest): Group[] {
    const siblings = addressKey === undefined ? undefined : this.#ofAddress.get(addressKey)
    return siblings === undefined ? [this.#all] : [this.#all, siblings]
  }

  /** Closes a connection of the group for a new one; false: all are at work. */
  #displace(bound: ConnectionBound, group: Group, most: number, nowMs: number): boolean {
    const guest = group.leastWanted(most, nowMs)
    if (guest === undefined) return false
    this.leave(guest)
    guest.close()
    this.#onDisplaced(bound)
    return true
  }
}
