/** Builds the header fields of the answer to the client: the backend's own, without those that the gateway sets or removes. */
import {
  connectionOptions,
  fieldNames,
  isFieldName,
  isFieldValue,
  NO_NAMES,
  VIA,
} from './field-names.ts'

export interface PassableAnswer {
  /** Flat; framing headers other than Content-Length are left to Node. */
  readonly headers: string[]
  /** Declared length; undefined when it is not known. */
  readonly bodyBytes: number | undefined
}

const kindOf = fieldNames({
  connection: 'connection',
  'content-length': 'length',
  'transfer-encoding': 'coding',
  via: 'via',
  // RFC 9110 7.6.1: these concern one connection only. So does Upgrade, and nobody asked for one.
  'keep-alive': 'removed',
  'proxy-connection': 'removed',
  'proxy-authenticate': 'removed',
  'proxy-authentication-info': 'removed',
  te: 'removed',
  trailer: 'removed',
  upgrade: 'removed',
  'http2-settings': 'removed',
  // The gateway sets these itself; a backend's must not be mistaken for them.
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

/**
 * Returns undefined when the answer cannot be passed on, since its framing or a field is not valid HTTP. headers: the backend's, flat;
 * bytes above ASCII as latin1. passed: the fields that the gateway adds, flat; those of the backend are put behind them, into the same
 * array, as each request makes one. ownsCors: the gateway alone says which pages may read answers, so a backend's Access-Control-* are
 * removed.
 */
export function clientHeaders(
  status: number,
  headers: readonly string[],
  passed: string[],
  ownsCors: boolean,
): PassableAnswer | undefined {
  const own = passed.length
  let nominated = NO_NAMES
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
        // A look-alike is refused, since two readers could find two ends of the body.
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
        if (!passed.slice(0, own).includes('Strict-Transport-Security')) passed.push(name, value)
        break
      case 'cors':
        if (!ownsCors) passed.push(name, value)
        break
      case undefined:
        passed.push(name, value)
    }
  }
  if (chunked && length !== undefined) return undefined
  // Nominated fields are removed last, since Connection may follow them.
  const kept = nominated.size === 0 ? passed : without(passed, own, nominated)
  // RFC 9110 8.6: a 204 has no Content-Length.
  if (length !== undefined && status !== 204) kept.push('Content-Length', length)
  kept.push('Via', via + VIA)
  return { headers: kept, bodyBytes: length === undefined ? undefined : Number(length) }
}

/** fields: flat. from: the first that may go. names: in lower case. */
const without = (fields: string[], from: number, names: ReadonlySet<string>): string[] =>
  fields.filter((_, at) => at < from || !names.has((fields[at & ~1] ?? '').toLowerCase()))
