/** Builds the header fields of the answer to the client: the backend's own without what is the gateway's to say. */
import { connectionOptions, fieldNames, isFieldName, isFieldValue, VIA } from './field-names.ts'

export interface BackendAnswer {
  readonly status: number
  /** Method of the request. */
  readonly method: string
  /** The backend's fields, flat; bytes above ASCII as latin1. */
  readonly headers: readonly string[]
  /** What the gateway adds, flat. */
  readonly gatewayHeaders: readonly string[]
  /** The gateway says which pages may read answers; a backend does not. */
  readonly ownsCors?: boolean
}

export interface PassableAnswer {
  /** Flat, a fresh array; framing headers other than Content-Length are left to Node. */
  readonly headers: string[]
  /** false: what comes as a body is not to be written (RFC 9112 6.3: HEAD, 204 and 304 have none). */
  readonly bodyAllowed: boolean
  /** Declared length; undefined when it is not known. */
  readonly bodyBytes: number | undefined
}

const kindOf = fieldNames({
  connection: 'connection',
  'content-length': 'length',
  'transfer-encoding': 'coding',
  via: 'via',
  // RFC 9110 7.6.1: of one connection only. Upgrade too, since nobody asked for one.
  'keep-alive': 'removed',
  'proxy-connection': 'removed',
  'proxy-authenticate': 'removed',
  'proxy-authentication-info': 'removed',
  te: 'removed',
  trailer: 'removed',
  upgrade: 'removed',
  'http2-settings': 'removed',
  // The gateway's own words: its client must not read a backend's in their place.
  'x-ratelimit*': 'removed',
  ratelimit: 'removed',
  'ratelimit-policy': 'removed',
  'x-request-id': 'removed',
  deprecation: 'removed',
  sunset: 'removed',
  'x-api-stability': 'removed',
  'access-control*': 'cors',
  'strict-transport-security': 'hsts',
})

/** undefined: the answer cannot be passed on, as its status, its framing or a field is not HTTP. */
export function clientHeaders(answer: BackendAnswer): PassableAnswer | undefined {
  const { status, method, headers, gatewayHeaders, ownsCors = false } = answer
  if (!Number.isInteger(status) || status < 200 || status > 599) return undefined
  let passed: string[] = []
  let nominated: ReadonlySet<string> | undefined
  let via = ''
  let length: string | undefined
  let chunked = false
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] ?? ''
    const value = headers[at + 1] ?? ''
    // Node would throw when it writes the head.
    if (!isFieldName(name) || !isFieldValue(value)) return undefined
    switch (kindOf(name)) {
      case 'length':
        // A look-alike is nobody's length, or two readers would find two ends of the body.
        if (!name.includes('-')) return undefined
        // RFC 9112 6.3: repeating one length is harmless, anything else leaves the end of the body open.
        if (!/^[0-9]{1,15}$/.test(value) || (length ?? value) !== value) return undefined
        length = value
        break
      case 'coding':
        if (!name.includes('-')) return undefined
        // Any other coding would still be on the body after the engine has undone the chunks.
        if (chunked || value.toLowerCase() !== 'chunked') return undefined
        chunked = true
        break
      case 'via':
        via += `${value}, `
        break
      case 'connection':
        nominated = connectionOptions(value, nominated)
        break
      case 'removed':
        break
      case 'hsts':
        if (!gatewayHeaders.includes('Strict-Transport-Security')) passed.push(name, value)
        break
      case 'cors':
        if (!ownsCors) passed.push(name, value)
        break
      case undefined:
        passed.push(name, value)
    }
  }
  if (chunked && length !== undefined) return undefined
  // Last, since Connection may stand after what it nominates.
  if (nominated !== undefined && nominated.size > 0) passed = without(passed, nominated)
  // RFC 9110 8.6: a 204 has no Content-Length.
  if (length !== undefined && status !== 204) passed.push('Content-Length', length)
  for (const text of gatewayHeaders) passed.push(text)
  passed.push('Via', via + VIA)
  const bodyAllowed = method !== 'HEAD' && status !== 204 && status !== 304
  return {
    headers: passed,
    bodyAllowed,
    bodyBytes: length === undefined ? undefined : Number(length),
  }
}

/** headers: flat. names: in lower case. */
function without(headers: readonly string[], names: ReadonlySet<string>): string[] {
  const kept: string[] = []
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] ?? ''
    if (!names.has(name.toLowerCase())) kept.push(name, headers[at + 1] ?? '')
  }
  return kept
}

/** For the 101 to a WebSocket handshake (RFC 6455 4.2.2): the same, and the two fields that make it one. */
export function switchingHeaders(
  headers: readonly string[],
  gatewayHeaders: readonly string[],
  ownsCors: boolean,
): string[] | undefined {
  // Like a 204 it has no body, and so no length of one (RFC 9110 8.6).
  const passed = clientHeaders({ status: 204, method: 'GET', headers, gatewayHeaders, ownsCors })
  return passed && ['Connection', 'Upgrade', 'Upgrade', 'websocket', ...passed.headers]
}
