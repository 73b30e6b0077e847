/** Serves HTTP/1.1 (RFC 9112) on connections accepted elsewhere, plain or TLS. */
import type { Socket } from 'node:net'
import type { Config } from '../../config/config.ts'
import type { Refusal } from '../rules/refusals.ts'
import type { Connections, ConnectionState, Entry, InFlight } from './connections.ts'
import { Http1Connection } from './http1-connection.ts'
import type { Http1Request, Http1Response } from './http1-messages.ts'

/** Serves connections whose protocol is known; does not listen itself. */
export interface ProtocolServer {
  /** Serves a connection. socket: the TLS socket of the entry, or its transport. */
  take(socket: Socket, entry: Entry): void
  /** Applies another configuration. */
  use(config: Config): void
  /** Closes connections that wait for a next request. */
  closeIdle(): void
  /** Destroys all connections. */
  destroy(): void
  /** Releases what the server holds; called after the last connection has closed. */
  close(): void
}

export interface Http1Events<Request extends InFlight = InFlight> {
  /** Must call framed() of the request before it returns. Never throws or rejects. */
  request(
    request: Http1Request,
    response: Http1Response,
    connection: ConnectionState<Request>,
  ): void
  /** What came is no request, or came too late. seen: the beginning of the head, as latin1; '' in a body. Never throws or rejects. */
  unreadable(connection: Http1Connection, refusal: Refusal, seen: string): void
}

/** Sizes and times of a configuration. */
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
const LOOK_EVERY_MS = 1_000

export function createHttp1Server<Request extends InFlight>(
  config: Config,
  connections: Connections<Request>,
  events: Http1Events<Request>,
): ProtocolServer {
  const all = new Set<Http1Connection>()
  let limits = limitsOf(config)
  const current = () => limits
  // A wait may be shorter than the usual interval.
  const everyMs = Math.min(LOOK_EVERY_MS, limits.headersMs, limits.requestMs)
  const looks = setInterval(() => {
    const nowMs = performance.now()
    for (const connection of all) connection.onLook(nowMs)
  }, everyMs).unref()
  return {
    take(socket, entry) {
      const state = connections.carries(entry)
      const { turn } = connections
      const connection = new Http1Connection(socket, {
        entry,
        state,
        turn,
        events,
        limits: current,
      })
      state.hasMore = () => connection.hasMore
      all.add(connection)
      socket.once('close', () => all.delete(connection))
    },
    use: (next) => void (limits = limitsOf(next)),
    closeIdle: () => {
      for (const connection of all) if (connection.isIdle) connection.destroy()
    },
    destroy: () => {
      for (const connection of all) connection.destroy()
    },
    close: () => clearInterval(looks),
  }
}

function limitsOf({ server, upstream, routes }: Config): Http1Limits {
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
