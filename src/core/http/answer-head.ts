/** Reads the head of an HTTP/1.1 answer; refuses everything that two parsers could read differently. */

import { kinds, TOKEN, VALUE } from './byte-kinds.ts'

/** The rule that finds the end of the body (RFC 9112 section 6.3). */
export type AnswerFraming = 'none' | 'length' | 'chunked' | 'close'

export interface AnswerHead {
  readonly status: number
  /** Flat name, value array as received; values are trimmed, bytes above ASCII are latin1. */
  readonly headers: string[]
  readonly framing: AnswerFraming
  /** Length of a body framed by Content-Length, otherwise 0. */
  readonly bodyBytes: number
  /** The connection may carry another request once the body has ended. */
  readonly persists: boolean
  /** The idle time that the backend's Keep-Alive field announces; undefined: it announces none. */
  readonly keepAliveSeconds: number | undefined
}

const TAB = 0x09
const LF = 0x0a
const CR = 0x0d
const SPACE = 0x20
const COLON = 0x3a
const DIGIT_0 = 0x30

/**
 * Returns the parsed head, or a text that explains why it is invalid.
 * text: the head as latin1, including the empty line. isHead: the request was HEAD.
 */
export function readAnswerHead(text: string, isHead: boolean): AnswerHead | string {
  const status = readStatus(text)
  if (status === undefined) return 'no HTTP/1.1 status line'
  let at = text.indexOf('\r\n') + 2
  for (let reason = 13; reason < at - 2; reason++) {
    if (((kinds[text.charCodeAt(reason)] ?? 0) & VALUE) === 0)
      return 'a control byte in the reason phrase'
  }
  const isOld = text.charCodeAt(7) === DIGIT_0
  const end = text.length - 2
  const headers: string[] = []
  const fields = new FramingFields()
  while (at < end) {
    const nameAt = at
    while (((kinds[text.charCodeAt(at)] ?? 0) & TOKEN) !== 0) at++
    if (at === nameAt || text.charCodeAt(at) !== COLON) return 'a field name that is no token'
    const name = text.slice(nameAt, at)
    at++
    let code = text.charCodeAt(at)
    while (code === SPACE || code === TAB) code = text.charCodeAt(++at)
    const valueAt = at
    while (((kinds[text.charCodeAt(at)] ?? 0) & VALUE) !== 0) at++
    if (text.charCodeAt(at) !== CR || text.charCodeAt(at + 1) !== LF)
      return 'a byte in a field value that may not be there'
    let valueEnd = at
    while (valueEnd > valueAt && isBlank(text.charCodeAt(valueEnd - 1))) valueEnd--
    const value = text.slice(valueAt, valueEnd)
    headers.push(name, value)
    const cause = fields.note(name, value, valueEnd < at)
    at += 2
    if (cause !== undefined) return cause
  }
  if (at !== end) return 'a head that does not end where it seems to'
  return framed(status, headers, fields, { isHead, isOld })
}

/** Returns the status; undefined: not a status line. `HTTP/1.1 200` without a reason is accepted, as by most parsers. */
function readStatus(text: string): number | undefined {
  if (!text.startsWith('HTTP/1.')) return undefined
  const version = text.charCodeAt(7) - DIGIT_0
  if ((version !== 0 && version !== 1) || text.charCodeAt(8) !== SPACE) return undefined
  let status = 0
  for (let at = 9; at < 12; at++) {
    const digit = text.charCodeAt(at) - DIGIT_0
    if (!(digit >= 0 && digit <= 9)) return undefined
    status = status * 10 + digit
  }
  const next = text.charCodeAt(12)
  if (next !== SPACE && !(next === CR && text.charCodeAt(13) === LF)) return undefined
  return status
}

const isBlank = (code: number): boolean => code === SPACE || code === TAB

/** Such white space is legal and no part of the value (RFC 9110 section 5.5), but some parsers include it. */
const blanksBehind = 'white space behind the value of a framing field'

/** Collects what the fields of a head say about its body and its connection. */
class FramingFields {
  length: number | undefined = undefined
  chunked = false
  closes = false
  keepsAlive = false
  keepAliveSeconds: number | undefined

  /** Notes a field and returns why it is invalid, if it is. blanks: white space followed the value. */
  note(name: string, value: string, blanks: boolean): string | undefined {
    // The length is compared first: most fields are none of these.
    switch (name.length) {
      case 10:
        return this.#noteConnection(name.toLowerCase(), value)
      case 14:
        if (name.toLowerCase() !== 'content-length') return undefined
        return blanks ? blanksBehind : this.#noteLength(value)
      case 17:
        if (name.toLowerCase() !== 'transfer-encoding') return undefined
        return blanks ? blanksBehind : this.#noteCoding(value)
      default:
        return undefined
    }
  }

  #noteLength(value: string): string | undefined {
    // A number represents 15 digits exactly.
    if (this.length !== undefined || !/^[0-9]{1,15}$/.test(value))
      return 'not exactly one Content-Length of digits'
    this.length = Number(value)
    return undefined
  }

  #noteCoding(value: string): string | undefined {
    if (this.chunked || value.toLowerCase() !== 'chunked')
      return 'a transfer coding other than chunked'
    this.chunked = true
    return undefined
  }

  #noteConnection(name: string, value: string): undefined {
    if (name === 'keep-alive') {
      const hint = /timeout=(\d{1,9})/i.exec(value)
      if (hint) this.keepAliveSeconds = Number(hint[1])
    } else if (name === 'connection') {
      for (const part of value.toLowerCase().split(',')) {
        const option = part.trim()
        if (option === 'close') this.closes = true
        else if (option === 'keep-alive') this.keepsAlive = true
      }
    }
  }
}

function framed(
  status: number,
  headers: string[],
  fields: FramingFields,
  { isHead, isOld }: { isHead: boolean; isOld: boolean },
): AnswerHead | string {
  const { length, chunked, closes, keepsAlive, keepAliveSeconds } = fields
  if (chunked && length !== undefined) return 'both Content-Length and Transfer-Encoding'
  // RFC 9112 section 6.1: the framing of such a message is faulty.
  if (chunked && isOld) return 'Transfer-Encoding in HTTP/1.0'
  const isInterim = status >= 100 && status < 200
  if (isInterim && (chunked || length !== undefined)) return 'an interim answer with a body'
  let persists = isOld ? keepsAlive && !closes : !closes
  let framing: AnswerFraming = 'close'
  let bodyBytes = 0
  if (isHead || isInterim || status === 204 || status === 304) {
    framing = 'none'
    // The backend may still send the announced body, which would be read as the next answer.
    if (isHead || chunked || (length ?? 0) > 0) persists = false
  } else if (chunked) framing = 'chunked'
  else if (length === 0) framing = 'none'
  else if (length === undefined) persists = false
  else {
    framing = 'length'
    bodyBytes = length
  }
  return { status, headers, framing, bodyBytes, persists, keepAliveSeconds }
}
