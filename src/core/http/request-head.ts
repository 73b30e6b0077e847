/** Reads and writes the head of an HTTP/1.1 request; refuses what could be read as more than one request. */
import type { Readable } from 'node:stream'
import type { ForwardJob } from '../forwarding/engine.ts'
import { fieldOf, isFieldName } from '../rules/field-names.ts'
import { refuse, type Refusal } from '../rules/refusals.ts'
import { kinds, persists, readFields, TARGET, TOKEN } from './field-lines.ts'
import { HeadWriter, lengthOf } from './head-writer.ts'
import { malformed, type Syntax } from './message-reader.ts'
import type { IncomingRequest } from './messages.ts'

/** Requests of these methods without a body carry Content-Length: 0 (RFC 9110 section 8.6). */
export const methodsThatExpectContent: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH'])

export interface WrittenHead {
  readonly bytes: Buffer
  /** The declared length of the body; undefined: the body is chunked, or there is none. */
  readonly bodyBytes: number | undefined
}

const writer = new HeadWriter()
/** A character beyond latin1 would be written as its low byte. */
const targetForm = /^[\x21-\x7e\x80-\xff]+$/

/** Returns undefined if a part of the job is invalid in a request. host: the backend's, for a job without a Host field. */
export function requestHead(job: ForwardJob, host: string): WrittenHead | undefined {
  const { method, target, headers, body } = job
  if (!isFieldName(method) || !targetForm.test(target)) return undefined
  writer.begin(`${method} ${target} HTTP/1.1`)
  if (fieldOf(headers, 'host') === undefined) writer.field('Host', host)
  let bodyBytes: number | undefined
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] ?? ''
    const value = headers[at + 1] ?? ''
    const length = lengthOf(name)
    // The length is compared first: most fields are none of these.
    if (length === 10 && name.toLowerCase() === 'connection') continue
    if (length === 14 && name.toLowerCase() === 'content-length') {
      if (bodyBytes !== undefined || !/^[0-9]{1,15}$/.test(value)) return undefined
      bodyBytes = Number(value)
    } else if (length === 17 && name.toLowerCase() === 'transfer-encoding') return undefined
    writer.field(name, value)
  }
  if (bodyBytes === undefined) {
    if (body !== undefined) writer.text('Transfer-Encoding: chunked\r\n')
    else if (methodsThatExpectContent.has(method)) writer.text('Content-Length: 0\r\n')
  } else if (body === undefined && bodyBytes > 0) return undefined
  // Some backends answer HEAD with a body: it must not be read as the next answer.
  writer.text(method === 'HEAD' ? 'Connection: close\r\n\r\n' : 'Connection: keep-alive\r\n\r\n')
  const bytes = writer.end()
  return bytes === undefined ? undefined : { bytes, bodyBytes }
}

/** Request line and fields as received; values are trimmed, bytes above ASCII are latin1. */
export interface Http1Request extends IncomingRequest {
  readonly method: string
  readonly url: string
  readonly httpVersion: '1.0' | '1.1'
  /** The client may send another request on the connection (RFC 9112 9.3). */
  readonly persists: boolean
  /** Its connection writes the following. */
  receivedBytes: number
  complete: boolean
  body: Readable | undefined
}

const NO_REQUEST_LINE = malformed('malformed request line')
const NO_FIELD = malformed('malformed header field')

function readRequestHead(text: string): Http1Request | Refusal {
  let at = 0
  while (((kinds[text.charCodeAt(at)] ?? 0) & TOKEN) !== 0) at++
  const targetAt = at + 1
  if (at === 0 || text[at] !== ' ') return NO_REQUEST_LINE
  at = targetAt
  while (((kinds[text.charCodeAt(at)] ?? 0) & TARGET) !== 0) at++
  if (at === targetAt || !text.startsWith(' HTTP/1.', at)) return NO_REQUEST_LINE
  const httpVersion = text[at + 8] === '1' ? '1.1' : '1.0'
  if (!text.startsWith(httpVersion === '1.1' ? '1\r\n' : '0\r\n', at + 8)) return NO_REQUEST_LINE
  const rawHeaders: string[] = []
  if (readFields(text, at + 11, rawHeaders, true) !== undefined) return NO_FIELD
  return {
    method: text.slice(0, targetAt - 1),
    url: text.slice(targetAt, at),
    httpVersion,
    rawHeaders,
    // What follows an Upgrade may be of the other protocol, though it was not switched.
    persists:
      fieldOf(rawHeaders, 'upgrade') === undefined &&
      persists(fieldOf(rawHeaders, 'connection'), httpVersion),
    receivedBytes: 0,
    complete: false,
    body: undefined,
  }
}

export const requestSyntax: Syntax<Http1Request> = {
  read: readRequestHead,
  beginning:
    /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+(?: [\x21-\x7e\x80-\xff]*(?: (?:H(?:T(?:T(?:P(?:\/.*)?)?)?)?)?)?)?$/s,
  mayFollowEmptyLine: true,
  longLine: refuse('uri_too_long', { cause: 'a request line that is too long' }),
}
