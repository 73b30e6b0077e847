/** Connections of the admin listener, through TLS or not; a reload changes that, and the certificates, without closing one. */
import type { IncomingMessage, Server } from 'node:http'
import { createServer as createListener, type Socket } from 'node:net'
import { createServer as createTlsServer, TLSSocket } from 'node:tls'
import { feed, serveUnbound, transportOf } from '../core/http/node-internals.ts'
import type { ConnectionSlots } from './connection-slots.ts'

/** PEM texts. */
export interface AdminIdentity {
  readonly cert: string
  readonly key: string
  /** Authorities whose client certificates are worth a token; undefined: no certificate is. */
  readonly clientCa: string | undefined
}

const HANDSHAKE_MS = 5_000

export class WayIn {
  readonly #http: Server
  readonly #slots: ConnectionSlots
  readonly listener = createListener({ allowHalfOpen: true, noDelay: true }, (transport) =>
    this.#accept(transport),
  )
  /** All three written by use(). */
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

  /** For connections from here on; undefined: without TLS. Who was let in by authorities that are no more has shown nothing. Whether there are other authorities. */
  use(identity: AdminIdentity | undefined): boolean {
    const isChanged = identity?.clientCa !== this.#clientCa
    if (isChanged) this.#certified = new WeakSet()
    this.#clientCa = identity?.clientCa
    this.#take =
      identity === undefined ? (transport) => feed(this.#http, transport) : this.#secured(identity)
    return isChanged
  }

  /** Name in the client's certificate; undefined: it has shown none that counts. */
  certifiedName({ socket }: IncomingMessage): string | undefined {
    if (!(socket instanceof TLSSocket) || !this.#certified.has(socket)) return undefined
    const { subject, fingerprint256 } = socket.getPeerCertificate()
    return String(subject.CN ?? fingerprint256)
  }

  #accept(transport: Socket): void {
    this.#slots.admit(transport)
    // Before it is anybody's, an error of it is nobody's.
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
      // Probes have none, and need none.
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
      // Who ends its side before the handshake has ended would never be done.
      transport.allowHalfOpen = false
      server.emit('connection', transport)
    }
  }
}
