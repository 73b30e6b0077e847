/** The record of one request, from its first byte to its log line, and what it shares with others. */
import type { Config } from '../../config/config.ts'
import type { BanBook } from '../bans/ban-book.ts'
import type { AnonymousLimiter, AnonymousView } from '../credentials/anonymous-limiter.ts'
import type { KeyRing, TokenPolicy } from '../credentials/callers.ts'
import type { JwtVerifier } from '../credentials/jwt-verifier.ts'
import type { Forwarding } from '../forwarding/attempts.ts'
import type { ReceivedBody } from '../forwarding/engine.ts'
import type { Tunnels } from '../forwarding/tunnel.ts'
import type { ClientConnection, Connections } from '../http/connections.ts'
import type { IncomingRequest, OutgoingResponse } from '../http/messages.ts'
import type { Log } from '../record/log.ts'
import type { RecentDecisions } from '../record/recent.ts'
import type { Metrics } from '../record/metrics.ts'
import type { Trace, Tracing } from '../record/tracing.ts'
import type { Lessee } from '../quota/lessee.ts'
import type { Admission, QuotaView } from '../quota/decision.ts'
import { isRefusal, type Refusal } from '../rules/refusals.ts'
import type { ClientAddress, ClientAddressOf } from '../rules/client-address.ts'
import type { BackendFailure } from '../rules/backend-failure.ts'
import type { Cors } from '../rules/cors.ts'
import type { Caller } from '../rules/credentials.ts'
import { UNSOUND, type Framing } from '../rules/framing.ts'
import type { Shed } from '../rules/overload.ts'
import type { RequestIdOf } from '../rules/request-id.ts'
import type { Route, RouteTable } from '../rules/routes.ts'
import type { TunnelEnd } from '../rules/websocket.ts'
import type { JudgeByShadow, ShadowCharge } from '../record/shadow.ts'
import type { Tally } from '../record/tally.ts'
import type { UniqueTimestamps } from '../record/access-record.ts'
import type { ClientTurns } from './take-turn.ts'

/** Parts that all requests share, whatever configuration they began under. */
export interface PipelineParts extends Charges {
  readonly connections: Connections
  readonly requestId: RequestIdOf
  readonly log: Log
  readonly metrics: Metrics
  readonly tracing: Tracing
  readonly tunnels: Tunnels
  readonly tally: Tally
  readonly recent: RecentDecisions
  /** Counts calls of deprecated routes. userAgent: as it was sent. */
  readonly deprecated: {
    called(route: string, client: string, userAgent: string | undefined, nowMs: number): void
  }
  /** Written by the front door alone. */
  isDraining: boolean
}

export interface Arrival {
  readonly connection: ClientConnection
  readonly request: IncomingRequest
  readonly response: OutgoingResponse
}

/** The part of its configuration that a request needs after the decision. It is kept small, since a WebSocket keeps it for days. */
export interface Terms {
  readonly server: Config['server']
  /** Value of Strict-Transport-Security over TLS; undefined: none. */
  readonly hsts: string | undefined
  /** Short name of the configuration. */
  readonly revision: string
}

/** Makes and records charges. */
export interface Charges {
  readonly lessee: Lessee
  readonly tally: Pick<Tally, 'admitted' | 'refused' | 'refunded'>
  readonly timestamps: Pick<UniqueTimestamps, 'next'>
}

/** What the stages of one configuration decide by; each request keeps the policy that it began under. */
export interface Policy extends Charges {
  readonly terms: Terms
  readonly clientAddress: ClientAddressOf
  /** undefined: no page of another origin may read answers. */
  readonly cors: Cors | undefined
  readonly table: RouteTable
  readonly unmatched: 'forward' | 'reject'
  readonly keyRing: Pick<KeyRing, 'find'>
  /** undefined: tokens are not accepted. */
  readonly verifier: Pick<JwtVerifier, 'verify'> | undefined
  readonly tokenPolicy: TokenPolicy
  readonly anonymous: AnonymousLimiter
  /** Returns the quota header fields of an address, flat. */
  readonly anonymousHeaders: (view: AnonymousView) => string[]
  /** What the last look at the event loop says has to be refused. */
  readonly load: { readonly shed: Shed }
  readonly bans: BanBook
  /** undefined: no plan has limits that are only tried. */
  readonly judgeByShadow: JudgeByShadow | undefined
  readonly turns: { of(clientId: string): Pick<ClientTurns, 'take' | 'giveBack'> }
  readonly epochMs: () => number
}

/** The fields that the stages of judge() read and write; a caller without sockets, such as a replay, provides only these. */
export type Judged = Pick<
  Exchange,
  'route' | 'trace' | 'decidedMs' | 'admission' | 'shadow' | 'quota' | 'degraded' | 'quotaHeaders'
>

export const NO_HEADERS: readonly string[] = []

/** Each field is written by the stage it stands under, and by those that its comment names. */
export class Exchange {
  // accept, and all read-only fields
  readonly terms: Terms
  readonly connection: ClientConnection
  readonly request: IncomingRequest
  readonly response: OutgoingResponse
  /** X-Request-Id of the request, the answer and the log line. */
  readonly id: string
  /** Id of this process, where the request's id is the caller's own and does not contain it. */
  readonly process: string | undefined
  /** performance.now() when the head of the request had been read. */
  readonly startedMs: number
  /** Its address comes from X-Forwarded-For only where the peer is a trusted proxy. */
  readonly sender: ClientAddress
  /** Scheme on which the client reached the gateway or the first trusted proxy; the backend gets it as X-Forwarded-Proto. */
  readonly proto: 'http' | 'https'
  /** Index among the requests in flight. Written by Connections alone. */
  slot: number | undefined
  /** Refused requests in a row directly before this one on the same connection. Written by Connections alone. */
  refusedBefore = 0
  /** UNSOUND where the request was refused for its framing. */
  readonly framing: Framing

