/** The public listener: it counts or refuses a connection before a byte is parsed, then hands it to PROXY, TLS and its protocol. */
import { once } from 'node:events'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Config, ListenAddress } from '../../config/config.ts'
import { readProxyHeader, startsAlike } from '../rules/proxy-header.ts'
import type { ConnectionRefusal } from './connection-room.ts'
import { ClientConnection } from './connections.ts'
import { boundUnsent, Http2Connection } from './h2-connection.ts'
import { isHttp2Safe } from './node-internals.ts'
import { http1Limits, serve, type ServerParts } from './server-parts.ts'
import { Penalties } from './penalties.ts'
import { keepDaily, type SecretOfDay } from './ticket-secret.ts'
import { TlsServer, type TlsIdentity } from './tls-server.ts'
import { looks } from './turn-stages.ts'

export interface PublicServerParts extends Pick<ServerParts, 'connections' | 'events'> {
  /** Certificate and key; undefined: no TLS. */
  readonly identity: TlsIdentity | undefined
  readonly secret: SecretOfDay
}

const LOOK_EVERY_MS = 250
/** Begins a connection of HTTP/2 without TLS (RFC 9113 3.3), and no request of HTTP/1.1. */
const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')

/** Connections that wait to be accepted: of more than these a client's next attempt comes a second later. The kernel may allow fewer. */
const BACKLOG = 4_096

export class PublicServer {
  readonly #parts: ServerParts
  readonly #server: Server
  readonly #secret: ReturnType<typeof keepDaily>
  readonly #looks: NodeJS.Timeout
  /** The performance.now() from which each look closes idle connections. Written by stop(). */
  #idleUntilMs = Infinity
  /** Written by the constructor and by the function that prepare() returns. */
  #tls: TlsServer | undefined
  /** Settled when the last connection of HTTP/2 without TLS has begun. */
  #hasBegun = Promise.resolve()

  /** Throws Node's error if the identity cannot be used, and an error if HTTP/2 without TLS is not safe. */
  constructor(config: Config, { connections, identity, secret, events }: PublicServerParts) {
    this.#secret = keepDaily(secret, (today) => this.#tls?.renew(today))
    this.#parts = {
      connections,
      penalties: new Penalties(),
      events,
      config: config.server,
      http1Limits: http1Limits(config),
    }
    this.#tls = this.#prepareTls(config, identity)
    // Same options as http's: a client that ends its side still gets its answers.
    const options = { allowHalfOpen: true, noDelay: true }
    this.#server = createServer(options, (transport) => this.#accept(transport))
    const { headersMs, requestMs } = config.server.timeouts
    const look = (): void => {
      const nowMs = performance.now()
      for (const { protocol } of connections.all()) protocol?.onLook(nowMs)
      if (nowMs >= this.#idleUntilMs) this.#closeIdle()
      boundUnsent(connections.inFlight, events)
    }
    // A wait may be shorter than the usual interval.
    const everyMs = Math.min(LOOK_EVERY_MS, headersMs, requestMs)
    this.#looks = setInterval(() => looks.add(look), everyMs).unref()
  }

