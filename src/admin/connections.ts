/** Connections of the admin listener: how they are accepted, and how many there may be. */
import type { IncomingMessage, Server, ServerResponse } from 'node:http'
import type { Socket } from 'node:net'
import { createServer, TLSSocket } from 'node:tls'
import { interpose, transportOf } from '../core/http/node-internals.ts'
import type { TlsIdentity } from '../core/http/tls-server.ts'
import { hasBody } from './operation.ts'

const transportOfRequest = ({ socket }: IncomingMessage): Socket =>
  socket instanceof TLSSocket ? transportOf(socket) : socket

type Use = 'idle' | 'answering' | 'reading'

const UNANSWERED_AT_MOST = 8
/** Enough for probes, scrapers and a few people. */
const MAX_CONNECTIONS = 128

/**
 * Bounds the connections of the admin listener. When all are taken, a new one closes the least useful: the oldest without a
 * request under way (a slow head is none), else the oldest whose client is slow to read an answer. A request that is being
 * answered is never cut off for another; each of them ends by itself. A connection with many unanswered requests is closed:
 * all their answers would be kept until the first is read.
 */
export class ConnectionSlots {
  /** Connections in the order of their last change. Written by all methods. */
  readonly #uses = new Map<Socket, Use>()
  readonly #unanswered = new WeakMap<Socket, number>()

  admit(socket: Socket): void {
    if (this.#uses.size >= MAX_CONNECTIONS) {
      const victim = this.#oldest('idle') ?? this.#oldest('reading') ?? socket
      victim.destroy()
      this.#uses.delete(victim)
      if (victim === socket) return
    }
    this.#uses.set(socket, 'idle')
    socket.once('close', () => this.#uses.delete(socket))
  }

  /** Closes all connections, including those in their handshake. */
  closeAll(): void {
    for (const socket of this.#uses.keys()) socket.destroy()
  }

  /** Notes a request, and returns what notes that its answer is ready, which the client may not have read yet; undefined: it must not be answered. Until its body has arrived, the connection counts as idle, as with a slow head. */
  answering(request: IncomingMessage, response: ServerResponse): (() => void) | undefined {
    const socket = transportOfRequest(request)
    const unanswered = (this.#unanswered.get(socket) ?? 0) + 1
    if (unanswered > UNANSWERED_AT_MOST) socket.destroy()
    if (socket.destroyed) return undefined
    this.#unanswered.set(socket, unanswered)
    response.once('close', () => {
      this.#unanswered.set(socket, (this.#unanswered.get(socket) ?? 1) - 1)
      if (this.#uses.get(socket) === 'reading') this.#change(socket, 'idle')
    })
    const begin = (): void => this.#change(socket, 'answering')
    if (hasBody(request)) request.once('end', begin)
    else begin()
    return () => {
      if (this.#uses.get(socket) === 'answering') this.#change(socket, 'reading')
    }
  }

  #change(socket: Socket, use: Use): void {
    if (this.#uses.delete(socket)) this.#uses.set(socket, use)
  }

  #oldest(wanted: Use): Socket | undefined {
    for (const [socket, use] of this.#uses) if (use === wanted) return socket
    return undefined
  }
}

/** A client certificate of its clientCa replaces a token. */
export type AdminIdentity = Omit<TlsIdentity, 'minVersion'>

const HANDSHAKE_MS = 5_000

/** Takes connections, with or without TLS. A reload changes TLS and certificates without closing any. */
export class WayIn {
  readonly #slots: ConnectionSlots
  /** Node's own reader of requests. */
  readonly #serve: (socket: Socket) => void
  /** This and the two fields below are written by use. */
  #clientCa: string | undefined
  #take: (transport: Socket) => void = () => {}
  /** Connections whose client has shown a certificate of the authorities in force. */
  #certified = new WeakSet<Socket>()

  constructor(http: Server, slots: ConnectionSlots, identity: AdminIdentity | undefined) {
    this.#slots = slots
    this.#serve = interpose(http, (transport) => this.#accept(transport))
    this.use(identity)
  }

  /** Sets the identity for new connections; undefined: no TLS. Returns whether the authorities have changed, which voids all certificates shown before. */
  use(identity: AdminIdentity | undefined): boolean {
    const isChanged = identity?.clientCa !== this.#clientCa
    if (isChanged) this.#certified = new WeakSet()
    this.#clientCa = identity?.clientCa
    this.#take = identity === undefined ? this.#serve : this.#secured(identity)
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
    const server = createServer({
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
      this.#serve(socket)
    })
    return (transport) => {
      // A client that ends its side during the handshake would never be closed otherwise.
      transport.allowHalfOpen = false
      server.emit('connection', transport)
    }
  }
}
