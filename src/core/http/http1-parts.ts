/** What all HTTP/1.1 connections share: whom they report to, and the sizes and times of a configuration. */
import type { Config } from '../../config/config.ts'
import type { Refusal } from '../rules/refusals.ts'
import type { ClientConnection } from './connections.ts'
import type { Http1Connection } from './http1-connection.ts'
import type { Http1Request, Http1Response } from './http1-messages.ts'
import type { SharedTurn } from './shared-turn.ts'

export interface Http1Events {
  /** Must call framed() of the request before it returns. Never throws or rejects. */
  request(request: Http1Request, response: Http1Response, connection: ClientConnection): void
  /** What came is no request, or came too late. seen: the beginning of the head, as latin1; '' in a body. Never throws or rejects. */
  unreadable(connection: Http1Connection, refusal: Refusal, seen: string): void
}

export interface Http1Parts {
  readonly turn: SharedTurn
  readonly events: Http1Events
  /** Returns the limits in force. A connection asks again at each use, as a reload may have changed them. */
  readonly limits: () => Http1Limits
}

export interface Http1Limits {
  readonly maxHeadBytes: number
  readonly headersMs: number
  readonly requestMs: number
  readonly idleMs: number
  /** A connection on which nothing moves for this long while a request is under way is destroyed. */
  readonly inactivityMs: number
  /** Fields of an answer after which the connection stays open. */
  readonly keepAliveFields: string
}

/** Line ends and method, which are no part of either limit; the gateway's own check comes later and is exact. */
const SLACK_BYTES = 4_096
/** A request that a client sends at the end of the announced idle time is still on its way. */
const IDLE_SLACK_MS = 1_000
/** Time to write the answer after the last time-out that can produce one. */
const SLACK_MS = 10_000

export function http1Limits({ server, upstream, routes }: Config): Http1Limits {
  const { limits, timeouts } = server
  const responseMs = Math.max(
    upstream.timeouts.responseMs,
    ...routes.map((route) => route.responseTimeoutMs ?? 0),
  )
  // RFC 2068 19.7.1.1: a client that reuses the connection after this would meet its end.
  const idleSeconds = Math.floor(timeouts.idleMs / 1000)
  return {
    maxHeadBytes: limits.headerBytes + limits.urlBytes + SLACK_BYTES,
    headersMs: timeouts.headersMs,
    requestMs: timeouts.requestMs,
    idleMs: timeouts.idleMs + IDLE_SLACK_MS,
    inactivityMs:
      Math.max(timeouts.requestMs, 2 * upstream.timeouts.connectMs + responseMs) + SLACK_MS,
    keepAliveFields: `Connection: keep-alive\r\nKeep-Alive: timeout=${idleSeconds}\r\n`,
  }
}