  // match-route
  /** Path as routed, forwarded and logged; undefined until the target was found sound. */
  path: string | undefined
  /** Target in origin form as it goes to the backend, byte for byte; '' until it was found sound. Written by pipeline. */
  target = ''
  route: Route | undefined

  // pipeline
  /** undefined where tracing is off. */
  trace: Trace | undefined
  /** Header fields that let a page read the answer, flat; empty where `cors` is not set. Written by answer-preflight too. */
  corsHeaders = NO_HEADERS

  // authenticate
  caller: Caller | undefined
  /** Owner of a refused key, where that is known; for the log alone. */
  refusedCaller: Caller | undefined

  // take-quota
  /** Time of the last decision on the request, see UniqueTimestamps; undefined before. Written by check-ban too. */
  decidedMs: number | undefined
  /** Time at which the charge was handed back; undefined: it was not. Written by refund(). */
  refundedMs: number | undefined
  /** The charge that stands; undefined before it was made and once refund() has handed it back. */
  admission: Admission | undefined
  /** Charge by limits that are only tried; undefined: the plan tries none. */
  shadow: ShadowCharge | undefined
  /** The client's quota; undefined before the decision and in a degraded mode. Written by setQuota() too. */
  quota: QuotaView | undefined
  /** The store was away and the request was decided without it. */
  degraded = false
  /** Quota header fields of the answer, flat. Written by whichever of pipeline, authenticate, check-ban and take-quota decided last. */
  quotaHeaders = NO_HEADERS

  // take-turn
  /** The client's turns, one of which the request has taken; undefined before. */
  turn: { giveBack(): void } | undefined

  // receive-body
  /** Beginning of the body, read before a backend was chosen; undefined without a body, or when all of it is streamed. */
  received: ReceivedBody | undefined
  /** Time spent waiting for the client, which is neither the gateway's nor the backend's. Written by wait() and goOn(), for take-turn too. */
  waitedMs = 0
  #waitsSinceMs: number | undefined

  // forward
  /** Name of the backend that the request was sent to last; undefined before one was picked. */
  backend: string | undefined
  /** Backends that failed before, and why. Written by sentTo() alone. */
  retried: string | undefined
  backendStartedMs: number | undefined
  backendEndedMs: number | undefined
  /** undefined while no backend can have seen any of the request. */
  forwarding: Forwarding | undefined
  tunnelEnd: TunnelEnd | undefined
  /** Bytes of the answer's body. Written by forward for a backend's, by respond for a refusal's. */
  responseBytes = 0

  // respond
  /** Status sent, 101 for a tunnel; 0 before. Written by forward for what it passes on, by accept as 499 when the client left before. */
  status = 0
  refusal: Refusal | undefined
  /** Why the request was refused or failed, for the log only. Written by forward for an answer that broke off, by accept when the client left. */
  cause: string | undefined

  // accept
  /** performance.now() when the answer was complete or the client had left; undefined before. */
  endedMs: number | undefined

  /** clientAddress and terms are those of the policy that the request begins under. */
  constructor(
    requestId: RequestIdOf,
    { connection, request, response }: Arrival,
    framing: Framing | Refusal,
    { clientAddress, terms }: { clientAddress: ClientAddressOf; terms: Terms },
  ) {
    // No forwarding header is believed in a request that cannot be read safely.
    this.framing = isRefusal(framing) ? UNSOUND : framing
    const { forwardedFor, forwardedProto, requestId: givenId } = this.framing
    const { address: peer, isNamed, proto } = connection.origin
    const sender = clientAddress(peer, isNamed ? forwardedFor : undefined)
    this.sender = isNamed ? sender : { ...sender, peerTrusted: false }
    const { peerTrusted } = this.sender
    this.terms = terms
    this.connection = connection
    this.request = request
    this.response = response
    const inbound = peerTrusted ? givenId : undefined
    this.id = requestId(inbound)
    this.process = inbound === this.id ? requestId.process : undefined
    this.startedMs = performance.now()
    this.proto = (peerTrusted ? forwardedProto : undefined) ?? proto
  }

  get hasBody(): boolean {
    return this.framing.body !== 'none'
  }

  /** Declared length; 0 without a body, undefined when it comes in chunks or the framing is not sound. */
  get bodyBytes(): number | undefined {
    return this.framing.body === 'chunked' ? undefined : this.framing.bodyBytes
  }

  /** Whether the request was answered, or the client left, while it was being decided. */
  get isOver(): boolean {
    return this.endedMs !== undefined || this.response.destroyed || this.refusal !== undefined
  }

  /** after: why the attempt before failed, if there was one. */
  sentTo(backend: string, after: BackendFailure | undefined): void {
    const others = this.retried === undefined ? '' : `${this.retried}; `
    if (after !== undefined) this.retried = `${others}${this.backend}: ${after.cause}`
    this.backend = backend
    this.trace?.sentTo(backend, this.request.method, after)
  }

  wait(): void {
    this.#waitsSinceMs ??= performance.now()
  }

  goOn(): void {
    if (this.#waitsSinceMs === undefined) return
    this.waitedMs += performance.now() - this.#waitsSinceMs
    this.#waitsSinceMs = undefined
  }
}
