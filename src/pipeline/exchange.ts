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

export interface Exchange {
  // accept
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
  /** Where connections keeps it among the requests in flight. */
  slot: number
  /** The request announced `Expect: 100-continue`: its body is not sent before we say so. */
  readonly expectsContinue: boolean
  /** The request announced a body. */
  readonly hasBody: boolean
  /** Declared length; 0 without a body, -1 when chunked. */
  readonly bodyBytes: number
  /** The bare connection of a request that came with an Upgrade field. */
  readonly tunnel: Tunnel | undefined

  // match-route
  /** Path as routed, forwarded and logged; undefined until the target was found sound. */
  path: string | undefined
  route: Route | undefined

  // authenticate
  caller: Caller | undefined

  // take-quota
  /** The charge that stands; undefined before it was made and once it has been handed back. */
  admission: Admission | undefined
  /** Where the client stands; undefined before the decision and in a degraded mode. */
  quota: QuotaView | undefined
  /** The store was away and the request was decided without it. */
  degraded: boolean
  /** Quota header fields of the answer, flat; set by whichever stage decided. */
  quotaHeaders: readonly string[]

  // forward
  /** Name of the backend it was sent to last; undefined before one was picked. */
  backend: string | undefined
  backendStartedMs: number | undefined
  backendEndedMs: number | undefined
  forwarding: ForwardHandle | undefined
  responseBytes: number

  // respond
  /** Status sent; 499 when the client left before one was, 101 for a tunnel. */
  status: number
  refusal: RefusalCode | undefined
  /** Why, for the log only. */
  cause: string | undefined
  recorded: boolean
}
