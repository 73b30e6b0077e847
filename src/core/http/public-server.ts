/**
 * The public listener. Only a net.Server listens: it counts or refuses a connection before any byte is parsed, and then
 * hands it to the PROXY header reader, to TLS and to the server of its protocol.
 */
import { once } from 'node:events'
import { createServer, type AddressInfo, type Server, type Socket } from 'node:net'
import type { Config, ListenAddress } from '../../config/config.ts'
import type { Connections, Entry, InFlight } from './connections.ts'
import { createHttp1Server, type Http1Events, type ProtocolServer } from './http1-server.ts'
import type { Penalties } from './penalties.ts'
import { keepDaily, type SecretOfDay } from './ticket-secret.ts'
import type { TlsIdentity } from './tls-server.ts'
import { createWayIn, type EntryEvents, type WayIn } from './way-in.ts'

export type PublicServerEvents<Request extends InFlight> = EntryEvents & Http1Events<Request>

export interface PublicServerParts<Request extends InFlight> {
  readonly connections: Connections<Request>
  /** Certificate and key; undefined: no TLS. */
  readonly identity: TlsIdentity | undefined
  readonly secret: SecretOfDay
  readonly penalties: Penalties
  readonly events: PublicServerEvents<Request>
  readonly http2: ProtocolServer
}

export class PublicServer<Request extends InFlight> {
  readonly #config: Config
  readonly #events: EntryEvents
  readonly #penalties: Penalties
  readonly #server: Server
  readonly #http1: ProtocolServer
  readonly #http2: ProtocolServer
  /** Connections whose PROXY header, handshake or preface is under way. */
  readonly #arriving = new Map<Socket, Entry>()
  readonly #secret: ReturnType<typeof keepDaily>
  /** Written by the constructor and by the function that prepare() returns. */
  #way: WayIn

  /** Throws Node's error if the identity cannot be used. */
  constructor(config: Config, parts: PublicServerParts<Request>) {
    const { connections, identity, secret, penalties, events, http2 } = parts
    this.#config = config
    this.#events = events
    this.#penalties = penalties
    this.#http1 = createHttp1Server(config, connections, events)
    this.#http2 = http2
    this.#secret = keepDaily(secret, (today) => this.#way.renew(today))
    this.#way = this.#build(config, identity)
    // Same options as http's: a client that ends its side still gets its answers.
    const options = { allowHalfOpen: true, noDelay: true }
    this.#server = createServer(options, (transport) => this.#way.accept(transport))
  }

  /** fd: a bound socket of this process to listen on, instead of server.listen. */
  async listen(fd?: number): Promise<ListenAddress> {
    const { listen } = this.#config.server
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
        this.#http2.closeIdle()
      }
      this.#way = next
      this.#http1.use(config)
      this.#http2.use(config)
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
      const closing = setTimeout(() => this.closeIdle(), idleMs)
      this.#server.close(() => {
        clearTimeout(closing)
        this.#secret.stop()
        this.#http1.close()
        this.#http2.close()
        resolve()
      })
      if (idleMs === 0) this.closeIdle()
      // HTTP/2 clients get GOAWAY and lose nothing: requests already on their way are refused as not begun (RFC 9113 6.8).
      this.#http2.closeIdle()
    })
  }

  /** Closes connections that wait for a next request. */
  closeIdle(): void {
    for (const transport of this.#arriving.keys()) transport.destroy()
    this.#http1.closeIdle()
  }

  /** Destroys all connections. */
  destroy(): void {
    for (const transport of this.#arriving.keys()) transport.destroy()
    this.#http1.destroy()
    this.#http2.destroy()
  }

  #build(config: Config, identity: TlsIdentity | undefined, before?: WayIn): WayIn {
    const proto = identity === undefined ? 'http' : 'https'
    const isSame = before?.proto === proto && before.identity?.clientCa === identity?.clientCa
    return createWayIn({
      config,
      identity,
      proto,
      secret: this.#secret.today(),
      door: isSame ? before.door : { isClosed: false },
      http1: this.#http1,
      http2: this.#http2,
      arriving: this.#arriving,
      penalties: this.#penalties,
      events: this.#events,
    })
  }
}