  get http2Size(): number {
    return [...this.#http2()].length
  }

  /** fd: a bound socket of this process to listen on, instead of server.listen. */
  async listen(fd?: number): Promise<ListenAddress> {
    const { listen } = this.#parts.config
    this.#server.listen(fd === undefined ? { ...listen } : { fd }, BACKLOG)
    await once(this.#server, 'listening')
    const { address: host, port } = this.#server.address() as AddressInfo
    return { host, port }
  }

  /**
   * Returns a function that applies the configuration to new connections. Open connections go on; if TLS or the client
   * authorities change, the next answer on each is the last. Throws like the constructor.
   */
  prepare(config: Config, identity: TlsIdentity | undefined): () => void {
    const tls = this.#prepareTls(config, identity)
    return () => {
      const before = this.#tls
      this.#tls = tls
      this.#parts.config = config.server
      this.#parts.http1Limits = http1Limits(config)
      // A new day may have begun since it was prepared.
      tls?.renew(this.#secret.today())
      if ((tls === undefined) === (before === undefined) && tls?.clientCa === before?.clientCa)
        return
      for (const client of this.#parts.connections.all()) client.isOutdated = true
      for (const connection of this.#http2()) connection.closeIdle()
    }
  }

  /**
   * Stops accepting; resolves when the last connection has closed. Idle connections are closed after idleMs, including those
   * without any request yet: a client may be sending one at this moment.
   */
  async stop(idleMs: number): Promise<void> {
    this.#idleUntilMs = performance.now() + idleMs
    const closed = once(this.#server.close(), 'close')
    if (idleMs === 0) this.#closeIdle()
    // HTTP/2 clients get GOAWAY and lose nothing: requests already on their way are refused as not begun (RFC 9113 6.8).
    for (const connection of this.#http2()) connection.closeIdle()
    await closed
    clearInterval(this.#looks)
    this.#secret.stop()
  }

  /** Closes connections that wait for a next request, or for their first. */
  #closeIdle(): void {
    for (const { protocol, transport } of this.#parts.connections.all()) {
      if (protocol === undefined) transport.destroy()
      else protocol.closeIdle()
    }
  }

  destroy(): void {
    for (const { protocol, transport } of this.#parts.connections.all())
      (protocol ?? transport).destroy()
  }

  *#http2(): Generator<Http2Connection> {
    for (const { protocol } of this.#parts.connections.all())
      if (protocol instanceof Http2Connection) yield protocol
  }

  #prepareTls(config: Config, identity: TlsIdentity | undefined): TlsServer | undefined {
    if (identity !== undefined)
      return new TlsServer(config, identity, this.#secret.today(), this.#parts)
    if (config.server.http2 === 'clear' && !isHttp2Safe)
      throw new Error(
        'HTTP/2 is not safe with this Node.js; use another, or drop server.http2: clear',
      )
    return undefined
  }

  #accept(transport: Socket): void {
    // 'close' follows.
    transport.on('error', () => {})
    const { proxyProtocol, timeouts } = this.#parts.config
    const peer = transport.remoteAddress ?? ''
    const client = this.#enter(transport, peer, !proxyProtocol)
    if (client === undefined) return
    if (!proxyProtocol) return this.#begin(client)
    readFirst(transport, timeouts.headersMs, readProxyHeader, (header) => {
      // From now on the connection counts for the client that the header names.
      this.#parts.connections.leave(client)
      if (header === undefined) return this.#turnAway(transport, peer, 'proxy')
      const { address } = header
      const named = this.#enter(transport, address ?? peer, address !== undefined)
      if (named !== undefined) this.#begin(named)
    })
  }

  /** Counts the connection, or turns it away. */
  #enter(transport: Socket, address: string, isNamed: boolean): ClientConnection | undefined {
    const { connections, events } = this.#parts
    const { key, peerTrusted } = events.addressOf(address)
    const proto = this.#tls === undefined ? 'http' : 'https'
    const origin = { address, isNamed, proto } as const
    const client = new ClientConnection(transport, origin, peerTrusted ? undefined : key)
    // Only a trusted balancer may speak for a client.
    const refusal = isNamed || peerTrusted ? connections.enter(client) : 'proxy'
    if (refusal === undefined) {
      transport.once('close', () => connections.leave(client))
      return client
    }
    this.#turnAway(transport, key, refusal)
    return undefined
  }

  #turnAway(transport: Socket, address: string, reason: ConnectionRefusal): void {
    transport.resetAndDestroy()
    this.#parts.events.refused(address, reason)
  }

  /** Leads the connection to its protocol: without TLS HTTP/1.1, and HTTP/2 from trusted proxies if configured. */
  #begin(client: ClientConnection): void {
    const parts = this.#parts
    const { http2, proxyProtocol, timeouts } = parts.config
    const { transport } = client
    parts.connections.arrivals.others += 1
    if (this.#tls !== undefined) return this.#tls.take(client)
    const isTrusted = proxyProtocol || client.addressKey === undefined
    if (http2 !== 'clear' || !isTrusted) return serve(transport, client, parts)
    readFirst(transport, timeouts.headersMs, readPreface, (preface) => {
      if (preface === undefined) transport.destroy()
      else if (preface.isHttp2)
        this.#hasBegun = this.#hasBegun.then(() => beginHttp2(client, parts))
      else serve(transport, client, parts)
    })
  }
}

/** http2 takes in a whole first packet at once, so only one connection begins per turn. */
async function beginHttp2(client: ClientConnection, parts: ServerParts): Promise<void> {
  await nextTurn()
  if (!client.transport.destroyed) serve(client.transport, client, parts, true)
}

/**
 * Reads the first bytes of a connection, and reads on while they are incomplete. done: called once; undefined: what came is
 * invalid, or came too late, or the peer has ended its side. bytes: length of the first ones; those behind them are put back, and
 * the connection is paused.
 */
function readFirst<Found extends { readonly bytes: number }>(
  socket: Socket,
  timeoutMs: number,
  read: (seen: Buffer) => Found | 'incomplete' | undefined,
  done: (found: Found | undefined) => void,
): void {
  let seen: Buffer = Buffer.alloc(0)
  const end = (found?: Found): void => {
    clearTimeout(timer)
    socket.pause().off('data', onData).off('end', onGone).off('close', onGone)
    if (found !== undefined && seen.length > found.bytes) socket.unshift(seen.subarray(found.bytes))
    done(found)
  }
  const onData = (bytes: Buffer): void => {
    seen = Buffer.concat([seen, bytes])
    const found = read(seen)
    if (found !== 'incomplete') end(found)
  }
  const onGone = (): void => end()
  const timer = setTimeout(onGone, timeoutMs)
  socket.on('data', onData).once('end', onGone).once('close', onGone).resume()
}

function readPreface(seen: Buffer): { bytes: number; isHttp2: boolean } | 'incomplete' {
  const isHttp2 = startsAlike(seen, PREFACE)
  return isHttp2 && seen.length < PREFACE.length ? 'incomplete' : { bytes: 0, isHttp2 }
}
