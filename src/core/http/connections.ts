/** Keeps what is known of each client connection from its acceptance to its close, and all requests in flight; bounds the connections. */
import type { Socket } from 'node:net'
import type { Framing } from '../rules/framing.ts'
import type { ConnectionBound, ConnectionRoom } from './connection-room.ts'
import type { Exchange } from '../pipeline/exchange.ts'
import { SharedTurn, type Sharer } from './shared-turn.ts'

/** Number of connections that are examined before a new one is refused. */
const MAX_LOOKS = 1_024
/** Time that a new connection may need, over a slow network, for its first request with a valid key. */
const YOUNG_MS = 1_000
/** Young connections are spared while they are at most this share of the limit. */
const YOUNG_SHARE = 1 / 4

export interface Origin {
  /** IP address of the client; '': the connection has already lost it. */
  readonly address: string
  /**
   * The address is the peer's own or comes from a PROXY header, so a trusted proxy's forwarding fields are believed.
   * false: a balancer named no client (UNKNOWN, LOCAL), and its address does not show who sends the request.
   */
  readonly isNamed: boolean
  readonly proto: 'http' | 'https'
}

/** Serves a connection once its protocol is known. */
export interface ProtocolConnection extends Sharer {
  /** More has come behind the request under way. */
  readonly hasMore?: boolean
  /** Says how the body of the request is read, before anything behind its head is; undefined: the framing is not sound. HTTP/1.1 alone. */
  frame?(framing: Framing | undefined): void
  /** Hands over the bare connection behind the request's head, paused; the response can still be written, and is its last. HTTP/1.1 alone. */
  takeOver?(): Socket
  /** Ends what takes too long. Called several times a second. */
  onLook(nowMs: number): void
  /** Closes the connection if it waits for a next request; HTTP/2 refuses further requests. */
  closeIdle(): void
  destroy(): void
}

/** An accepted connection, which is counted until it closes. Written by Connections, unless a member names another writer. */
export class ClientConnection {
  /** The accepted socket, below TLS. */
  readonly transport: Socket
  readonly origin: Origin
  /** Key of the address that the connection counts for; undefined: a trusted proxy, which serves many clients. */
  readonly addressKey: string | undefined
  readonly sinceMs = performance.now()
  /** A request on it has carried a valid key. */
  isProven = false
  /** TLS or its client authorities are others now: the next answer is the last. Written by PublicServer only. */
  isOutdated = false
  /** undefined: its PROXY header, handshake or preface is under way. Written by serve(). */
  protocol: ProtocolConnection | undefined
  /** Number of requests without a complete answer: at most one with HTTP/1.1. */
  pending = 0
  /** A request has begun since the last look for idle connections. */
  isUsed = false
  /** Number of refused requests in a row. */
  refused = 0
  /** Number of streams that the client ended before their answers. Also written by Http2Connection. */
  brokenOff = 0

  constructor(transport: Socket, origin: Origin, addressKey: string | undefined) {
    this.transport = transport
    this.origin = origin
    this.addressKey = addressKey
  }

  /** busy: a request is under way, or waits to begin. recent: one has begun since the last look, so that a finished one counts in one look only. */
  look(): 'busy' | 'recent' | 'idle' {
    if (this.pending + (this.protocol?.share.parsed ?? 0) > 0) return 'busy'
    const use = this.isUsed ? 'recent' : 'idle'
    this.isUsed = false
    return use
  }
}

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

export class Connections {
  /** A change of the room closes no existing connection. */
  room: ConnectionRoom
  /**
   * All requests without a complete answer, in no order. This is no Set: V8 chains the old tables of a busy Set, and with
   * them every exchange ever in it, until a full collection. Copying dead objects took a quarter of the CPU per request.
   */
  readonly inFlight: Exchange[] = []
  readonly turn = new SharedTurn()
  /** keyed: requests with a valid credential. others: other requests, and connections without a valid credential so far. Also written by PublicServer. */
  readonly arrivals = { keyed: 0, others: 0 }
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
    if (siblings && !this.#makeRoom('address', siblings, connectionsPerAddress, nowMs))
      return 'address'
    const bound = openFiles === undefined ? 'total' : 'descriptors'
    if (!this.#makeRoom(bound, this.#all, connections, nowMs)) return bound
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
    if (connection.isProven) return
    this.arrivals.others -= 1
    const groups = this.#groupsOf(connection).filter((group) => group.delete(connection))
    connection.isProven = true
    for (const group of groups) group.add(connection)
  }

  began(exchange: Exchange): void {
    const { connection } = exchange
    exchange.refusedBefore = connection.refused
    connection.pending += 1
    connection.isUsed = true
    exchange.slot = this.inFlight.push(exchange) - 1
  }

  ended(exchange: Exchange): void {
    const last = this.inFlight.pop()
    const { slot, connection, response } = exchange
    if (last !== undefined && last !== exchange && slot !== undefined) {
      this.inFlight[slot] = last
      last.slot = slot
    }
    connection.pending -= 1
    connection.refused = exchange.refusal === undefined ? 0 : connection.refused + 1
    this.arrivals[exchange.caller === undefined ? 'others' : 'keyed'] += 1
    if (!response.writableFinished && response.isCutOff === false) connection.brokenOff += 1
  }

  #groupsOf({ addressKey }: ClientConnection): Group[] {
    const siblings = addressKey === undefined ? undefined : this.#ofAddress.get(addressKey)
    return siblings === undefined ? [this.#all] : [this.#all, siblings]
  }

  /** Closes a connection of a full group for a new one; returns false if all are busy. */
  #makeRoom(bound: ConnectionBound, group: Group, most: number, nowMs: number): boolean {
    if (group.size < most) return true
    const connection = group.oneToDisplace(most, nowMs)
    if (connection === undefined) return false
    this.leave(connection)
    // A reset would discard what the client has not yet read of its latest answer.
    if (connection.isProven) connection.transport.destroy()
    else connection.transport.resetAndDestroy()
    this.#onDisplaced(bound)
    return true
  }
}
