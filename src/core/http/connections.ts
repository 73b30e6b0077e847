/** Keeps the state of each client connection: its requests in flight, and whether it must not be read further. */
import type { Socket } from 'node:net'
import type {
  ConnectionLimits,
  ConnectionRefusal,
  CountedConnection,
  Use,
} from './connection-limits.ts'
import { Inflow } from './inflow.ts'
import type { ClientChannel, IncomingRequest, OutgoingResponse } from './messages.ts'
import { endWithSocket, isLast, lingerOnClose } from './node-internals.ts'
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
  readonly request: IncomingRequest
  readonly response: OutgoingResponse
  /** The request announced a body. */
  readonly hasBody: boolean
  /** Declared length; 0: no body; undefined: the body is chunked. */
  readonly bodyBytes: number | undefined
  /** Key of the client's address in the anonymous limit. */
  readonly addressKey: string
  /** Caller with a valid credential; undefined: the request carries none, or the check is not finished. */
  readonly caller: object | undefined
  /** Reason of the gateway's refusal; undefined: it has not refused the request. */
  readonly refusal: string | undefined
  /** Bytes of the body received so far. Written by Inflow; for a stream by Connections. */
  receivedBytes: number
  /** Index of the request in Connections.inFlight. Written by Connections only. */
  slot: number | undefined
  /** Number of refused requests in a row before it on the same connection. Written by Connections only. */
  refusedBefore: number
}

/** State of a connection or stream. Written by Connections, unless a member names another writer. */
export interface ConnectionState<Request extends InFlight> {
  readonly origin: Origin
  /** undefined: a stream, or an unknown connection. */
  entry: Entry | undefined
  /** The connection that carries the stream; undefined: this is no stream. */
  readonly carrier: ConnectionState<Request> | undefined
  /** Number of requests without a complete answer. */
  pending: number
  /** A request has begun since the last look for idle connections. */
  isUsed: boolean
  /** Number of refused requests in a row. */
  refused: number
  /** It has carried a valid credential. */
  isKnown: boolean
  /** Number of streams that the client ended before their answers. */
  brokenOff: number
  /** The latest pending request. */
  latest: Request | undefined
  /** Later requests on this connection are not served. Also written by pipeline and refuse-unparsed, for a refusal that closes. */
  closing: boolean
  /** The last request was answered before its whole body had arrived; the rest may still come. */
  isBodyLeft: boolean
  /** Runs once when pending falls to zero. Written by the front door and refuse-unparsed, for an answer that must wait its turn. */
  whenIdle: (() => void) | undefined
  /** undefined: the connection is a stream, or http has handed it over. */
  inflow: Inflow | undefined
  /** Reports whether the connection closes: later requests on it must not be served, even if they were already sent. */
  isClosing(): boolean
}

const UNKNOWN_ORIGIN: Origin = {
  address: '',
  isNamed: false,
  proto: 'http',
  door: { isClosed: false },
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
  readonly #states = new WeakMap<object, ConnectionState<Request>>()
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

  /** The HTTP/1.1 server has taken the connection of an entry. */
  opened(socket: Socket, entry: Entry): void {
    const state = this.carries(socket, entry)
    // The client may have sent more before it sees the last answer.
    lingerOnClose(socket)
    state.inflow = new Inflow(socket, state, this.turn)
  }

  /** The connection of an entry now carries requests, or streams of requests. */
  carries(socket: Socket, entry: Entry): ConnectionState<Request> {
    const state = this.of(socket, entry)
    state.entry = entry
    entry.look = () => {
      if (state.pending > 0) return 'busy'
      const use = state.isUsed ? 'recent' : 'idle'
      state.isUsed = false
      return use
    }
    return state
  }

  /** A request on it has carried a valid key: connections without one are closed first. */
  proved(channel: ClientChannel): void {
    const state = this.of(channel)
    const { entry } = state.carrier ?? state
    if (entry !== undefined && !entry.isProven) this.#limits.prove(entry)
  }

  /** Adds a stream with a state of its own: its end does not end other streams. */
  joined(channel: ClientChannel, carrier: ConnectionState<Request>): ConnectionState<Request> {
    const state = newState(carrier.origin, carrier)
    this.#states.set(channel, state)
    return state
  }

  /** Returns the state of a connection. origin: used if the connection has no state yet. */
  of(socket: Pick<ClientChannel, 'once'>, origin = UNKNOWN_ORIGIN): ConnectionState<Request> {
    const known = this.#states.get(socket)
    if (known !== undefined) return known
    const state = newState<Request>(origin)
    this.#states.set(socket, state)
    endWithSocket(socket, () =>
      state.pending === 0
        ? []
        : this.inFlight
            .filter(({ request }) => request.socket === socket)
            .map((one) => one.response),
    )
    return state
  }

  /** Reports whether the latest pending request has a chunked body. */
  isInChunks(socket: ClientChannel): boolean {
    const { latest } = this.of(socket)
    return latest !== undefined && latest.hasBody && latest.bodyBytes === undefined
  }

  began(exchange: Request): void {
    const state = this.of(exchange.request.socket)
    const { latest } = state
    // The previous request may be refused but not ended.
    exchange.refusedBefore =
      latest?.refusal === undefined ? (state.carrier ?? state).refused : latest.refusedBefore + 1
    state.pending += 1
    state.isUsed = true
    state.latest = exchange
    state.isBodyLeft = false
    if (state.carrier !== undefined) {
      state.carrier.pending += 1
      state.carrier.isUsed = true
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
    const state = this.of(exchange.request.socket)
    state.pending -= 1
    const counted = state.carrier ?? state
    counted.refused = exchange.refusal === undefined ? 0 : counted.refused + 1
    const isKeyed = exchange.caller !== undefined
    this.arrivals[isKeyed ? 'keyed' : 'others'] += 1
    if (isKeyed && !counted.isKnown) this.arrivals.others -= 1
    counted.isKnown ||= isKeyed
    if (state.carrier !== undefined) {
      state.carrier.pending -= 1
      const { socket } = exchange.request
      if (!exchange.response.writableFinished && !socket.isCutOff) state.carrier.brokenOff += 1
      exchange.receivedBytes = socket.bytesRead
    }
    if (isLast(exchange.response)) state.closing = true
    state.isBodyLeft = exchange.hasBody && !exchange.request.complete
    if (state.latest === exchange) state.latest = undefined
    state.inflow?.answered()
    if (state.pending > 0) return
    const { whenIdle } = state
    state.whenIdle = undefined
    whenIdle?.()
  }
}

function newState<Request extends InFlight>(
  origin: Origin,
  carrier?: ConnectionState<Request>,
): ConnectionState<Request> {
  const state: ConnectionState<Request> = {
    origin,
    entry: undefined,
    carrier,
    pending: 0,
    isUsed: false,
    refused: 0,
    isKnown: false,
    brokenOff: 0,
    latest: undefined,
    closing: false,
    isBodyLeft: false,
    whenIdle: undefined,
    inflow: undefined,
    isClosing: () => state.closing || (state.latest !== undefined && isLast(state.latest.response)),
  }
  return state
}
