/** Builds the header fields of the request to the backend: the client's own without what is the gateway's to say. */
import type { Config } from '../../config/config.ts'
import { fieldNames, VIA, VIA_HTTP2 } from './field-names.ts'
import type { Framing } from './framing.ts'

export interface BackendHeadersInput {
  /** What the backend gets as Host. */
  readonly host: Config['upstream']['host']
  /** The client's fields, flat. */
  readonly rawHeaders: readonly string[]
  readonly framing: Pick<Framing, 'body' | 'bodyBytes' | 'host' | 'nominated'>
  /** Both must be field values (isFieldValue). */
  readonly clientId: string
  readonly plan: string
  readonly requestId: string
  readonly clientAddress: string
  /** Trusted hops behind the client, as ClientAddress has them. */
  readonly proxies?: string
  /** How the client reached us or the first trusted proxy; http by default, as the gateway itself listens for that. */
  readonly proto?: 'http' | 'https' | undefined
  /** Of the request; 1.1 by default. */
  readonly httpVersion?: string | undefined
}

/**
 * Never taken over from a client, look-alikes included. The gateway's own are added after the removal, so that
 * nominating them in Connection takes nothing away from the backend.
 */
const isRemoved = fieldNames({
  // RFC 9110 7.6.1: of one connection only. Proxy-Connection and Keep-Alive are older, and as bad.
  connection: 'hop by hop',
  'keep-alive': 'hop by hop',
  te: 'hop by hop',
  trailer: 'hop by hop',
  upgrade: 'hop by hop',
  'http2-settings': 'hop by hop',
  // Proxy-Authorization and kin; a bare Proxy is HTTP_PROXY to a CGI backend.
  'proxy*': 'hop by hop',
  // Framing is decided here: the length is written anew, chunks are the engine's.
  'content-length': 'framing',
  'transfer-encoding': 'framing',
  // Answered here before the body is asked for.
  expect: 'framing',
  authorization: 'credential',
  host: 'gateway',
  'x-client*': 'gateway',
  'x-request-id': 'gateway',
  'x-forwarded*': 'gateway',
  'forwarded*': 'gateway',
  'x-real-ip': 'gateway',
  via: 'gateway',
  'x-ratelimit*': 'gateway',
  'ratelimit*': 'gateway',
  // Some frameworks route by these instead of the path that was checked and counted.
  'x-original-url': 'path',
  'x-rewrite-url': 'path',
})

/** Flat; a fresh array. Without Host where it is to be the backend's own, which is not known yet. Content-Length is there exactly when the body has a known length. */
export function backendHeaders(input: BackendHeadersInput): string[] {
  const { rawHeaders, framing, host, clientAddress, proxies = '' } = input
  const { nominated } = framing
  const headers: string[] = []
  if (host !== 'upstream') headers.push('Host', host === 'preserve' ? framing.host : host.name)
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? ''
    if (isRemoved(name) !== undefined) continue
    if (nominated.size > 0 && nominated.has(name.toLowerCase())) continue
    headers.push(name, rawHeaders[at + 1] ?? '')
  }
  if (framing.body === 'length') headers.push('Content-Length', String(framing.bodyBytes))
  headers.push('X-Client-Id', input.clientId)
  headers.push('X-Client-Plan', input.plan)
  headers.push('X-Request-Id', input.requestId)
  headers.push('X-Forwarded-For', proxies === '' ? clientAddress : `${clientAddress}, ${proxies}`)
  headers.push('X-Forwarded-Proto', input.proto ?? 'http')
  headers.push('X-Forwarded-Host', framing.host)
  headers.push('Via', input.httpVersion === '2.0' ? VIA_HTTP2 : VIA)
  return headers
}

/** The same for a WebSocket handshake (RFC 6455 4.1), where framing.websocket holds. */
export function upgradeHeaders(input: BackendHeadersInput): string[] {
  const headers = backendHeaders(input)
  headers.push('Connection', 'Upgrade', 'Upgrade', 'websocket')
  return headers
}
