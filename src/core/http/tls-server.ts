/** Serves TLS on connections accepted elsewhere: the handshake, client certificates, and the choice of protocol. */
import { constants } from 'node:crypto'
import type { Socket } from 'node:net'
import { createServer, type Server, type TLSSocket } from 'node:tls'
import type { Entry } from './connections.ts'
import type { ProtocolServer } from './http1-server.ts'
import { transportOf } from './node-internals.ts'
import type { Penalties } from './penalties.ts'
import { ticketKeys, type SecretOfDay } from './ticket-secret.ts'

/** Certificate and key as PEM texts, and the demands on clients. */
export interface TlsIdentity {
  readonly cert: string
  readonly key: string
  /** Authorities of client certificates; undefined: no certificate is requested. */
  readonly clientCa: string | undefined
  readonly minVersion: '1.2' | '1.3'
}

/** certificate: the client's is missing or invalid. refused: the client sent an alert. */
export const handshakeFaults = [
  'certificate',
  'cipher',
  'closed',
  'not_tls',
  'other',
  'protocol',
  'refused',
  'timeout',
  'version',
] as const
export type HandshakeFault = (typeof handshakeFaults)[number]

/** Maps error codes of OpenSSL and Node.js to faults; the first match counts. */
const faultCodes: readonly (readonly [RegExp, HandshakeFault])[] = [
  [/HANDSHAKE_TIMEOUT$/, 'timeout'],
  [/^(?:ECONNRESET|EPIPE)$|UNEXPECTED_EOF/, 'closed'],
  [/HTTP_REQUEST$|WRONG_VERSION_NUMBER$|PACKET_LENGTH_TOO_LONG$|RECORD_TOO_SMALL$/, 'not_tls'],
  [/UNSUPPORTED_PROTOCOL$|VERSION_TOO_LOW$|INAPPROPRIATE_FALLBACK$/, 'version'],
  [/NO_APPLICATION_PROTOCOL$/, 'protocol'],
  [/NO_SHARED_|NO_SUITABLE_/, 'cipher'],
  [/_ALERT_/, 'refused'],
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

export interface TlsServerOptions {
  readonly identity: TlsIdentity
  readonly secret: SecretOfDay
  /** Longest handshake. */
  readonly handshakeMs: number
  /** Servers by protocol name (ALPN, RFC 7301), in order of preference. */
  readonly protocols: Readonly<{ h2?: ProtocolServer; 'http/1.1': ProtocolServer }>
  /** Connections whose handshake is under way. Written by the TLS server. */
  readonly arriving: Map<Socket, Entry>
  readonly penalties: Pick<Penalties, 'holds' | 'beginInTurn'>
  onFailed(entry: Entry, fault: HandshakeFault, cause: string): void
}

export type TlsServer = ReturnType<typeof createTlsServer>

/** Throws Node's error if the identity cannot be used. */
export function createTlsServer(options: TlsServerOptions) {
  const { protocols, arriving, penalties } = options
  const names = Object.keys(protocols)
  const server = createServerOf(options, names)
  // TLS chooses the first of these names that the client also offers.
  const heldServer = createServerOf(options, names.toReversed())
  return {
    take(transport: Socket, entry: Entry): void {
      arriving.set(transport, entry)
      // Node's TLS socket inherits this: a client that ends its side during the handshake can never complete it.
      transport.allowHalfOpen = false
      const isHeld = penalties.holds(entry.addressKey, performance.now())
      ;(isHeld ? heldServer : server).emit('connection', transport)
    },
    /** Applies the secret of a new day; earlier tickets become invalid. */
    renew(secret: SecretOfDay): void {
      for (const one of [server, heldServer]) one.setTicketKeys(keysOf(options.identity, secret))
    },
  }
}

function createServerOf(options: TlsServerOptions, names: string[]): Server {
  const { identity, arriving } = options
  const { cert, key, clientCa, minVersion } = identity
  const server = createServer({
    cert,
    key,
    ...(clientCa !== undefined && { ca: clientCa, requestCert: true }),
    // With true, Node would end the connection without a reason.
    rejectUnauthorized: false,
    minVersion: `TLSv${minVersion}`,
    ciphers: CIPHERS,
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
    ALPNProtocols: names,
    handshakeTimeout: options.handshakeMs,
    ticketKeys: keysOf(identity, options.secret),
    // Node's default depends on the command line, but any worker must resume a session.
    sessionIdContext: 'tollgate',
  })
  const fail = (socket: TLSSocket, fault: HandshakeFault, cause: string): void => {
    const transport = transportOf(socket)
    const entry = arriving.get(transport)
    arriving.delete(transport)
    transport.destroy()
    if (entry !== undefined) options.onFailed(entry, fault, cause)
  }
  server.on('tlsClientError', (error: NodeJS.ErrnoException, socket) => {
    const cause = error.code ?? error.message
    fail(socket, faultCodes.find(([pattern]) => pattern.test(cause))?.[1] ?? 'other', cause)
  })
  server.on('secureConnection', (socket) => {
    if (clientCa !== undefined && !socket.authorized)
      return fail(socket, 'certificate', String(socket.authorizationError))
    handOn(socket, options)
  })
  return server
}

/** Hands a connection to the server of the negotiated protocol. */
function handOn(socket: TLSSocket, { protocols, arriving, penalties }: TlsServerOptions): void {
  const transport = transportOf(socket)
  const entry = arriving.get(transport)
  if (entry === undefined) return
  socket.allowHalfOpen = true
  const http2 = socket.alpnProtocol === 'h2' ? protocols.h2 : undefined
  const begin = (): void => {
    arriving.delete(transport)
    // When the door was closed, HTTP/2 connections were closed as well.
    if (entry.door.isClosed && http2 !== undefined) transport.destroy()
    else if (!socket.destroyed) (http2 ?? protocols['http/1.1']).take(socket, entry)
  }
  const { addressKey } = entry
  if (http2 === undefined || addressKey === undefined) return begin()
  if (!penalties.holds(addressKey, performance.now())) return begin()
  const leave = penalties.beginInTurn(addressKey, begin)
  transport.once('close', () => {
    arriving.delete(transport)
    leave()
  })
}

/** Derives ticket keys from the demands on clients: a resumed session does not check them again. */
function keysOf({ minVersion, clientCa }: TlsIdentity, secret: SecretOfDay): Buffer {
  return ticketKeys(secret, `${minVersion}\n${clientCa ?? ''}`)
}
