/** Writes the head of an HTTP/1.1 request; refuses what could be read as more than one request. */

import { fieldLines, kinds, TARGET, TOKEN } from './byte-kinds.ts'

/** Requests of these methods without a body carry Content-Length: 0 (RFC 9110 section 8.6). */
export const methodsThatExpectContent: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH'])

/** The parts of a request head. */
export interface RequestParts {
  readonly method: string
  /** Target in origin form, passed on byte for byte. */
  readonly target: string
  /** All header fields as a flat name, value array. */
  readonly headers: readonly string[]
  readonly hasBody: boolean
}

export interface RequestHead {
  /** The head, which must be written as latin1. */
  readonly text: string
  /** The declared length of the body; undefined: the body is chunked, or there is none. */
  readonly bodyBytes: number | undefined
}

/** Returns undefined if a part of the job is invalid in a request. host: the backend's, for a job without a Host field. */
export function requestHead(job: RequestParts, host: string): RequestHead | undefined {
  const { method, target, headers, hasBody } = job
  if (!isName(method) || target === '' || !consistsOf(target, TARGET)) return undefined
  let fields = ''
  let count = 0
  let hasHost = false
  let bodyBytes: number | undefined
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] ?? ''
    const value = headers[at + 1] ?? ''
    // The length is compared first: most fields are none of these.
    if (name.length === 4) hasHost ||= name.toLowerCase() === 'host'
    else if (name.length === 10 && name.toLowerCase() === 'connection') continue
    else if (name.length === 14 && name.toLowerCase() === 'content-length') {
      if (bodyBytes !== undefined || !/^[0-9]{1,15}$/.test(value)) return undefined
      bodyBytes = Number(value)
    } else if (name.length === 17 && name.toLowerCase() === 'transfer-encoding') return undefined
    fields += `${name}: ${value}\r\n`
    count++
  }
  if (fieldLines(fields, 0) !== count) return undefined
  let text = `${method} ${target} HTTP/1.1\r\n`
  if (!hasHost) text += `Host: ${host}\r\n`
  text += fields
  if (bodyBytes === undefined) {
    if (hasBody) text += 'Transfer-Encoding: chunked\r\n'
    else if (methodsThatExpectContent.has(method)) text += 'Content-Length: 0\r\n'
  } else if (!hasBody && bodyBytes > 0) return undefined
  // Some backends answer HEAD with a body: it must not be read as the next answer.
  text += method === 'HEAD' ? 'Connection: close\r\n\r\n' : 'Connection: keep-alive\r\n\r\n'
  return { text, bodyBytes }
}

const isName = (text: string): boolean => text !== '' && consistsOf(text, TOKEN)

function consistsOf(text: string, kind: number): boolean {
  for (let at = 0; at < text.length; at++) {
    // A character beyond latin1 would be written as its low byte.
    if (((kinds[text.charCodeAt(at)] ?? 0) & kind) === 0) return false
  }
  return true
}
