/** HTTP/2 on connections that others accept (RFC 9113): Node's bounds, tighter here than by default, and each stream as a request. */
import { createServer, type ServerHttp2Session, type ServerOptions } from 'node:http2'
import type { Config } from '../../config/config.ts'
import type { Connections, ConnectionState, InFlight } from './connections.ts'
import {
  Http2Connection,
  Http2Connections,
  type Http2WatchEvents,
  TAKEN_BACK_A_SECOND,
  TAKEN_BACK_AT_ONCE,
} from './h2-connections.ts'
import { StreamRequest, StreamResponse } from './h2-stream.ts'
import type { ProtocolServer } from './http1-server.ts'
import { endHandOver, outliveFaults } from './node-internals.ts'

export interface Http2Events<Request extends InFlight> extends Http2WatchEvents {
  /** Never throws or rejects. */
  stream(
    request: StreamRequest,
    response: StreamResponse,
    connection: ConnectionState<Request>,
  ): void
}

export interface Http2Server extends ProtocolServer {
  readonly size: number
}

export function createHttp2Server<Request extends InFlight>(
  config: Config,
  connections: Connections<Request>,
  events: Http2Events<Request>,
): Http2Server {
  const watch = new Http2Connections(config.server, connections, events)
  let servers = createServers(config)
  return {
    get size() {
      return watch.all.size
    },
    use(changed) {
      watch.server = changed.server
      servers = createServers(changed)
    },
    take(socket, entry) {
      // Of a connection that breaks off while it is closed.
      socket.on('error', () => {})
      const state = connections.carries(socket, entry)
      const begin = (request: StreamRequest): void =>
        events.stream(request, new StreamResponse(request), connections.joined(request, state))
      const server = entry.addressKey === undefined ? servers.ofProxies : servers.ofClients
      server.once('session', (session: ServerHttp2Session) => {
        endHandOver(session, socket)
        const connection = new Http2Connection(watch, { entry, session, socket, state, begin })
        watch.add(connection)
        session.on('stream', (stream, headers, _flags, rawHeaders: readonly string[]) => {
          // An error that nobody hears ends the process.
          stream.on('error', () => {})
          connection.arrived(new StreamRequest(stream, connection, headers, rawHeaders))
        })
        session.on('error', (error) => {
          if (isForbidden(error)) watch.endFor('frames', connection)
        })
        if (connection.isShared) outliveFaults(session)
        // Who sends no more may still read.
        socket.once('end', () => session.close())
      })
      server.emit('connection', socket)
    },
    closeIdle: () => watch.leave(),
    destroy: () => watch.destroy(),
    close: () => watch.close(),
  }
}

/** What many clients share, none of them may end: Node counts by connection alone. */
function createServers(config: Config) {
  const options = optionsOf(config)
  const uncounted = {
    streamResetBurst: MANY,
    streamResetRate: MANY,
    maxSessionInvalidFrames: MANY,
    maxSessionRejectedStreams: MANY,
  }
  return {
    ofClients: createServer(options),
    ofProxies: createServer({ ...options, ...uncounted }),
  }
}

const MANY = 2 ** 32 - 1

/** Pings, windows and memory stay as Node has them: what floods, the watch ends. */
function optionsOf({ server: { limits } }: Config): ServerOptions {
  return {
    settings: {
      maxConcurrentStreams: 100,
      // Clients are told, but may send more: our own count comes first, and refuses with 431.
      maxHeaderListSize: limits.headerBytes + limits.urlBytes + 8 * 1024,
    },
    maxHeaderListPairs: 2 * limits.headerCount + 8,
    streamResetBurst: TAKEN_BACK_AT_ONCE,
    streamResetRate: TAKEN_BACK_A_SECOND,
    maxSessionInvalidFrames: 50,
    maxSessionRejectedStreams: 20,
    maxSettings: 16,
    // Or a backend's two ETags would throw.
    strictSingleValueFields: false,
  }
}

/** Told of what a peer has sent; a connection that breaks off, or that the peer gives up, is no abuse. */
function isForbidden({ code }: NodeJS.ErrnoException): boolean {
  return code === 'ERR_HTTP2_ERROR' || code === 'ERR_HTTP2_TOO_MANY_INVALID_FRAMES'
}
