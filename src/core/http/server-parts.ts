/** What all connections share: whom they report to, and the sizes and times of a configuration. */
import type { Socket } from 'node:net'
import type { Config } from '../../config/config.ts'
import type { Http2Abuse } from '../rules/http2-abuse.ts'
import type { Refusal } from '../rules/refusals.ts'
import type { ConnectionRefusal } from './connection-room.ts'
import type { ClientConnection, Connections } from './connections.ts'
import { Http2Connection } from './h2-connection.ts'
import { Http1Connection } from './http1-connection.ts'
import type { IncomingRequest, OutgoingResponse } from './messages.ts'
import type { Penalties } from './penalties.ts'
import type { HandshakeFault } from './tls-server.ts'

/** None of them ever throws or rejects. */
export interface ServerEvents {
  /** Returns the key that connections of the address count for, and whether the address is a trusted proxy's. */
  addressOf(address: string): { readonly key: string; readonly peerTrusted: boolean }
  /** A connection was refused and closed. */
  refused(address: string, reason: ConnectionRefusal): void
  handshakeFailed(address: string, fault: HandshakeFault, cause: string): void
  /** Must call frame() of the connection before it returns, if there is one. */
  request(request: IncomingRequest, response: OutgoingResponse, connection: ClientConnection): void
  /** What came is no request, or came too late. seen: the beginning of the head, as latin1. */
  unreadable(
    connection: ClientConnection,
    response: OutgoingResponse,
    refusal: Refusal,
    seen: string,
  ): void
  /** The body of a request that has begun cannot be read any further. */
  broken(request: IncomingRequest, refusal: Refusal): void
  abuse(kind: Http2Abuse): void
}

export interface ServerParts {
  readonly connections: Connections
  readonly penalties: Penalties
  readonly events: ServerEvents
  /** The settings in force, which also apply to open connections. These two are written by PublicServer alone. */
  config: Config['server']
  http1Limits: ReturnType<typeof http1Limits>
}

/** Serves a connection whose protocol is known. socket: its TLS socket, or its transport. */
export function serve(
  socket: Socket,
  client: ClientConnection,
  parts: ServerParts,
  isHttp2 = false,
): void {
  client.protocol = isHttp2
    ? new Http2Connection(socket, client, parts)
    : new Http1Connection(socket, client, parts)
}

/** Line ends and method, which are no part of either limit; the gateway's own check comes later and is exact. */
const SLACK_BYTES = 4_096
/** A request that a client sends at the end of the announced idle time is still on its way. */
const IDLE_SLACK_MS = 1_000
/** Time to write the answer after the last time-out that can produce one. */
const SLACK_MS = 10_000

export function http1Limits({ server, upstream, routes }: Config) {
  const { limits, timeouts } = server
  const responseMs = Math.max(
    upstream.timeouts.responseMs,
    ...routes.map((route) => route.responseTimeoutMs ?? 0),
  )
  // RFC 2068 19.7.1.1: a client that reuses the connection after this would meet its end.
  const idleSeconds = Math.floor(timeouts.idleMs / 1000)
  return {
    maxHeadBytes: limits.headerBytes + limits.urlBytes + SLACK_BYTES,
    idleMs: timeouts.idleMs + IDLE_SLACK_MS,
    /** A connection on which nothing moves for this long while a request is under way is destroyed. */
    inactivityMs:
      Math.max(timeouts.requestMs, 2 * upstream.timeouts.connectMs + responseMs) + SLACK_MS,
    /** Fields of an answer after which the connection stays open. */
    keepAliveFields: `Connection: keep-alive\r\nKeep-Alive: timeout=${idleSeconds}\r\n`,
  }
}
