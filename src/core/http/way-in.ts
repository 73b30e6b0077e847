/** The way of a connection from its acceptance to the server of its protocol, as one configuration has it. */
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
  /** A connection was accepted; undefined if it may not stay, and was closed. isBalancer: it is to tell whose connection it is. */
  enter(transport: Socket, origin: Origin, isBalancer: boolean): Entry | undefined
  /** What a balancer has told; undefined: nothing that could be read. Its connection is now counted as another's, or closed. */
  introduced(entry: Entry, origin: Origin | undefined): Entry | undefined
  /** Its peer is a trusted proxy. */
  isTrusted(transport: Socket): boolean
  handshakeFailed(entry: Entry, fault: HandshakeFault, cause: string): void
}

export interface WayInOptions {
  readonly config: Config
  /** undefined: no TLS. */
  readonly identity: TlsIdentity | undefined
  readonly secret: SecretOfDay
  readonly proto: Origin['proto']
  readonly door: Door
  readonly http1: ProtocolServer
  readonly http2: ProtocolServer
  /** Written here: connections whose PROXY header, handshake or preface is under way. */
  readonly arriving: Map<Socket, Entry>
  readonly penalties: Penalties
  readonly events: EntryEvents
}

export type WayIn = ReturnType<typeof createWayIn>

/** Throws what Node says of an identity that cannot be used, and where HTTP/2 without TLS is not safe. */
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
    /** With the secret of another day. */
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

/** Without TLS: HTTP/1.1, and HTTP/2 where trusted proxies may begin with it. */
function clearServer(options: WayInOptions): Pick<ProtocolServer, 'take'> {
  const { config, http1, http2, arriving, events } = options
  const { http2: spoken, timeouts } = config.server
  if (spoken !== 'clear') return http1
  if (!isHttp2Safe)
    throw new Error(
      'HTTP/2 is not safe with this Node.js; use another, or drop server.http2: clear',
    )
  // Of a first packet http2 takes in all at once, so one connection begins a turn.
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
