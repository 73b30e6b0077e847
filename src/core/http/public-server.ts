/**
 * The public listener. Only a net.Server listens: it counts or refuses a connection before any byte is parsed, and then
 * hands it to the PROXY header reader, to TLS and to its protocol.
 */
import { once } from 'node:events'
import { createServer, type AddressInfo, type Server } from 'node:net'
import type { Config, ListenAddress } from '../../config/config.ts'
import type { Connections } from './connections.ts'
import { boundUnsent, Http2Connection } from './h2-connection.ts'
import { http1Limits, type ServerEvents, type ServerParts } from './server-parts.ts'
import { Penalties } from './penalties.ts'
import { keepDaily, type SecretOfDay } from './ticket-secret.ts'
import type { TlsIdentity } from './tls-server.ts'
import { createWayIn, type WayIn } from './way-in.ts'

export interface PublicServerParts {
  readonly connections: Connections
  /** Certificate and key; undefined: no TLS. */
  readonly identity: TlsIdentity | undefined
  readonly secret: SecretOfDay
  readonly events: ServerEvents
}

const LOOK_EVERY_MS = 250

export class PublicServer {
  readonly #parts: ServerParts
  readonly #server: Server
  readonly #secret: ReturnType<typeof keepDaily>
  readonly #looks: NodeJS.Timeout
  /** The performance.now() from which each look closes idle connections. Written by stop(). */
  #idleUntilMs = Infinity
  /** Written by the constructor and by the function that prepare() returns. */
  #way: WayIn

  /** Throws Node's error if the identity cannot be used. */
  constructor(config: Config, { connections, identity, secret, events }: PublicServerParts) {
    this.#secret = keepDaily(secret, (today) => this.#way.renew(today))
    this.#parts = {
      connections,
      penalties: new Penalties(),
      events,
      config: config.server,
      http1Limits: http1Limits(config),
    }
    this.#way = this.#build(config, identity)
    // Same options as http's: a client that ends its side still gets its answers.
    const options = { allowHalfOpen: true, noDelay: true }
    this.#server = createServer(options, (transport) => this.#way.accept(transport))
    const { headersMs, requestMs } = this.#parts.http1Limits
    // A wait may be shorter than the usual interval.
    this.#looks = setInterval(
      () => {
        const nowMs = performance.now()
        for (const { protocol } of connections.all()) protocol?.onLook(nowMs)
        if (nowMs >= this.#idleUntilMs) this.#closeIdle()
        boundUnsent(connections.inFlight, events)
      },
      Math.min(LOOK_EVERY_MS, headersMs, requestMs),
    ).unref()
  }

  get http2Size(): number {
    return [...this.#http2()].length
  }

  /** fd: a bound socket of this process to listen on, instead of server.listen. */
  async listen(fd?: number): Promise<ListenAddress> {
    const { listen } = this.#parts.config
    this.#server.listen(fd === undefined ? { ...listen } : { fd })
    await once(this.#server, 'listening')
    const { address: host, port } = this.#server.address() as AddressInfo
    return { host, port }
  }

  /**
   * Returns a function that applies the configuration to new connections. Open connections go on; if TLS or the client
   * authorities change, the next answer on each is the last. Throws like the constructor.
   */
  prepare(config: Config, identity: TlsIdentity | undefined): () => void {
    const next = this.#build(config, identity, this.#way)
    return () => {
      if (next.door !== this.#way.door) {
        this.#way.door.isClosed = true
        for (const connection of this.#http2()) connection.closeIdle()
      }
      this.#way = next
      this.#parts.config = config.server
      this.#parts.http1Limits = http1Limits(config)
      // A new day may have begun since next was built.
      next.renew(this.#secret.today())
    }
  }

  /**
   * Stops accepting; resolves when the last connection has closed. Idle connections are closed after idleMs, including those
   * without any request yet: a client may be sending one at this moment.
   */
  stop(idleMs: number): Promise<void> {
    return new Promise((resolve) => {
      this.#idleUntilMs = performance.now() + idleMs
      this.#server.close(() => {
        clearInterval(this.#looks)
        this.#secret.stop()
        resolve()
      })
      if (idleMs === 0) this.#closeIdle()
      // HTTP/2 clients get GOAWAY and lose nothing: requests already on their way are refused as not begun (RFC 9113 6.8).
      for (const connection of this.#http2()) connection.closeIdle()
    })
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

  #build(config: Config, identity: TlsIdentity | undefined, before?: WayIn): WayIn {
    const isSame =
      before !== undefined &&
      (before.identity === undefined) === (identity === undefined) &&
      before.identity?.clientCa === identity?.clientCa
    const door = isSame ? before.door : { isClosed: false }
    return createWayIn({ config, identity, secret: this.#secret.today(), door }, this.#parts)
  }
}
