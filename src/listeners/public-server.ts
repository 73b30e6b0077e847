/** The public listener: Node's strict HTTP/1.1 parser, its limits and time-outs, and each event that can bring a request. */
import { once } from 'node:events'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo, Socket } from 'node:net'
import type { Duplex } from 'node:stream'
import type { Config, ListenAddress } from '../config/config.ts'
import type { ParserError } from './inflow.ts'
import { keepEveryField, stopListening } from './node-internals.ts'

export interface PublicServerEvents {
  /** A connection that http has just taken. */
  connection(socket: Socket): void
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

export type PublicServer = ReturnType<typeof createPublicServer>

/** Beyond headerBytes and urlBytes Node may count line ends and the method; our own check comes first and is exact. */
const PARSER_SLACK_BYTES = 4_096
/** Room for the answer to be written after the last time-out that could have produced it. */
const SOCKET_SLACK_MS = 10_000

export function createPublicServer(config: Config, events: PublicServerEvents) {
  const { limits, timeouts, listen } = config.server
  const server = createServer(
    {
      maxHeaderSize: limits.headerBytes + limits.urlBytes + PARSER_SLACK_BYTES,
      headersTimeout: timeouts.headersMs,
      requestTimeout: timeouts.requestMs,
      keepAliveTimeout: timeouts.idleMs,
      // Time-outs act only when this check runs; Node's default of 30 s would let a 10 s limit last 40.
      connectionsCheckingInterval: Math.min(1_000, timeouts.headersMs, timeouts.requestMs),
      // We count Host fields ourselves, so that their refusal is an Error like all others.
      requireHostHeader: false,
      insecureHTTPParser: false,
      shouldUpgradeCallback: (request) => events.isHandshake(request),
      optimizeEmptyRequests: true,
    },
    (request, response) => events.request(request, response, false),
  )
  // Bytes are bounded above, and our own count refuses the rest.
  keepEveryField(server)
  server.timeout = inactivityMs(config)
  server.on('connection', events.connection)
  server.on('checkContinue', (request, response) => events.request(request, response, true))
  server.on('checkExpectation', (request, response) => events.request(request, response, false))
  server.on('upgrade', events.upgrade)
  server.on('connect', events.connect)
  server.on('clientError', (error, socket) => events.clientError(error, socket as Socket))
  return {
    /** fd: a bound socket of this process to listen on, instead of server.listen. */
    async listen(fd?: number): Promise<ListenAddress> {
      server.listen(fd === undefined ? { ...listen } : { fd })
      await once(server, 'listening')
      return { host: listen.host, port: (server.address() as AddressInfo).port }
    },
    /**
     * Stops accepting; resolves when the last connection has gone. Connections that wait for a next request are closed
     * after idleMs, those without any request yet included: a client may be sending one at this very moment.
     */
    stop: (idleMs: number) =>
      new Promise<void>((resolve) => {
        const closeIdle = setTimeout(() => server.closeIdleConnections(), idleMs)
        stopListening(server, () => {
          clearTimeout(closeIdle)
          resolve()
        })
        if (idleMs === 0) server.closeIdleConnections()
      }),
    /** Closes connections that wait for a next request. */
    closeIdle: () => server.closeIdleConnections(),
    /** Destroys what is left. */
    destroy: () => server.closeAllConnections(),
  }
}

/** A socket on which nothing moved for this long is destroyed: longer than any wait that is allowed on purpose. */
function inactivityMs({ server, upstream, routes }: Config): number {
  const response = Math.max(
    upstream.timeouts.responseMs,
    ...routes.map((route) => route.responseTimeoutMs ?? 0),
  )
  return (
    Math.max(server.timeouts.requestMs, 2 * upstream.timeouts.connectMs + response) +
    SOCKET_SLACK_MS
  )
}
