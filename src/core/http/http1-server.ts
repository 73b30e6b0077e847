/** Serves HTTP/1.1 on connections accepted elsewhere: with Node's strict parser, its limits and time-outs, and every event that can bring a request. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Config } from '../../config/config.ts'
import type { Entry } from './connections.ts'
import type { ParserError } from './inflow.ts'
import { feed, keepEveryField, serveUnbound } from './node-internals.ts'
import { ServerLimits } from './server-limits.ts'

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

export interface Http1Events {
  /** Node's http has taken a connection. */
  connection(socket: Socket, entry: Entry): void
  /** Never throws or rejects. */
  request(request: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void
  /** Decides whether a request with an Upgrade field goes to `upgrade`; all others are plain requests. */
  isHandshake(request: IncomingMessage): boolean
  /** Never throws or rejects. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
  /** Receives CONNECT, which Node hands over as a bare socket. */
  connect(request: IncomingMessage, socket: Duplex): void
  /** The parser failed, or a time-out of the server passed. */
  clientError(error: ParserError, socket: Socket): void
}

export function createHttp1Server(config: Config, events: Http1Events): ProtocolServer {
  const { timeouts } = config.server
  const server = createServer(
    {
      // Time-outs act only when this check runs; Node's default of 30 s would let a 10 s limit last 40.
      connectionsCheckingInterval: Math.min(1_000, timeouts.headersMs, timeouts.requestMs),
      // The gateway counts Host fields itself, so that their refusal has the same form as all others.
      requireHostHeader: false,
      insecureHTTPParser: false,
      shouldUpgradeCallback: (request) => events.isHandshake(request),
      optimizeEmptyRequests: true,
    },
    (request, response) => begin(request, response, false),
  )
  const begin: Http1Events['request'] = (request, ...others) => {
    const { socket } = request
    // Node renews the time-out only after an answer: the first request after a reload would have the old one.
    if (socket.timeout !== server.timeout) socket.setTimeout(server.timeout)
    events.request(request, ...others)
  }
  // ServerLimits bounds the bytes, and the gateway's own count refuses too many fields.
  keepEveryField(server)
  const limits = new ServerLimits(server, config)
  server.on('checkContinue', (request, response) => begin(request, response, true))
  server.on('checkExpectation', (request, response) => begin(request, response, false))
  server.on('upgrade', events.upgrade)
  server.on('connect', events.connect)
  server.on('clientError', (error, socket) => events.clientError(error, socket as Socket))
  serveUnbound(server)
  return {
    take: (socket, entry) => {
      feed(server, socket)
      events.connection(socket, entry)
    },
    use: (next) => limits.use(next),
    closeIdle: () => server.closeIdleConnections(),
    destroy: () => server.closeAllConnections(),
    close: () => void server.close(),
  }
}
