/** Path safety: takes only targets that every server reads the same way, so that what is routed is what is served. */
import type { IncomingMessage } from 'node:http'
import { refuse, type Refusal } from './refusals.ts'

export interface Target {
  /** The part before the query, not decoded: routed, logged and counted under this very text. */
  readonly path: string
  /** Path and query as received, without scheme and authority; goes to the backend byte for byte. */
  readonly raw: string
  /** `OPTIONS *`: asks about the gateway itself, names no path. */
  readonly asterisk: boolean
}

export type CheckTarget = ReturnType<typeof createCheckTarget>

type Scheme = 'http' | 'https'

/** urlBytes: longest allowed target. host: the one Host, as received. proto: scheme on which the client reached the gateway or the first trusted proxy. */
export function createCheckTarget(urlBytes: number) {
  return (
    { method, url = '' }: Pick<IncomingMessage, 'method' | 'url'>,
    host: string,
    proto: Scheme,
  ): Target | Refusal => {
    const target = checkTarget(url, urlBytes, host, proto)
    // RFC 9112 3.2.4: the asterisk form is for OPTIONS only.
    return target === ASTERISK && method !== 'OPTIONS' ? NO_FORM : target
  }
}

const ASTERISK: Target = { path: '*', raw: '*', asterisk: true }
const NO_FORM = refuse('invalid_request', { cause: 'target is in no form that is served' })
const NOT_OURS = refuse('invalid_request', { cause: 'target is of another origin than Host' })

/**
 * Splits a target in origin form, or in the absolute form of this very origin, into path and query. `*` is taken too; the
 * caller checks that its method fits. target: as in the request line. urlBytes: longest allowed target.
 * Refuses with uri_too_long or invalid_request.
 */
export function checkTarget(
  target: string,
  urlBytes: number,
  host: string,
  proto: Scheme,
): Target | Refusal {
  // One character per byte: a target with any byte above ASCII is refused below.
  if (target.length > urlBytes) {
    return refuse('uri_too_long', { cause: `target of ${target.length} bytes` })
  }
  return target.charCodeAt(0) === SLASH ? checkPath(target) : checkOtherForm(target, host, proto)
}

