/** Leads a connection from its acceptance to the server of its protocol, for one configuration. */
import type { Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Config } from '../../config/config.ts'
import type { Door, Entry, Origin } from './connections.ts'
import type { ProtocolServer } from './http1-server.ts'
import { readPreface } from './h2-preface.ts'
import { isHttp2Safe } from './node-internals.ts'
import type { Penalties } from './penalties.ts'
import { awaitProxyHeader } from './proxy-gate.ts'
import type { SecretOfDay } from './ticket-secret.ts'
import {
  createTlsServer,
  type HandshakeFault,
  type TlsIdentity,
  type TlsServerOptions,
} from './tls-server.ts'

export interface EntryEvents {
  /** A connection was accepted; returns undefined if it was refused and closed. isBalancer: a PROXY header must name its client. */
  enter(transport: Socket, origin: Origin, isBalancer: boolean): Entry | undefined
  /** A balancer has named its client; origin undefined: no valid header came. The connection is then counted for the client, or closed. */
  introduced(entry: Entry, origin: Origin | undefined): Entry | undefined
  /** Reports whether the peer is a trusted proxy. */
  isTrusted(transport: Socket): boolean
  handshakeFailed(entry: Entry, fault: HandshakeFault, cause: string): void
}

export interface WayInOptions {
  readonly config: Config
  /** Certificate and key; undefined: no TLS. */
  readonly identity: TlsIdentity | undefined
  readonly secret: SecretOfDay
  readonly proto: Origin['proto']
  readonly door: Door
  readonly http1: ProtocolServer
  readonly http2: ProtocolServer
  /** Connections whose PROXY header, handshake or preface is under way. Written by the way in and the TLS server. */
  readonly arriving: Map<Socket, Entry>
  readonly penalties: Penalties
  readonly events: EntryEvents
}

export type WayIn = ReturnType<typeof createWayIn>

/** Throws Node's error if the identity cannot be used, and an error if HTTP/2 without TLS is not safe. */
export function createWayIn(options: WayInOptions) {
  const { config, identity, proto, door, arriving, events } = options
  const { proxyProtocol, timeouts } = config.server
  const tls = identity && createTlsServer(tlsOptions(options, identity))
  const { take } = tls ?? clearServer(options)
  const introduce = (transport: Socket, balancer: Entry): void => {
    arriving.set(transport, balancer)
    awaitProxyHeader(transport, timeouts.headersMs, (header) => {
      arriving.delete(transport)
      const named = header?.address
      const address = named ?? balancer.address
      const origin = { address, isNamed: named !== undefined, proto, door }
      const entry = events.introduced(balancer, header && origin)
      if (entry !== undefined) take(transport, entry)
    })
  }
  return {
    proto,
    door,
    identity,
    accept(transport: Socket): void {
      const address = transport.remoteAddress ?? ''
      const origin = { address, isNamed: !proxyProtocol, proto, door }
      const entry = events.enter(transport, origin, proxyProtocol)
      if (entry === undefined) return
      if (proxyProtocol) introduce(transport, entry)
      else take(transport, entry)
    },
    /** Applies the secret of a new day. */
    renew: (today: SecretOfDay) => tls?.renew(today),
  }
}

function tlsOptions(options: WayInOptions, identity: TlsIdentity): TlsServerOptions {
  const { config, secret, http1, http2, arriving, penalties, events } = options
  const { http2: spoken, timeouts } = config.server
  return {
    identity,
    secret,
    handshakeMs: timeouts.headersMs,
    protocols: { ...(spoken !== 'false' && isHttp2Safe && { h2: http2 }), 'http/1.1': http1 },
    arriving,
    penalties,
    onFailed: (...failure) => events.handshakeFailed(...failure),
  }
}

/** Serves connections without TLS: HTTP/1.1, and HTTP/2 from trusted proxies if configured. */
function clearServer(options: WayInOptions): Pick<ProtocolServer, 'take'> {
  const { config, http1, http2, arriving, events } = options
  const { http2: spoken, timeouts } = config.server
  if (spoken !== 'clear') return http1
  if (!isHttp2Safe)
    throw new Error(
      'HTTP/2 is not safe with this Node.js; use another, or drop server.http2: clear',
    )
  // http2 takes in a whole first packet at once, so only one connection begins per turn.
  let turn = Promise.resolve()
  const wait = (take: () => void): void => void (turn = turn.then(() => nextTurn()).then(take))
  return {
    take(transport, entry): void {
      if (!events.isTrusted(transport)) return http1.take(transport, entry)
      arriving.set(transport, entry)
      readPreface(transport, timeouts.headersMs, (isHttp2) => {
        arriving.delete(transport)
        if (isHttp2 === true) wait(() => http2.take(transport, entry))
        else if (isHttp2 === false) http1.take(transport, entry)
      })
    },
  }
}
