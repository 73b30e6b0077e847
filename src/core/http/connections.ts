/** What the gateway knows of each client connection: requests in flight on it, and whether it must not be read further. */
import type { Socket } from 'node:net'
import type { ConnectionLimits, ConnectionRefusal, Guest, Use } from './connection-limits.ts'
import { Inflow } from './inflow.ts'
import type { ClientChannel, IncomingRequest, OutgoingResponse } from './messages.ts'
import { endWithSocket, isLast, lingerOnClose } from './node-internals.ts'
import { SharedTurn } from './shared-turn.ts'

/** What connections have in common that came in under the same demands. */
export interface Door {
  /** Other demands are made by now: the next answer on each is the last. */
  isClosed: boolean
}

/** Where a connection comes from. */
export interface Origin {
  /** IP address of the client; '' for a connection that has none any more. */
  readonly address: string
  /**
   * PROXY named the address, or PROXY is off: what a trusted proxy says of others is believed. The address of a balancer that
   * names nobody (UNKNOWN, LOCAL) says nothing of who sends the request.
   */
  readonly isNamed: boolean
  readonly proto: 'http' | 'https'
  readonly door: Door
}

/** A connection that was accepted, and is counted until it closes. */
export interface Entry extends Origin, Guest {
  /** As it was accepted, below TLS. */
  readonly transport: Socket
  /** Written by whoever serves it; until then it is idle. */
  look: () => Use
}

/** A request in flight, as its connection knows it. */
export interface InFlight {
  readonly request: IncomingRequest
  readonly response: OutgoingResponse
  /** The request announced a body. */
  readonly hasBody: boolean
  /** Declared length; 0 without a body, undefined where its last chunk tells. */
  readonly bodyBytes: number | undefined
  /** The key under which the anonymous limit counts its client's address. */
  readonly addressKey: string
  /** The caller whose valid credential it carries; undefined: it carries none, or that is not known yet. */
  readonly caller: object | undefined
  /** Why the gateway refused it; undefined as long as it has not. */
  readonly refusal: string | undefined
  /** Of its body. Written by Inflow, and by Connections of a stream's. */
  receivedBytes: number
  /** Written by Connections alone: where it keeps the request. */
  slot: number | undefined
  /** Written by Connections alone: how many requests in a row, before it on the same connection, were refused. */
  refusedBefore: number
}

/** Written by Connections, where nobody else is named. */
export interface ConnectionState<Request extends InFlight> {
  readonly origin: Origin
  /** undefined: of a stream, or of one that is not known. */
  entry: Entry | undefined
  /** Of a stream: the connection that carries it. */
  readonly carrier: ConnectionState<Request> | undefined
  /** Requests that have not been answered to the end. */
  pending: number
  /** A request has begun since somebody looked for connections that are not used. */
  isUsed: boolean
  /** Requests that were refused since one was not. */
  refused: number
  /** It has carried a valid credential. */
  isKnown: boolean
  /** Streams that their client ended before their answers. */
  brokenOff: number
  /** The youngest of those pending. */
  latest: Request | undefined
  /** What follows on this connection is not served. Also written by pipeline and refuse-unparsed, for a refusal that closes. */
  closing: boolean
  /** The last request ended before its body had arrived: what comes of it now was answered already. */
  isBodyLeft: boolean
  /** Runs once pending falls to zero, and is taken away. Written by the front door and refuse-unparsed, for what has to wait its turn. */
  whenIdle: (() => void) | undefined
  /** undefined for what http has made of a connection that was handed over. */
  inflow: Inflow | undefined
  /** What follows on a connection that is to be closed must not be served, not even if it was already sent. */
  isClosing(): boolean
}

const NOWHERE: Origin = {
  address: '',
  isNamed: false,
  proto: 'http',
  door: { isClosed: false },
}

export class Connections<Request extends InFlight> {
  /**
   * All requests that have not been answered to the end, in no order; changes as they end. Not a Set: V8 chains the tables
   * that a busy Set leaves behind, and with them every exchange ever in it, until a full collection. A quarter of the CPU
   * per request went into copying what was dead.
   */
  readonly inFlight: Request[] = []
  readonly turn = new SharedTurn()
  /** Requests with a valid credential; other requests, and connections on which none with a valid credential has come. Also written by who lets connections in. */
  readonly arrivals = { keyed: 0, others: 0 }
  readonly #states = new WeakMap<object, ConnectionState<Request>>()
  readonly #limits: ConnectionLimits

  /** limits: of the connections there may be. */
  constructor(limits: ConnectionLimits) {
    this.#limits = limits
  }

  /** How many connections there are. */
  get size(): number {
    return this.#limits.size
  }

  /** A connection that was just accepted; addressKey: see Guest. Why it may not stay, if it may not. */
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

  /** It is counted no more, if it was. */
  leave(entry: Entry): void {
    this.#limits.leave(entry)
  }

  /** Of an entry: a connection that http has just taken. */
  opened(socket: Socket, entry: Entry): void {
    const state = this.carries(socket, entry)
    // Whoever said that it is the last answer: the client may have sent more by then.
    lingerOnClose(socket)
    state.inflow = new Inflow(socket, state, this.turn)
  }

  /** Of an entry: a connection that carries requests, be it as streams of their own. */
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

  /** A request on it has carried a valid key: it is kept before those on which none has. */
  proved(channel: ClientChannel): void {
    const state = this.of(channel)
    const { entry } = state.carrier ?? state
    if (entry !== undefined && !entry.isProven) this.#limits.prove(entry)
  }

  /** A stream: what is said of it ends none beside it. */
  joined(channel: ClientChannel, carrier: ConnectionState<Request>): ConnectionState<Request> {
    const state = newState(carrier.origin, carrier)
    this.#states.set(channel, state)
    return state
  }

  /** origin: of one that is not known yet. */
  of(socket: Pick<ClientChannel, 'once'>, origin = NOWHERE): ConnectionState<Request> {
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

  /** The youngest request that is pending has a body whose last chunk tells its length. */
  isInChunks(socket: ClientChannel): boolean {
    const { latest } = this.of(socket)
    return latest !== undefined && latest.hasBody && latest.bodyBytes === undefined
  }

  began(exchange: Request): void {
    const state = this.of(exchange.request.socket)
    const { latest } = state
    // One that was refused just now has not ended yet.
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
