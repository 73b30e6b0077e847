/** Writes the head of an HTTP/1.1 request; refuses what would be read as more than one. */

import { kinds, TARGET, TOKEN, VALUE } from './byte-kinds.ts'

/** Without content these say so (RFC 9110 section 8.6). */
export const methodsThatExpectContent: ReadonlySet<string> = new Set(['POST', 'PUT', 'PATCH'])

/** What the head is made of. */
export interface RequestParts {
  readonly method: string
  /** Origin form; passed on byte for byte. */
  readonly target: string
  /** Complete, flat: name, value. */
  readonly headers: readonly string[]
  readonly hasBody: boolean
}

export interface RequestHead {
  /** To be written as latin1. */
  readonly text: string
  /** What the head says of the body; undefined: it goes in chunks. */
  readonly bodyBytes: number | undefined
}

/** host: of the backend, for a job without a Host field. undefined: a part of the job cannot stand in a request. */
export function requestHead(job: RequestParts, host: string): RequestHead | undefined {
  const { method, target, headers, hasBody } = job
  if (!isName(method) || target === '' || !consistsOf(target, TARGET)) return undefined
  let fields = ''
  let hasHost = false
  let bodyBytes: number | undefined
  for (let at = 0; at < headers.length; at += 2) {
    const name = headers[at] ?? ''
    const value = headers[at + 1] ?? ''
    if (!isName(name) || !consistsOf(value, VALUE)) return undefined
    // By length first: most fields are none of these.
    if (name.length === 4) hasHost ||= name.toLowerCase() === 'host'
    else if (name.length === 10 && name.toLowerCase() === 'connection') continue
    else if (name.length === 14 && name.toLowerCase() === 'content-length') {
      if (bodyBytes !== undefined || !/^[0-9]{1,15}$/.test(value)) return undefined
      bodyBytes = Number(value)
    } else if (name.length === 17 && name.toLowerCase() === 'transfer-encoding') return undefined
    fields += `${name}: ${value}\r\n`
  }
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
    // Beyond latin1 there is no byte to write, only its low half.
    if (((kinds[text.charCodeAt(at)] ?? 0) & kind) === 0) return false
  }
  return true
}
