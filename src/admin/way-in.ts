/** Accepts connections of the admin listener, with or without TLS. A reload changes TLS and certificates without closing any. */
import type { IncomingMessage, Server } from 'node:http'
import { createServer as createListener, type Socket } from 'node:net'
import { createServer as createTlsServer, TLSSocket } from 'node:tls'
import { feed, serveUnbound, transportOf } from '../core/http/node-internals.ts'
import type { TlsIdentity } from '../core/http/tls-server.ts'
import type { ConnectionSlots } from './connection-slots.ts'

/** A client certificate of its clientCa replaces a token. */
export type AdminIdentity = Omit<TlsIdentity, 'minVersion'>

const HANDSHAKE_MS = 5_000

export class WayIn {
  readonly #http: Server
  readonly #slots: ConnectionSlots
  readonly listener = createListener({ allowHalfOpen: true, noDelay: true }, (transport) =>
    this.#accept(transport),
  )
  /** This and the two fields below are written by use. */
  #clientCa: string | undefined
  #take: (transport: Socket) => void = () => {}
  /** Connections whose client has shown a certificate of the authorities in force. */
  #certified = new WeakSet<Socket>()

  constructor(http: Server, slots: ConnectionSlots, identity: AdminIdentity | undefined) {
    this.#http = http
    this.#slots = slots
    serveUnbound(http)
    this.use(identity)
  }

  /** Sets the identity for new connections; undefined: no TLS. Returns whether the authorities have changed, which voids all certificates shown before. */
  use(identity: AdminIdentity | undefined): boolean {
    const isChanged = identity?.clientCa !== this.#clientCa
    if (isChanged) this.#certified = new WeakSet()
    this.#clientCa = identity?.clientCa
    this.#take =
      identity === undefined ? (transport) => feed(this.#http, transport) : this.#secured(identity)
    return isChanged
  }

  /** Name in the client's certificate; undefined: it has shown none that is accepted. */
  certifiedName({ socket }: IncomingMessage): string | undefined {
    if (!(socket instanceof TLSSocket) || !this.#certified.has(socket)) return undefined
    const { subject, fingerprint256 } = socket.getPeerCertificate()
    return String(subject.CN ?? fingerprint256)
  }

  #accept(transport: Socket): void {
    this.#slots.admit(transport)
    // Until a server takes the connection, nobody else handles its errors.
    transport.on('error', () => transport.destroy())
    if (!transport.destroyed) this.#take(transport)
  }

  #secured({ cert, key, clientCa }: AdminIdentity): (transport: Socket) => void {
    const certified = this.#certified
    const server = createTlsServer({
      cert,
      key,
      ca: clientCa,
      requestCert: clientCa !== undefined,
      // Probes have no certificate, and need none.
      rejectUnauthorized: false,
      minVersion: 'TLSv1.2',
      ALPNProtocols: ['http/1.1'],
      handshakeTimeout: HANDSHAKE_MS,
    })
    server.on('tlsClientError', (_error, socket) => transportOf(socket).destroy())
    server.on('secureConnection', (socket) => {
      if (clientCa !== undefined && socket.authorized) certified.add(socket)
      feed(this.#http, socket)
    })
    return (transport) => {
      // A client that ends its side during the handshake would never be closed otherwise.
      transport.allowHalfOpen = false
      server.emit('connection', transport)
    }
  }
}
