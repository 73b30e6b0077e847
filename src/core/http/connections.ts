/** Keeps the state of each client connection: its requests in flight, and whether it must not be read further. */
import type { Socket } from 'node:net'
import type {
  ConnectionLimits,
  ConnectionRefusal,
  CountedConnection,
  Use,
} from './connection-limits.ts'
import type { IncomingRequest, OutgoingResponse } from './messages.ts'
import { SharedTurn } from './shared-turn.ts'

/** Connections accepted with the same client authorities, or all without TLS, share a door. */
export interface Door {
  /** These settings have changed since: the next answer on each connection is the last. */
  isClosed: boolean
}

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
  readonly door: Door
}

/** An accepted connection is counted until it closes. */
export interface Entry extends Origin, CountedConnection {
  /** The accepted socket, below TLS. */
  readonly transport: Socket
  /** Written by the server of its protocol; until then the connection is idle. */
  look: () => Use
}

/** A connection keeps this of a request in flight. */
export interface InFlight {
  /** The connection or stream that it came on. */
  readonly connection: ConnectionState<InFlight>
  readonly request: IncomingRequest
  readonly response: OutgoingResponse
  /** The request announced a body. */
  readonly hasBody: boolean
  /** Key of the client's address in the anonymous limit. */
  readonly addressKey: string
  /** Caller with a valid credential; undefined: the request carries none, or the check is not finished. */
  readonly caller: object | undefined
  /** Reason of the gateway's refusal; undefined: it has not refused the request. */
  readonly refusal: string | undefined
  /** Index of the request in Connections.inFlight. Written by Connections only. */
  slot: number | undefined
  /** Number of refused requests in a row before it on the same connection. Written by Connections only. */
  refusedBefore: number
}

/** State of a connection or stream. Written by Connections, unless a member names another writer. */
export interface ConnectionState<Request extends InFlight> {
  readonly origin: Origin
  /** The connection's entry; a stream has that of its carrier. undefined: the request came on no connection. */
  readonly entry: Entry | undefined
  /** The connection that carries the stream; undefined: this is no stream. */
  readonly carrier: ConnectionState<Request> | undefined
  /** Number of requests without a complete answer: at most one, unless the connection carries streams. */
  pending: number
  /** A request has begun since the last look for idle connections. */
  isUsed: boolean
  /** Number of refused requests in a row. */
  refused: number
  /** It has carried a valid credential. */
  isKnown: boolean
  /** Number of streams that the client ended before their answers. */
  brokenOff: number
  /** The pending request; undefined on a connection that carries streams. */
  current: Request | undefined
  /** Later requests on this connection are not served. Also written by pipeline and refuse-unparsed, for a refusal that closes. */
  closing: boolean
  /** Reports whether bytes have come behind the pending request. Written by the server of the protocol. */
  hasMore: () => boolean
}

export class Connections<Request extends InFlight> {
  /**
   * All requests without a complete answer, in no order. This is no Set: V8 chains the old tables of a busy Set, and with
   * them every exchange ever in it, until a full collection. Copying dead objects took a quarter of the CPU per request.
   */
  readonly inFlight: Request[] = []
  readonly turn = new SharedTurn()
  /** keyed: requests with a valid credential. others: other requests, and connections without a valid credential so far. Also written by the code that admits connections. */
  readonly arrivals = { keyed: 0, others: 0 }
  readonly #limits: ConnectionLimits

  constructor(limits: ConnectionLimits) {
    this.#limits = limits
  }

  /** Number of connections. */
  get size(): number {
    return this.#limits.size
  }

  /** Counts a connection that was just accepted, or returns why it is refused. addressKey: see CountedConnection. */
  enter(
    transport: Socket,
    origin: Origin,
    addressKey: string | undefined,
  ): Entry | ConnectionRefusal {
    const close = (): void => void transport.resetAndDestroy()
    const entry: Entry = {
      ...origin,
      transport,
      addressKey,
      sinceMs: performance.now(),
      isProven: false,
      look: () => 'idle',
      close,
    }
    const refusal = this.#limits.enter(entry)
    if (refusal !== undefined) return refusal
    transport.once('close', () => this.leave(entry))
    return entry
  }

  /** Stops counting the connection; has no effect if it is not counted. */
  leave(entry: Entry): void {
    this.#limits.leave(entry)
  }

  /** The connection of an entry now carries requests, or streams of requests. */
  carries(entry: Entry): ConnectionState<Request> {
    const state = newState<Request>(entry, entry)
    entry.look = () => {
      if (state.pending > 0) return 'busy'
      const use = state.isUsed ? 'recent' : 'idle'
      state.isUsed = false
      return use
    }
    return state
  }

  /** A request on it has carried a valid key: connections without one are closed first. */
  proved({ entry }: Pick<ConnectionState<Request>, 'entry'>): void {
    if (entry?.isProven === false) this.#limits.prove(entry)
  }

  /** Adds a stream with a state of its own: its end does not end other streams. */
  joined(carrier: ConnectionState<Request>): ConnectionState<Request> {
    return newState(carrier.origin, carrier.entry, carrier)
  }

  began(exchange: Request): void {
    const state = exchange.connection
    const counted = state.carrier ?? state
    exchange.refusedBefore = counted.refused
    state.current = exchange
    state.pending += 1
    state.isUsed = true
    if (counted !== state) {
      counted.pending += 1
      counted.isUsed = true
    }
    exchange.slot = this.inFlight.push(exchange) - 1
  }

  ended(exchange: Request): void {
    const last = this.inFlight.pop()
    const { slot } = exchange
    if (last !== undefined && last !== exchange && slot !== undefined) {
      this.inFlight[slot] = last
      last.slot = slot
    }
    const state = exchange.connection
    state.pending -= 1
    state.current = undefined
    const counted = state.carrier ?? state
    counted.refused = exchange.refusal === undefined ? 0 : counted.refused + 1
    const isKeyed = exchange.caller !== undefined
    this.arrivals[isKeyed ? 'keyed' : 'others'] += 1
    if (isKeyed && !counted.isKnown) this.arrivals.others -= 1
    counted.isKnown ||= isKeyed
    if (counted !== state) {
      counted.pending -= 1
      if (!exchange.response.writableFinished && !exchange.request.socket.isCutOff)
        counted.brokenOff += 1
    }
    if (!exchange.response.shouldKeepAlive) state.closing = true
  }
}

/** The state of a connection or stream that has just begun. */
export function newState<Request extends InFlight>(
  origin: Origin,
  entry?: Entry,
  carrier?: ConnectionState<Request>,
): ConnectionState<Request> {
  return {
    origin,
    entry,
    carrier,
    pending: 0,
    isUsed: false,
    refused: 0,
    isKnown: false,
    brokenOff: 0,
    current: undefined,
    closing: false,
    hasMore: () => false,
  }
}
