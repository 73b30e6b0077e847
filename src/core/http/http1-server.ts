/** HTTP/1.1 on connections that others accept: Node's strict parser, its limits and time-outs, and each event that can bring a request. */
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Config } from '../../config/config.ts'
import type { Entry } from './connections.ts'
import type { ParserError } from './inflow.ts'
import { feed, keepEveryField, serveUnbound } from './node-internals.ts'
import { ServerLimits } from './server-limits.ts'

/** Serves connections whose protocol is settled, and listens nowhere itself. */
export interface ProtocolServer {
  /** socket: what is read and written of the entry, a TLS socket or the transport itself. */
  take(socket: Socket, entry: Entry): void
  /** From here on by this configuration. */
  use(config: Config): void
  /** Closes connections that wait for a next request. */
  closeIdle(): void
  /** Destroys what is left. */
  destroy(): void
  /** The last connection has gone. */
  close(): void
}

export interface Http1Events {
  /** A connection that http has just taken. */
  connection(socket: Socket, entry: Entry): void
  /** Never throws or rejects. */
  request(request: IncomingMessage, response: ServerResponse, expectsContinue: boolean): void
  /** Whether a request with an Upgrade field goes to `upgrade`; all others are plain requests. */
  isHandshake(request: IncomingMessage): boolean
  /** Never throws or rejects. */
  upgrade(request: IncomingMessage, socket: Duplex, head: Buffer): void
  /** CONNECT, which Node hands over as a bare socket. */
  connect(request: IncomingMessage, socket: Duplex): void
  /** The parser gave up, or a time-out of the server passed. */
  clientError(error: ParserError, socket: Socket): void
}

export function createHttp1Server(config: Config, events: Http1Events): ProtocolServer {
  const { timeouts } = config.server
  const server = createServer(
    {
      // Time-outs act only when this check runs; Node's default of 30 s would let a 10 s limit last 40.
      connectionsCheckingInterval: Math.min(1_000, timeouts.headersMs, timeouts.requestMs),
      // We count Host fields ourselves, so that their refusal is an Error like all others.
      requireHostHeader: false,
      insecureHTTPParser: false,
      shouldUpgradeCallback: (request) => events.isHandshake(request),
      optimizeEmptyRequests: true,
    },
    (request, response) => begin(request, response, false),
  )
  const begin: Http1Events['request'] = (request, ...others) => {
    const { socket } = request
    // Node sets it anew behind an answer alone: the first request on a connection from before a reload would have the old one.
    if (socket.timeout !== server.timeout) socket.setTimeout(server.timeout)
    events.request(request, ...others)
  }
  // Bytes are bounded above, and our own count refuses the rest.
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
