/** Keeps what is known of each client connection from its acceptance to its close, and all requests in flight. */
import type { Socket } from 'node:net'
import { ConnectionLimits, type ConnectionBound, type Use } from './connection-limits.ts'
import type { Exchange } from '../pipeline/exchange.ts'
import { SharedTurn, type Sharer } from './shared-turn.ts'

/** The origin of a connection. */
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
  readonly hasMore: boolean
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
  /** A request on it has carried a valid key. Written by ConnectionLimits only. */
  isProven = false
  /** TLS or its client authorities are others now: the next answer is the last. Written by PublicServer only. */
  isOutdated = false
  /** undefined: its PROXY header, handshake or preface is under way. Written by the protocol's connection. */
  protocol: ProtocolConnection | undefined
  /** Number of requests without a complete answer: at most one with HTTP/1.1. */
  pending = 0
  /** A request has begun since the last look for idle connections. */
  isUsed = false
  /** Number of refused requests in a row. */
  refused = 0
  /** Number of streams that the client ended before their answers. */
  brokenOff = 0
  /** The pending request, with HTTP/1.1. */
  current: Exchange | undefined

  constructor(transport: Socket, origin: Origin, addressKey: string | undefined) {
    this.transport = transport
    this.origin = origin
    this.addressKey = addressKey
  }

  get hasMore(): boolean {
    return this.protocol?.hasMore === true
  }

  /** A finished request counts as recent in one look only. */
  look(): Use {
    if (this.pending > 0) return 'busy'
    const use = this.isUsed ? 'recent' : 'idle'
    this.isUsed = false
    return use
  }

  close(): void {
    this.transport.resetAndDestroy()
  }
}

export class Connections extends ConnectionLimits {
  /**
   * All requests without a complete answer, in no order. This is no Set: V8 chains the old tables of a busy Set, and with
   * them every exchange ever in it, until a full collection. Copying dead objects took a quarter of the CPU per request.
   */
  readonly inFlight: Exchange[] = []
  readonly turn = new SharedTurn()
  /** keyed: requests with a valid credential. others: other requests, and connections without a valid credential so far. Also written by the way in. */
  readonly arrivals = { keyed: 0, others: 0 }

  /** Counts a connection that was just accepted, or returns why it is refused. */
  accept(
    transport: Socket,
    origin: Origin,
    addressKey: string | undefined,
  ): ClientConnection | ConnectionBound {
    const connection = new ClientConnection(transport, origin, addressKey)
    const refusal = this.enter(connection)
    if (refusal !== undefined) return refusal
    transport.once('close', () => this.leave(connection))
    return connection
  }

  override prove(connection: ClientConnection): void {
    if (connection.isProven) return
    super.prove(connection)
    this.arrivals.others -= 1
  }

  began(exchange: Exchange): void {
    const { connection } = exchange
    exchange.refusedBefore = connection.refused
    connection.current = exchange
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
    connection.current = undefined
    connection.refused = exchange.refusal === undefined ? 0 : connection.refused + 1
    this.arrivals[exchange.caller === undefined ? 'others' : 'keyed'] += 1
    if (!response.writableFinished && response.isCutOff === false) connection.brokenOff += 1
  }
}
