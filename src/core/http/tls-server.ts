/** Serves TLS on connections accepted elsewhere: the handshake, client certificates, and the choice of protocol. */
import { constants } from 'node:crypto'
import type { Socket } from 'node:net'
import { createServer, type Server, type TLSSocket } from 'node:tls'
import type { ClientConnection } from './connections.ts'
import { isHttp2Safe, transportOf } from './node-internals.ts'
import type { WayInOptions } from './way-in.ts'
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

type TlsServerOptions = WayInOptions & { readonly identity: TlsIdentity }

/** Throws Node's error if the identity cannot be used. */
export function createTlsServer(options: TlsServerOptions, parts: ServerParts) {
  const clients: Clients = new WeakMap()
  const offersHttp2 = isHttp2Safe && options.config.server.http2 !== 'false'
  const names = offersHttp2 ? ['h2', 'http/1.1'] : ['http/1.1']
  const server = createServerOf(options, parts, { clients, names })
  // TLS chooses the first of these names that the client also offers.
  const heldServer = createServerOf(options, parts, { clients, names: names.toReversed() })
  return {
    take(transport: Socket, client: ClientConnection): void {
      clients.set(transport, client)
      // Node's TLS socket inherits this: a client that ends its side during the handshake can never complete it.
      transport.allowHalfOpen = false
      const isHeld = parts.penalties.holds(client.addressKey, performance.now())
      ;(isHeld ? heldServer : server).emit('connection', transport)
    },
    /** Applies the secret of a new day; earlier tickets become invalid. */
    renew(secret: SecretOfDay): void {
      for (const one of [server, heldServer]) one.setTicketKeys(keysOf(options.identity, secret))
    },
  }
}

/** Connections by their transports. */
type Clients = WeakMap<Socket, ClientConnection>

function createServerOf(
  options: TlsServerOptions,
  parts: ServerParts,
  { clients, names }: { clients: Clients; names: string[] },
): Server {
  const { identity } = options
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
    handshakeTimeout: options.config.server.timeouts.headersMs,
    ticketKeys: keysOf(identity, options.secret),
    // Node's default depends on the command line, but any worker must resume a session.
    sessionIdContext: 'tollgate',
  })
  const fail = (socket: TLSSocket, fault: HandshakeFault, cause: string): void => {
    const transport = transportOf(socket)
    const client = clients.get(transport)
    transport.destroy()
    if (client !== undefined) parts.events.handshakeFailed(client.origin.address, fault, cause)
  }
  server.on('tlsClientError', (error: NodeJS.ErrnoException, socket) => {
    const cause = error.code ?? error.message
    fail(socket, faultCodes.find(([pattern]) => pattern.test(cause))?.[1] ?? 'other', cause)
  })
  server.on('secureConnection', (socket) => {
    if (clientCa !== undefined && !socket.authorized)
      return fail(socket, 'certificate', String(socket.authorizationError))
    const client = clients.get(transportOf(socket))
    if (client !== undefined) handOn(socket, client, parts)
  })
  return server
}

/** Serves the connection by the negotiated protocol. */
function handOn(socket: TLSSocket, client: ClientConnection, parts: ServerParts): void {
  const { transport, addressKey, origin } = client
  const isHttp2 = socket.alpnProtocol === 'h2'
  socket.allowHalfOpen = true
  const begin = (): void => {
    // When the door was closed, HTTP/2 connections were closed as well.
    if (isHttp2 && origin.door.isClosed) transport.destroy()
    else if (!socket.destroyed) serve(socket, client, parts, isHttp2)
  }
  const isHeld = isHttp2 && parts.penalties.holds(addressKey, performance.now())
  if (!isHeld || addressKey === undefined) return begin()
  transport.once('close', parts.penalties.beginInTurn(addressKey, begin))
}

/** Derives ticket keys from the demands on clients: a resumed session does not check them again. */
function keysOf({ minVersion, clientCa }: TlsIdentity, secret: SecretOfDay): Buffer {
  return ticketKeys(secret, `${minVersion}\n${clientCa ?? ''}`)
}