const absoluteForm = /^(https?):\/\/([^/?#]+)(?=[/?]|$)/i

/**
 * RFC 9112 3.2.2: the absolute form names the host a second time. Where it differs from Host, two servers would serve
 * two resources. RFC 9110 7.4: https is for a connection that is secured, here or by a trusted proxy.
 */
function checkOtherForm(target: string, host: string, proto: Scheme): Target | Refusal {
  if (target === '*') return ASTERISK
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
  const pathEnd = mark === -1 ? target.length : mark
  const fault = pathFault(target, pathEnd) ?? queryFault(target, pathEnd + 1)
  if (fault !== undefined) return refuse('invalid_request', { cause: fault })
  return { path: mark === -1 ? target : target.slice(0, mark), raw: target, asterisk: false }
}

const PERCENT = 0x25
const DOT = 0x2e
const SLASH = 0x2f
const SEMICOLON = 0x3b
const BACKSLASH = 0x5c
const DELETE = 0x7f

/** Entries of allowedIn, by character code: the character may stand in a path (RFC 3986 3.3), or in a query only; `%` is read apart. */
const IN_PATH = 1
const IN_QUERY = 2
const allowedIn = new Uint8Array(128)
const UNRESERVED = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~'
for (const char of `${UNRESERVED}!$&'()*+,;=:@/`) allowedIn[char.charCodeAt(0)] = IN_PATH
// RFC 3986 forbids the last seven, yet browsers send them bare (`?filter[status]=a|b`) and no server splits at them.
for (const char of '?[]{}|^`') allowedIn[char.charCodeAt(0)] = IN_QUERY
const unreserved = new Uint8Array(256)
for (const char of UNRESERVED) unreserved[char.charCodeAt(0)] = 1

function pathFault(target: string, end: number): string | undefined {
  let segmentStart = 1
  let beyondAscii = false
  for (let at = 1; at < end; at++) {
    const code = target.charCodeAt(at)
    if (code === PERCENT) {
      const byte = percentByte(target, at)
      const fault =
        encodedFault(byte) ??
        reencodedFault(byte, target, at) ??
        (byte === SEMICOLON ? segmentFault(target, segmentStart, at) : undefined)
      if (fault !== undefined) return fault
      if (byte !== undefined && byte >= 0x80) beyondAscii = true
      at += 2
    } else if (code === SLASH || code === SEMICOLON) {
      const fault = segmentFault(target, segmentStart, at)
      if (fault !== undefined) return fault
      if (code === SLASH) segmentStart = at + 1
    } else if (allowedIn[code] !== IN_PATH) {
      return 'character not allowed in a path'
    }
  }
  // Only the last segment may be empty: `/pets/` has one reading.
  const fault = segmentStart === end ? undefined : segmentFault(target, segmentStart, end)
  if (fault !== undefined) return fault
  return beyondAscii ? utf8Fault(target.slice(0, end)) : undefined
}

/**
 * start, end: a segment, or the part before its parameters. Some servers cut those off before they resolve dots:
 * `/..;x/` is `/../` to them, and `/;x/` is `//`.
 */
function segmentFault(text: string, start: number, end: number): string | undefined {
  const length = end - start
  if (length === 0) return 'empty path segment'
  if (length > 2) return undefined
  const dots = text.charCodeAt(start) === DOT && text.charCodeAt(end - 1) === DOT
  return dots ? 'dot segment in path' : undefined
}

function encodedFault(byte: number | undefined): string | undefined {
  if (byte === undefined) return BAD_ENCODING
  if (byte === SLASH || byte === BACKSLASH) return 'encoded slash or backslash in path'
  if (byte < 0x20 || byte === DELETE) return 'encoded control character in path'
  // This is equivalent to the plain character (RFC 3986 6.2.2.2), so a backend would serve `/%70ets` as `/pets` while
  // the gateway routed it as something else. An encoded dot is one of these.
  if (unreserved[byte] === 1) return 'needlessly encoded character in path'
  return undefined
}

const BAD_ENCODING = 'bad percent-encoding'

/** `%252e` is `%2e` to a server that decodes once, and a dot to one that decodes twice. */
function reencodedFault(byte: number | undefined, target: string, at: number): string | undefined {
  const twice =
    byte === PERCENT &&
    hexDigit(target.charCodeAt(at + 3)) !== undefined &&
    hexDigit(target.charCodeAt(at + 4)) !== undefined
  return twice ? 'doubly encoded character in path' : undefined
}

/** Overlong forms such as `%c0%ae` are dots and slashes to lax decoders (RFC 3629 section 10). */
function utf8Fault(path: string): string | undefined {
  try {
    decodeURIComponent(path)
    return undefined
  } catch {
    return 'path is not UTF-8'
  }
}

function queryFault(target: string, start: number): string | undefined {
  for (let at = start; at < target.length; at++) {
    const code = target.charCodeAt(at)
    if (code === PERCENT) {
      if (percentByte(target, at) === undefined) return BAD_ENCODING
      at += 2
    } else if (!((allowedIn[code] ?? 0) > 0)) {
      return 'character not allowed in a query'
    }
  }
  return undefined
}

/** The byte that the triplet at `at` stands for; undefined if there is none. */
function percentByte(text: string, at: number): number | undefined {
  const high = hexDigit(text.charCodeAt(at + 1))
  const low = hexDigit(text.charCodeAt(at + 2))
  return high === undefined || low === undefined ? undefined : high * 16 + low
}

function hexDigit(code: number): number | undefined {
  if (code >= 0x30 && code <= 0x39) return code - 0x30
  const lower = code | 0x20
  return lower >= 0x61 && lower <= 0x66 ? lower - 0x57 : undefined
}
