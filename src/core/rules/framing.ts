/** Reads the head of a request once: refuses what two parsers could frame differently, and keeps what later stages need. */
import type { Config } from '../../config/config.ts'
import { refuse, type Refusal } from './refusals.ts'
import { connectionOptions, fieldNames, isFieldValue, NO_NAMES } from './field-names.ts'

export interface Framing {
  readonly body: 'none' | 'length' | 'chunked'
  /** The declared length; 0 without a body and when chunked. */
  readonly bodyBytes: number
  /** The one Host, as received. */
  readonly host: string
  /** The first Authorization field; two of them are an ambiguity for the credentials to settle. */
  readonly authorization: string | undefined
  readonly authorizationCount: number
  /** Lower-case names that Connection nominates for removal. */
  readonly nominated: ReadonlySet<string>
  /** The client sends its body once it is told to (RFC 9110 10.1.1). */
  readonly expectsContinue: boolean
  /** The client asks for a WebSocket; any other upgrade is served as a plain request (RFC 9110 7.8). */
  readonly websocket: boolean
  /** All X-Forwarded-For fields in order, joined. Only trusted proxies are believed, here and in the next two. */
  readonly forwardedFor: string | undefined
  readonly forwardedProto: 'http' | 'https' | undefined
  /** X-Request-Id, unchecked; undefined if there are several. */
  readonly requestId: string | undefined
}

type FramingLimits = Pick<Config['server']['limits'], 'headerCount' | 'headerBytes' | 'bodyBytes'>

/** The part of a request that is read here. */
interface FramingSource {
  readonly method?: string | undefined
  readonly httpVersion: string
  /** Flat name, value array. */
  readonly rawHeaders: readonly string[]
  /** Whether a body follows, where the protocol says so whatever the fields say: HTTP/2 (RFC 9113 8.1). */
  readonly bodyFollows?: boolean | undefined
}

export type CheckFraming = ReturnType<typeof createCheckFraming>

export function createCheckFraming(limits: FramingLimits) {
  return ({ method = '', httpVersion, rawHeaders, bodyFollows }: FramingSource) =>
    checkFraming({ method, httpVersion, rawHeaders, bodyFollows, limits })
}

interface FramingInput extends FramingSource {
  readonly method: string
  readonly limits: FramingLimits
}

/**
 * Refuses with invalid_request, headers_too_large, body_too_large, length_required or method_not_implemented.
 * Field names are taken to be tokens, as the readers of both protocols guarantee.
 */
export function checkFraming(input: FramingInput): Framing | Refusal {
  const { method, httpVersion, rawHeaders, limits, bodyFollows } = input
  if (!isMethod(method)) return refuse('method_not_implemented', { cause: 'unknown method' })
  if (bodyFollows === undefined && httpVersion !== '1.1' && httpVersion !== '1.0')
    return invalid('unknown HTTP version')
  // Its end could not be distinguished from that of a cancelled body.
  if (bodyFollows === true && method === 'HEAD') return invalid('a body of HEAD')
  if (rawHeaders.length > 2 * limits.headerCount) {
    return refuse('headers_too_large', { cause: `${rawHeaders.length / 2} header fields` })
  }
  const head = new Head()
  const fault = readFields(head, rawHeaders, limits.headerBytes)
  if (fault !== undefined) return fault
  if (head.hostCount !== 1) return invalid(`${head.hostCount} Host fields`)
  if (!hostValue.test(head.host)) return invalid('malformed Host')
  return bodyFault(head, input) ?? settle(head, input)
}

/** Whether requests of this method are taken. TRACE would echo the fields that the gateway adds; CONNECT would bypass the gateway. */
export const isMethod = (text: string): boolean => methods.has(text)

const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])

/** Authority without userinfo (RFC 9110 7.2); a list, a path or a percent sign in it serves only to confuse. */
const hostValue = /^(?:[A-Za-z0-9._-]{1,255}|\[[0-9A-Fa-f:.]{2,45}\])(?::[0-9]{0,5})?$/

const kindOf = fieldNames({
  host: 'host',
  connection: 'connection',
  upgrade: 'upgrade',
  authorization: 'authorization',
  expect: 'expect',
  'content-length': 'content-length',
  'transfer-encoding': 'transfer-encoding',
  'x-forwarded-for': 'x-forwarded-for',
  'x-forwarded-proto': 'x-forwarded-proto',
  'x-request-id': 'x-request-id',
})

/** The fields seen so far. It is a class so that all have the same shape. */
class Head {
  host = ''
  hostCount = 0
  contentLength: string | undefined = undefined
  transferEncoding: string | undefined = undefined
  expectsContinue = false
  authorization: string | undefined = undefined
  authorizationCount = 0
  nominated = NO_NAMES
  upgrade: string | undefined = undefined
  forwardedFor: string | undefined = undefined
  forwardedProto: string | undefined = undefined
  requestId: string | undefined = undefined
  requestIdCount = 0
}

