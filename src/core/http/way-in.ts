/** Leads a connection from its acceptance to its protocol, for one configuration. */
import type { Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Config } from '../../config/config.ts'
import { readProxyHeader } from '../rules/proxy-header.ts'
import type { ConnectionRefusal } from './connection-limits.ts'
import type { ClientConnection, Door, Origin } from './connections.ts'
import { readFirst, readPreface } from './first-bytes.ts'
import { isHttp2Safe } from './node-internals.ts'
import { serve, type ServerParts } from './server-parts.ts'
import type { SecretOfDay } from './ticket-secret.ts'
import { createTlsServer, type TlsIdentity } from './tls-server.ts'

export interface WayInOptions {
  readonly config: Config
  /** Certificate and key; undefined: no TLS. */
  readonly identity: TlsIdentity | undefined
  readonly secret: SecretOfDay
  readonly door: Door
}

export type WayIn = ReturnType<typeof createWayIn>

/** Throws Node's error if the identity cannot be used, and an error if HTTP/2 without TLS is not safe. */
export function createWayIn(options: WayInOptions, parts: ServerParts) {
  const { config, identity, door } = options
  const { connections, events } = parts
  const { proxyProtocol, timeouts } = config.server
  const tls = identity && createTlsServer({ ...options, identity }, parts)
  const take = tls?.take ?? takerInClear(config, parts)
  const turnAway = (transport: Socket, address: string, reason: ConnectionRefusal): undefined => {
    transport.resetAndDestroy()
    events.refused(address, reason)
  }
  const enter = (transport: Socket, origin: Origin): ClientConnection | undefined => {
    const { key, peerTrusted } = events.addressOf(origin.address)
    // Only a trusted balancer may speak for a client.
    if (!origin.isNamed && !peerTrusted) return turnAway(transport, key, 'proxy')
    const client = connections.accept(transport, origin, peerTrusted ? undefined : key)
    return typeof client === 'string' ? turnAway(transport, key, client) : client
  }
  const begin = (client: ClientConnection | undefined): void => {
    if (client === undefined) return
    connections.arrivals.others += 1
    take(client.transport, client)
  }
  return {
    door,
    identity,
    accept(transport: Socket): void {
      // 'close' follows.
      transport.on('error', () => {})
      const origin: Origin = {
        address: transport.remoteAddress ?? '',
        isNamed: !proxyProtocol,
        proto: identity === undefined ? 'http' : 'https',
        door,
      }
      const client = enter(transport, origin)
      if (!proxyProtocol || client === undefined) return begin(client)
      readFirst(transport, timeouts.headersMs, readProxyHeader, (header) => {
        // From now on the connection counts for the client that the header names.
        connections.leave(client)
        if (header === undefined) turnAway(transport, origin.address, 'proxy')
        else {
          const { address = origin.address } = header
          begin(enter(transport, { ...origin, address, isNamed: header.address !== undefined }))
        }
      })
    },
    /** Applies the secret of a new day. */
    renew: (today: SecretOfDay) => tls?.renew(today),
  }
}

/** Serves connections without TLS: HTTP/1.1, and HTTP/2 from trusted proxies if configured. */
function takerInClear({ server }: Config, parts: ServerParts) {
  const { http2, proxyProtocol, timeouts } = server
  if (http2 === 'clear' && !isHttp2Safe)
    throw new Error(
      'HTTP/2 is not safe with this Node.js; use another, or drop server.http2: clear',
    )
  // http2 takes in a whole first packet at once, so only one connection begins per turn.
  let turn = Promise.resolve()
  return (transport: Socket, client: ClientConnection): void => {
    const isTrusted = proxyProtocol || client.addressKey === undefined
    if (http2 !== 'clear' || !isTrusted) return serve(transport, client, parts)
    readFirst(transport, timeouts.headersMs, readPreface, (preface) => {
      if (preface === undefined) transport.destroy()
      else if (!preface.isHttp2) serve(transport, client, parts)
      else
        turn = turn
          .then(() => nextTurn())
          .then(() => {
            if (!transport.destroyed) serve(transport, client, parts, true)
          })
    })
  }
}
