/** Builds the header fields of the request to the backend: the client's own, without those that the gateway sets or removes. */
import type { Config } from '../../config/config.ts'
import type { Exchange } from '../pipeline/exchange.ts'
import type { Caller } from './credentials.ts'
import { fieldNames, VIA } from './field-names.ts'

/**
 * Fields of the client that never reach the backend, look-alikes included. The gateway adds its own afterwards, so a
 * client cannot remove those by nominating them in Connection.
 */
const isRemoved = fieldNames({
  // RFC 9110 7.6.1: these concern one connection only. Proxy-Connection and Keep-Alive are older, and as bad.
  connection: 'hop by hop',
  'keep-alive': 'hop by hop',
  te: 'hop by hop',
  trailer: 'hop by hop',
  upgrade: 'hop by hop',
  'http2-settings': 'hop by hop',
  // Proxy-Authorization and kin; a bare Proxy is HTTP_PROXY to a CGI backend.
  'proxy*': 'hop by hop',
  // The gateway frames the body itself: it writes the length anew, and the engine writes the chunks.
  'content-length': 'framing',
  'transfer-encoding': 'framing',
  // The gateway itself answers it, before it reads the body.
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

/**
 * Returns a fresh flat array. Host is missing where it will be the backend's own, which is not known yet. Content-Length
 * is present exactly when the body has a known length. caller: its texts are field values (isFieldValue). host: which Host the
 * backend gets.
 */
export function backendHeaders(
  { id, proto, sender, request, framing }: Exchange,
  { clientId, plan }: Pick<Caller, 'clientId' | 'plan'>,
  host: Config['upstream']['host'],
): string[] {
  const { address, proxies } = sender
  const { rawHeaders } = request
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
  headers.push('X-Client-Id', clientId)
  headers.push('X-Client-Plan', plan)
  headers.push('X-Request-Id', id)
  headers.push('X-Forwarded-For', proxies === '' ? address : `${address}, ${proxies}`)
  headers.push('X-Forwarded-Proto', proto)
  headers.push('X-Forwarded-Host', framing.host)
  headers.push('Via', request.httpVersion === '2.0' ? '2 tollgate' : VIA)
  return headers
}
