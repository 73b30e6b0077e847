/** Path safety: takes only targets that every server reads the same way, so that what is routed is what is served. */
import type { IncomingMessage } from 'node:http'
import { refuse, type Refusal } from './refusals.ts'

export interface Target {
  /** The part before the query, not decoded: routed, logged and counted under this very text. `*` asks about the gateway itself. */
  readonly path: string
  /** Path and query as received, without scheme and authority; goes to the backend byte for byte. */
  readonly raw: string
}

type Scheme = 'http' | 'https'

/**
 * Splits a target in origin form, or in the absolute form of this very origin, into path and query. `*` is taken for OPTIONS alone.
 * Refuses with uri_too_long or invalid_request. host: the one Host, as received. proto: scheme on which the client reached the gateway
 * or the first trusted proxy. mostBytes: longest allowed target.
 */
export function checkTarget(
  { method, url = '' }: Pick<IncomingMessage, 'method' | 'url'>,
  host: string,
  proto: Scheme,
  mostBytes: number,
): Target | Refusal {
  // One character per byte: a target with any byte above ASCII is refused below.
  if (url.length > mostBytes)
    return refuse('uri_too_long', { cause: `target of ${url.length} bytes` })
  if (url.startsWith('/')) return checkPath(url)
  // RFC 9112 3.2.4: the asterisk form is for OPTIONS only.
  if (url === '*' && method === 'OPTIONS') return { path: '*', raw: '*' }
  return checkAbsolute(url, host, proto)
}

const NO_FORM = refuse('invalid_request', { cause: 'target is in no form that is served' })
const NOT_OURS = refuse('invalid_request', { cause: 'target is of another origin than Host' })

const absoluteForm = /^(https?):\/\/([^/?#]+)(?=[/?]|$)/i

/**
 * RFC 9112 3.2.2: the absolute form names the host a second time. Where it differs from Host, two servers would serve
 * two resources. RFC 9110 7.4: https is for a connection that is secured, here or by a trusted proxy.
 */
function checkAbsolute(target: string, host: string, proto: Scheme): Target | Refusal {
  const [start, scheme = '', authority = ''] = absoluteForm.exec(target) ?? []
  if (start === undefined) return NO_FORM
  const isOurs = scheme.toLowerCase() === proto && bare(authority, proto) === bare(host, proto)
  if (!isOurs) return NOT_OURS
  const rest = target.slice(start.length)
  // RFC 9112 3.2.1: an empty path is the root.
  return checkPath(rest.startsWith('/') ? rest : `/${rest}`)
}

/** Normalises an authority (RFC 9110 4.2.3): lower case, without an empty port or that of the scheme. */
function bare(authority: string, proto: Scheme): string {
  return authority.toLowerCase().replace(proto === 'http' ? /:(?:80)?$/ : /:(?:443)?$/, '')
}

function checkPath(target: string): Target | Refusal {
  const mark = target.indexOf('?')
  const path = mark === -1 ? target : target.slice(0, mark)
  const fault =
    (plainPath.test(path) ? undefined : (faultOf(path, pathFaults) ?? utf8Fault(path))) ??
    (mark === -1 ? undefined : faultOf(target.slice(mark + 1), queryFaults))
  if (fault !== undefined) return refuse('invalid_request', { cause: fault })
  return { path, raw: target }
}

type Faults = readonly (readonly [RegExp, string])[]

const faultOf = (text: string, faults: Faults): string | undefined =>
  faults.find(([fault]) => fault.test(text))?.[1]

/** Has none of the faults below, as most paths: no segment begins with a dot or a parameter, and nothing is encoded. */
const plainPath = /^(?:\/(?![.;])[\w\-.~!$&'()*+,;=:@]+)*\/?$/

const badEncoding = [/%(?![0-9A-Fa-f]{2})/, 'bad percent-encoding'] as const

const pathFaults: Faults = [
  // RFC 3986 3.3.
  [/[^\w\-.~!$&'()*+,;=:@/%]/, 'character not allowed in a path'],
  badEncoding,
  [/%(?:2f|5c)/i, 'encoded slash or backslash in path'],
  [/%(?:[01]|7f)/i, 'encoded control character in path'],
  // An unreserved character is equivalent to its plain form (RFC 3986 6.2.2.2), so a backend would serve `/%70ets` as `/pets`
  // while the gateway routed it as something else. An encoded dot is one of these.
  [/%(?:2[de]|3\d|[46][1-9a-f]|[57][\da]|5f|7e)/i, 'needlessly encoded character in path'],
  // `%252e` is `%2e` to a server that decodes once, and a dot to one that decodes twice.
  [/%25[\da-f]{2}/i, 'doubly encoded character in path'],
  // Only the last segment may be empty: `/pets/` has one reading. Some servers cut off the parameters of a segment, plain or
  // encoded, before they resolve dots: `/..;x/` is `/../` to them, and `/;x/` is `//`.
  [/\/(?:\/|;|%3b)/i, 'empty path segment'],
  [/\/\.{1,2}(?:\/|;|%3b|$)/i, 'dot segment in path'],
]

const queryFaults: Faults = [
  // RFC 3986 3.4 forbids the last seven, yet browsers send them bare (`?filter[status]=a|b`) and no server splits at them.
  [/[^\w\-.~!$&'()*+,;=:@/%?[\]{}|^`]/, 'character not allowed in a query'],
  badEncoding,
]

/** Overlong forms such as `%c0%ae` are dots and slashes to lax decoders (RFC 3629 section 10). */
function utf8Fault(path: string): string | undefined {
  try {
    decodeURIComponent(path)
    return undefined
  } catch {
    return 'path is not UTF-8'
  }
}
