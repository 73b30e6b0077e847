/** Reads the head of a request once: refuses what two parsers could frame differently, and keeps what later stages need. */
import type { Config } from '../../config/config.ts'
import type { IncomingRequest } from '../http/messages.ts'
import { refuse, type Refusal } from './refusals.ts'
import { connectionOptions, fieldNames, isFieldValue, NO_NAMES } from './field-names.ts'

/** What the head of a request says. It is a class so that all have the same shape; only this file writes to it. */
export class Framing {
  body: 'none' | 'length' | 'chunked' = 'none'
  /** The declared length; 0 without a body and when chunked. */
  bodyBytes = 0
  /** The one Host, as received. */
  host = ''
  hostCount = 0
  /** The first Authorization field; two of them are an ambiguity for the credentials to settle. */
  authorization: string | undefined = undefined
  authorizationCount = 0
  /** Lower-case names that Connection nominates for removal. */
  nominated = NO_NAMES
  /** The client sends its body once it is told to (RFC 9110 10.1.1). */
  expectsContinue = false
  upgrade: string | undefined = undefined
  /** The client asks for a WebSocket; any other upgrade is served as a plain request (RFC 9110 7.8). */
  websocket = false
  /** All X-Forwarded-For fields in order, joined. Only trusted proxies are believed, here and in the next two. */
  forwardedFor: string | undefined = undefined
  /** undefined if there are several. */
  forwardedProto: 'http' | 'https' | undefined = undefined
  protoCount = 0
  /** X-Request-Id, unchecked; '' if there are several. */
  requestId: string | undefined = undefined
  contentLength: string | undefined = undefined
  transferEncoding: string | undefined = undefined
}

/** Framing of a request that was refused for it: nothing in it is believed, and an end of its body is not known. */
export const UNSOUND: Framing = Object.assign(new Framing(), { body: 'chunked' })

type FramingLimits = Pick<Config['server']['limits'], 'headerCount' | 'headerBytes' | 'bodyBytes'>

type FramingSource = Pick<IncomingRequest, 'method' | 'httpVersion' | 'rawHeaders' | 'bodyFollows'>

/**
 * Refuses with invalid_request, headers_too_large, body_too_large, length_required or method_not_implemented.
 * Field names are taken to be tokens, and versions known ones, as the readers of both protocols guarantee.
 */
export function checkFraming(source: FramingSource, limits: FramingLimits): Framing | Refusal {
  const { method = '', httpVersion, rawHeaders, bodyFollows } = source
  if (!METHODS.has(method)) return refuse('method_not_implemented', { cause: 'unknown method' })
  // Its end could not be distinguished from that of a cancelled body.
  if (bodyFollows === true && method === 'HEAD') return invalid('a body of HEAD')
  if (rawHeaders.length > 2 * limits.headerCount)
    return refuse('headers_too_large', { cause: `${rawHeaders.length / 2} header fields` })
  const framing = new Framing()
  const fault = readFields(framing, rawHeaders, limits.headerBytes)
  if (fault !== undefined) return fault
  if (framing.hostCount !== 1) return invalid(`${framing.hostCount} Host fields`)
  if (!hostValue.test(framing.host)) return invalid('malformed Host')
  // RFC 6455 4.1.
  framing.websocket =
    framing.upgrade === 'websocket' &&
    method === 'GET' &&
    httpVersion === '1.1' &&
    framing.nominated.has('upgrade') &&
    framing.transferEncoding === undefined &&
    framing.contentLength === undefined
  return readBody(framing, source, limits.bodyBytes) ?? framing
}

/** Requests of these methods are taken. TRACE would echo the fields that the gateway adds; CONNECT would bypass the gateway. */
export const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])

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

function readFields(
  framing: Framing,
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
    const fault = kind === undefined ? undefined : readField(framing, kind, name, value)
    if (fault !== undefined) return invalid(fault)
  }
  if (bytes <= headerBytes) return undefined
  return refuse('headers_too_large', { cause: `${bytes} bytes of header fields` })
}