function readFields(
  head: Head,
  rawHeaders: readonly string[],
  headerBytes: number,
): Refusal | undefined {
  let bytes = 0
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? ''
    const value = rawHeaders[at + 1] ?? ''
    // The 4 bytes are ": " and the line end.
    bytes += name.length + value.length + 4
    if (!isFieldValue(value)) return invalid('control byte in a header field')
    const kind = kindOf(name)
    const fault = kind === undefined ? undefined : readField(head, kind, { name, value })
    if (fault !== undefined) return invalid(fault)
  }
  return bytes > headerBytes
    ? refuse('headers_too_large', { cause: `${bytes} bytes of header fields` })
    : undefined
}

type Kind = Exclude<ReturnType<typeof kindOf>, undefined>

/** Notes one field; returns what is wrong with it. */
function readField(
  head: Head,
  kind: Kind,
  { name, value }: { name: string; value: string },
): string | undefined {
  switch (kind) {
    case 'host':
      head.host = value
      head.hostCount++
      break
    case 'connection':
      head.nominated = connectionOptions(value, head.nominated)
      break
    case 'upgrade':
      // Two Upgrade fields are a list, which no WebSocket client sends.
      head.upgrade = head.upgrade === undefined ? value.toLowerCase() : ''
      break
    case 'authorization':
      head.authorization ??= value
      head.authorizationCount++
      break
    case 'expect':
      head.expectsContinue ||= value.toLowerCase().includes('100-continue')
      break
    case 'content-length':
      if (isLookAlike(name, kind)) return 'look-alike of Content-Length'
      if (head.contentLength !== undefined) return 'several Content-Length fields'
      head.contentLength = value
      break
    case 'transfer-encoding':
      if (isLookAlike(name, kind)) return 'look-alike of Transfer-Encoding'
      if (head.transferEncoding !== undefined) return 'several Transfer-Encoding fields'
      head.transferEncoding = value
      break
    case 'x-forwarded-for':
    case 'x-forwarded-proto':
    case 'x-request-id':
      if (!isLookAlike(name, kind)) readForwarding(head, kind, value)
  }
  return undefined
}

function readForwarding(head: Head, kind: Kind, value: string): void {
  if (kind === 'x-forwarded-for') {
    head.forwardedFor = head.forwardedFor === undefined ? value : `${head.forwardedFor}, ${value}`
  } else if (kind === 'x-forwarded-proto') {
    // Two of them name no protocol.
    head.forwardedProto = head.forwardedProto === undefined ? value : ''
  } else {
    head.requestId = value
    head.requestIdCount++
  }
}

/** Whether the name matched a kind but is spelt otherwise, such as `Content_Length`. */
const isLookAlike = (name: string, kind: Kind): boolean => name.toLowerCase() !== kind

/** Refuses whatever leaves the length open to a second reading (RFC 9112 6.1 and 6.3). Neither length nor coding means no body. */
function bodyFault(
  head: Head,
  { method, httpVersion, limits, bodyFollows }: FramingInput,
): Refusal | undefined {
  const { contentLength, transferEncoding } = head
  if (transferEncoding !== undefined) {
    if (contentLength !== undefined) return invalid('both Content-Length and Transfer-Encoding')
    if (httpVersion === '1.0') return invalid('Transfer-Encoding in HTTP/1.0')
    if (transferEncoding.toLowerCase() !== 'chunked') return invalid('unknown Transfer-Encoding')
  } else if (contentLength !== undefined) {
    // A number represents 15 digits exactly.
    if (!/^[0-9]{1,15}$/.test(contentLength)) return invalid('malformed Content-Length')
    if (Number(contentLength) > limits.bodyBytes) {
      return refuse('body_too_large', { cause: 'declared Content-Length' })
    }
  } else if (
    bodyFollows === undefined &&
    head.expectsContinue &&
    method !== 'GET' &&
    method !== 'HEAD'
  ) {
    // A client that expects 100-continue has a body (RFC 9110 10.1.1), but does not say where it ends.
    return refuse('length_required')
  }
  return undefined
}

function settle(head: Head, { method, httpVersion, bodyFollows }: FramingInput): Framing {
  const { contentLength, transferEncoding, forwardedProto, nominated } = head
  const known = forwardedProto === 'http' || forwardedProto === 'https'
  return {
    body:
      contentLength !== undefined
        ? 'length'
        : transferEncoding !== undefined || bodyFollows === true
          ? 'chunked'
          : 'none',
    bodyBytes: contentLength === undefined ? 0 : Number(contentLength),
    host: head.host,
    authorization: head.authorization,
    authorizationCount: head.authorizationCount,
    nominated,
    // RFC 9110 10.1.1: in HTTP/1.0 it means nothing.
    expectsContinue: head.expectsContinue && httpVersion !== '1.0',
    // RFC 6455 4.1.
    websocket:
      head.upgrade === 'websocket' &&
      method === 'GET' &&
      httpVersion === '1.1' &&
      nominated.has('upgrade') &&
      transferEncoding === undefined &&
      contentLength === undefined,
    forwardedFor: head.forwardedFor,
    forwardedProto: known ? forwardedProto : undefined,
    requestId: head.requestIdCount === 1 ? head.requestId : undefined,
  }
}

function invalid(cause: string): Refusal {
  return refuse('invalid_request', { cause })
}
