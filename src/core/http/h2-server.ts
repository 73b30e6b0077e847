/** Serves HTTP/2 (RFC 9113) on connections accepted elsewhere: Node's limits are tighter than by default, and each stream is a request. */
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
      // A connection may fail while it is being closed.
      socket.on('error', () => {})
      const state = connections.carries(entry)
      const begin = (request: StreamRequest): void =>
        events.stream(request, new StreamResponse(request), connections.joined(state))
      const server = entry.addressKey === undefined ? servers.ofProxies : servers.ofClients
      server.once('session', (session: ServerHttp2Session) => {
        endHandOver(session, socket)
        const connection = new Http2Connection(watch, { entry, session, socket, state, begin })
        watch.add(connection)
        session.on('stream', (stream, _headers, _flags, rawHeaders: readonly string[]) => {
          // An error without a listener ends the process.
          stream.on('error', () => {})
          connection.arrived(new StreamRequest(stream, connection, rawHeaders))
        })
        session.on('error', (error) => {
          if (isForbidden(error)) watch.endFor('frames', connection)
        })
        if (connection.isShared) outliveFaults(session)
        // A peer that has ended its side may still read.
        socket.once('end', () => session.close())
      })
      server.emit('connection', socket)
    },
    closeIdle: () => watch.leave(),
    destroy: () => watch.destroy(),
    close: () => watch.close(),
  }
}

/** Node counts faults per connection only: connections of trusted proxies are uncounted, so that no client ends one that others share. */
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

/** Pings, windows and memory keep Node's defaults: Http2Connections ends floods. */
function optionsOf({ server: { limits } }: Config): ServerOptions {
  return {
    settings: {
      maxConcurrentStreams: 100,
      // Clients see this limit but may exceed it: the gateway's own count comes first and refuses with 431.
      maxHeaderListSize: limits.headerBytes + limits.urlBytes + 8 * 1024,
    },
    maxHeaderListPairs: 2 * limits.headerCount + 8,
    streamResetBurst: TAKEN_BACK_AT_ONCE,
    streamResetRate: TAKEN_BACK_A_SECOND,
    maxSessionInvalidFrames: 50,
    maxSessionRejectedStreams: 20,
    maxSettings: 16,
    // Otherwise two ETag fields of a backend would throw.
    strictSingleValueFields: false,
  }
}

/** Reports whether the error comes from frames that the peer sent; a lost or aborted connection is no abuse. */
function isForbidden({ code }: NodeJS.ErrnoException): boolean {
  return code === 'ERR_HTTP2_ERROR' || code === 'ERR_HTTP2_TOO_MANY_INVALID_FRAMES'
}