type Kind = Exclude<ReturnType<typeof kindOf>, undefined>

/** Notes one field; returns what is wrong with it. */
function readField(framing: Framing, kind: Kind, name: string, value: string): string | undefined {
  switch (kind) {
    case 'host':
      framing.host = value
      framing.hostCount++
      break
    case 'connection':
      framing.nominated = connectionOptions(value, framing.nominated)
      break
    case 'upgrade':
      // Two Upgrade fields are a list, which no WebSocket client sends.
      framing.upgrade = framing.upgrade === undefined ? value.toLowerCase() : ''
      break
    case 'authorization':
      framing.authorization ??= value
      framing.authorizationCount++
      break
    case 'expect':
      framing.expectsContinue ||= value.toLowerCase().includes('100-continue')
      break
    case 'content-length':
      if (isLookAlike(name, kind)) return 'look-alike of Content-Length'
      if (framing.contentLength !== undefined) return 'several Content-Length fields'
      framing.contentLength = value
      break
    case 'transfer-encoding':
      if (isLookAlike(name, kind)) return 'look-alike of Transfer-Encoding'
      if (framing.transferEncoding !== undefined) return 'several Transfer-Encoding fields'
      framing.transferEncoding = value
      break
    case 'x-forwarded-for':
      if (isLookAlike(name, kind)) break
      framing.forwardedFor =
        framing.forwardedFor === undefined ? value : `${framing.forwardedFor}, ${value}`
      break
    case 'x-forwarded-proto': {
      if (isLookAlike(name, kind)) break
      const isKnown = value === 'http' || value === 'https'
      framing.forwardedProto = isKnown && framing.protoCount === 0 ? value : undefined
      framing.protoCount++
      break
    }
    case 'x-request-id':
      if (isLookAlike(name, kind)) break
      framing.requestId = framing.requestId === undefined ? value : ''
  }
  return undefined
}

/** Whether the name matched a kind but is spelt otherwise, such as `Content_Length`. */
const isLookAlike = (name: string, kind: Kind): boolean => name.toLowerCase() !== kind

/** Refuses whatever leaves the length open to a second reading (RFC 9112 6.1 and 6.3). Neither length nor coding means no body. */
function readBody(
  framing: Framing,
  { method, httpVersion, bodyFollows }: FramingSource,
  mostBytes: number,
): Refusal | undefined {
  const { contentLength, transferEncoding, expectsContinue } = framing
  // RFC 9110 10.1.1: in HTTP/1.0 it means nothing.
  framing.expectsContinue &&= httpVersion !== '1.0'
  if (transferEncoding !== undefined) {
    if (contentLength !== undefined) return invalid('both Content-Length and Transfer-Encoding')
    if (httpVersion === '1.0') return invalid('Transfer-Encoding in HTTP/1.0')
    if (transferEncoding.toLowerCase() !== 'chunked') return invalid('unknown Transfer-Encoding')
    framing.body = 'chunked'
  } else if (contentLength !== undefined) {
    // A number represents 15 digits exactly.
    if (!/^[0-9]{1,15}$/.test(contentLength)) return invalid('malformed Content-Length')
    framing.body = 'length'
    framing.bodyBytes = Number(contentLength)
    if (framing.bodyBytes > mostBytes)
      return refuse('body_too_large', { cause: 'declared Content-Length' })
  } else if (bodyFollows !== undefined) {
    framing.body = bodyFollows ? 'chunked' : 'none'
  } else if (expectsContinue && method !== 'GET' && method !== 'HEAD') {
    // A client that expects 100-continue has a body (RFC 9110 10.1.1), but does not say where it ends.
    return refuse('length_required')
  }
  return undefined
}

function invalid(cause: string): Refusal {
  return refuse('invalid_request', { cause })
}
