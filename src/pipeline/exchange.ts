/** The record of one request, from its first byte to its log line. Types only. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { Duplex } from 'node:stream'
import type { ForwardHandle } from '../forwarding/forwarder.ts'
import type { QuotaView } from '../rules/quota-headers.ts'
import type { Admission } from '../quota/protocol.ts'
import type { RefusalCode } from '../rules/refusals.ts'
import type { Caller } from '../rules/credentials.ts'
import type { Route } from '../rules/routes.ts'

export interface Tunnel {
  readonly socket: Duplex
  /** What arrived behind the request's head. */
  readonly head: Buffer
}

/** Each field is written by the stage it stands under, and by whom its comment names besides. */
export interface Exchange {
  // accept; all read-only ones
  readonly request: IncomingMessage
  readonly response: ServerResponse
  /** X-Request-Id of the request, the answer and the log line. */
  readonly id: string
  /** performance.now() when the head of the request had been read. */
  readonly startedMs: number
  /** The caller's address, from X-Forwarded-For only where the peer is a trusted proxy. */
  readonly clientAddress: string
  /** Under which the anonymous limit counts: the IPv4 address or the IPv6 /64. */
  readonly addressKey: string
  /** Trusted proxies between the client and us, joined as X-Forwarded-For is; '' if there are none. */
  readonly proxies: string
  /** How the client reached us, or the first trusted proxy. */
  readonly proto: 'http' | 'https'
  /** Where Connections keeps it among the requests in flight. Written by Connections alone. */
  slot: number | undefined
  /** The request announced `Expect: 100-continue`: its body is not sent before we say so. */
  readonly expectsContinue: boolean
  /** The request announced a body. */
  readonly hasBody: boolean
  /** Declared length; 0 without a body, undefined when it comes in chunks or the framing is not sound. */
  readonly bodyBytes: number | undefined
  /** The bare connection of a request that came with an Upgrade field. */
  readonly tunnel: Tunnel | undefined

  // match-route
  /** Path as routed, forwarded and logged; undefined until the target was found sound. */
  path: string | undefined
  route: Route | undefined

  // pipeline
  /** As received, where the request is refused before a sound path was found in it: for the log alone. */
  target: string | undefined

  // authenticate
  caller: Caller | undefined
  /** Whose key it is that was refused, where that is known: for the log alone. */
  refusedCaller: Caller | undefined

  // take-quota
  /** The charge that stands; undefined before it was made and once refund() has handed it back. */
  admission: Admission | undefined
  /** Where the client stands; undefined before the decision and in a degraded mode. Written by tellQuota() too. */
  quota: QuotaView | undefined
  /** The store was away and the request was decided without it. */
  degraded: boolean
  /** Quota header fields of the answer, flat. Written by whichever of pipeline, authenticate, check-ban and take-quota decided last. */
  quotaHeaders: readonly string[]

  // forward, or upgrade
  /** Name of the backend it was sent to last; undefined before one was picked. */
  backend: string | undefined
  backendStartedMs: number | undefined
  backendEndedMs: number | undefined
  /** Of forward alone: a tunnel has none. */
  forwarding: ForwardHandle | undefined
  /** Of a backend's body by forward, of a refusal's by respond. */
  responseBytes: number

  // respond
  /** Status sent, 101 for a tunnel; 0 before. Written by forward and upgrade for what they pass on, by accept as 499 when the client left before. */
  status: number
  refusal: RefusalCode | undefined
  /** Why, for the log only. Written by forward for an answer that broke off, by accept when the client left. */
  cause: string | undefined

  // record
  recorded: boolean
}
