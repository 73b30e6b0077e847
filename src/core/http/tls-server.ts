/** Serves TLS on connections accepted elsewhere: the handshake, client certificates, and the choice of protocol. */
import { constants } from 'node:crypto'
import type { Socket } from 'node:net'
import { createServer, type Server, type TLSSocket, type TlsOptions } from 'node:tls'
import type { Config } from '../../config/config.ts'
import type { ClientConnection } from './connections.ts'
import { isHttp2Safe, transportOf } from './node-internals.ts'
import { ticketKeys, type SecretOfDay } from './ticket-secret.ts'
import { serve, type ServerParts } from './server-parts.ts'

/** Certificate and key as PEM texts, and the demands on clients. */
export interface TlsIdentity {
  readonly cert: string
  readonly key: string
  /** Authorities of client certificates; undefined: no certificate is requested. */
  readonly clientCa: string | undefined
  readonly minVersion: '1.2' | '1.3'
}

/** Maps error codes of OpenSSL and Node.js to faults; the first match counts. refused: the client sent an alert. */
const faultCodes = [
  [/HANDSHAKE_TIMEOUT$/, 'timeout'],
  [/^(?:ECONNRESET|EPIPE)$|UNEXPECTED_EOF/, 'closed'],
  [/HTTP_REQUEST$|WRONG_VERSION_NUMBER$|PACKET_LENGTH_TOO_LONG$|RECORD_TOO_SMALL$/, 'not_tls'],
  [/UNSUPPORTED_PROTOCOL$|VERSION_TOO_LOW$|INAPPROPRIATE_FALLBACK$/, 'version'],
  [/NO_APPLICATION_PROTOCOL$/, 'protocol'],
  [/NO_SHARED_|NO_SUITABLE_/, 'cipher'],
  [/_ALERT_/, 'refused'],
] as const

export type HandshakeFault = (typeof faultCodes)[number][1] | 'certificate' | 'other'
/** certificate: the client's is missing or invalid. */
export const handshakeFaults: readonly HandshakeFault[] = [
  'certificate',
  'other',
  ...faultCodes.map(([, fault]) => fault),
]

/** Only ciphers with forward secrecy and authenticated encryption are allowed (RFC 9325 4.2). */
const CIPHERS = [
  'TLS_AES_128_GCM_SHA256',
  'TLS_AES_256_GCM_SHA384',
  'TLS_CHACHA20_POLY1305_SHA256',
  'ECDHE-ECDSA-AES128-GCM-SHA256',
  'ECDHE-RSA-AES128-GCM-SHA256',
  'ECDHE-ECDSA-AES256-GCM-SHA384',
  'ECDHE-RSA-AES256-GCM-SHA384',
  'ECDHE-ECDSA-CHACHA20-POLY1305',
  'ECDHE-RSA-CHACHA20-POLY1305',
].join(':')

export class TlsServer {
  readonly clientCa: string | undefined
  /** The demands on clients, which a resumed session does not check again: other demands give other ticket keys. */
  readonly #demands: string
  readonly #parts: ServerParts
  readonly #server: Server
  /** Prefers HTTP/1.1, for addresses with a penalty. */
  readonly #heldServer: Server
  readonly #clients = new WeakMap<Socket, ClientConnection>()

  /** Throws Node's error if the identity cannot be used. */
  constructor({ server }: Config, identity: TlsIdentity, secret: SecretOfDay, parts: ServerParts) {
    const { cert, key, clientCa, minVersion } = identity
    this.clientCa = clientCa
    this.#demands = `${minVersion}\n${clientCa ?? ''}`
    this.#parts = parts
    const options: TlsOptions = {
      cert,
      key,
      ...(clientCa !== undefined && { ca: clientCa, requestCert: true }),
      // With true, Node would end the connection without a reason.
      rejectUnauthorized: false,
      minVersion: `TLSv${minVersion}`,
      ciphers: CIPHERS,
      secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
      handshakeTimeout: server.timeouts.headersMs,
      ticketKeys: ticketKeys(secret, this.#demands),
      // Node's default depends on the command line, but any worker must resume a session.
      sessionIdContext: 'tollgate',
    }
    const offersHttp2 = isHttp2Safe && server.http2 !== 'false'
    const names = offersHttp2 ? ['h2', 'http/1.1'] : ['http/1.1']
    // TLS chooses the first of these names that the client also offers.
    this.#server = createServer({ ...options, ALPNProtocols: names })
    this.#heldServer = createServer({ ...options, ALPNProtocols: names.toReversed() })
    for (const one of [this.#server, this.#heldServer])
      one.on('secureConnection', this.#onSecured).on('tlsClientError', this.#onFault)
  }

  take(client: ClientConnection): void {
    const { transport, addressKey } = client
    this.#clients.set(transport, client)
    // Node's TLS socket inherits this: a client that ends its side during the handshake can never complete it.
    transport.allowHalfOpen = false
    const isHeld = this.#parts.penalties.holds(addressKey, performance.now())
    ;(isHeld ? this.#heldServer : this.#server).emit('connection', transport)
  }

  /** Applies the secret of a new day; earlier tickets become invalid. */
  renew(secret: SecretOfDay): void {
    for (const one of [this.#server, this.#heldServer])
      one.setTicketKeys(ticketKeys(secret, this.#demands))
  }

  readonly #onFault = (error: NodeJS.ErrnoException, socket: TLSSocket): void => {
    const cause = error.code ?? error.message
    this.#fail(socket, faultCodes.find(([pattern]) => pattern.test(cause))?.[1] ?? 'other', cause)
  }

  #fail(socket: TLSSocket, fault: HandshakeFault, cause: string): void {
    const transport = transportOf(socket)
    const client = this.#clients.get(transport)
    transport.destroy()
    if (client !== undefined)
      this.#parts.events.handshakeFailed(client.origin.address, fault, cause)
  }

  /** Serves the connection by the negotiated protocol. */
  readonly #onSecured = (socket: TLSSocket): void => {
    const client = this.#clients.get(transportOf(socket))
    if (this.clientCa !== undefined && !socket.authorized)
      return this.#fail(socket, 'certificate', String(socket.authorizationError))
    if (client === undefined) return
    const { transport, addressKey } = client
    const { penalties } = this.#parts
    const isHttp2 = socket.alpnProtocol === 'h2'
    socket.allowHalfOpen = true
    const begin = (): void => {
      // When it became outdated, HTTP/2 connections were closed.
      if (isHttp2 && client.isOutdated) transport.destroy()
      else if (!socket.destroyed) serve(socket, client, this.#parts, isHttp2)
    }
    const isHeld = isHttp2 && penalties.holds(addressKey, performance.now())
    if (!isHeld || addressKey === undefined) return begin()
    transport.once('close', penalties.beginInTurn(addressKey, begin))
  }
}
