/** Reads answers from the bytes of a connection. */
import { fieldOf } from '../rules/field-names.ts'
import type { Refusal } from '../rules/refusals.ts'
import { persists, readFields } from './field-lines.ts'
import { malformed, MessageReader } from './message-reader.ts'
import type { BodyFraming, Found, Syntax } from './message-reader.ts'

export interface AnswerHead extends BodyFraming {
  readonly status: number
  /** Flat name, value array as received; values are trimmed, bytes above ASCII are latin1. */
  readonly headers: string[]
  /** The connection may carry another request once the body has ended. */
  readonly persists: boolean
  readonly keepAliveSeconds: number | undefined
}

/** Finds final answers; interim ones are dropped. The caller need not call frame(). */
export class AnswerReader extends MessageReader<AnswerHead> {
  /** The answer that comes next is to HEAD. */
  isToHead = false

  constructor(maxHeadBytes: number) {
    super(maxHeadBytes, answerSyntax)
  }

  get persists(): boolean {
    return !this.isToHead && this.head?.persists === true
  }

  /** The answer under way is complete when the connection ends normally. */
  get endsWithConnection(): boolean {
    return this.head?.bodyBytes === Infinity
  }

  override next(): Found {
    for (;;) {
      const found = super.next()
      if (found !== 'head' || this.head === undefined) return found
      const { status } = this.head
      this.frame(this.isToHead ? NO_BODY : this.head)
      if (status < 100 || status >= 200 || status === 101) return 'head'
      // An interim answer ends with its head.
      super.next()
    }
  }
}

const NO_BODY: BodyFraming = { body: 'none', bodyBytes: 0 }

/** `HTTP/1.1 200` without a reason is accepted, as by most parsers. */
const statusLine = /^HTTP\/1\.[01] \d{3}(?: [\t -~\x80-\xff]*)?\r\n/

/**
 * Reads the head of an answer to another request than HEAD; refuses everything that two parsers could read differently. text: the
 * head as latin1, including the empty line.
 */
function readAnswerHead(text: string): AnswerHead | Refusal {
  if (!statusLine.test(text)) return malformed('no HTTP/1.1 status line, or a control byte in it')
  const status = Number(text.slice(9, 12))
  const version = text[7] === '0' ? '1.0' : '1.1'
  const headers: string[] = []
  const fault = readFields(text, text.indexOf('\n') + 1, headers, false)
  if (fault !== undefined) return malformed(fault)
  const coding = fieldOf(headers, 'transfer-encoding')
  const length = fieldOf(headers, 'content-length')
  // A number represents 15 digits exactly.
  if (length !== undefined && !/^[0-9]{1,15}$/.test(length))
    return malformed('not exactly one Content-Length of digits')
  if (coding !== undefined && coding.toLowerCase() !== 'chunked')
    return malformed('a transfer coding other than chunked')
  if (coding !== undefined && length !== undefined)
    return malformed('both Content-Length and Transfer-Encoding')
  // RFC 9112 section 6.1: the framing of such a message is faulty.
  if (coding !== undefined && version === '1.0') return malformed('Transfer-Encoding in HTTP/1.0')
  const isInterim = status >= 100 && status < 200
  if (isInterim && (coding ?? length) !== undefined)
    return malformed('an interim answer with a body')
  const hasBody = !isInterim && status !== 204 && status !== 304
  const announcesBody = coding !== undefined || Number(length ?? 0) > 0
  // A body ends with its connection; where there may be none, the backend may still send it as if it were the next answer.
  const mayPersist = hasBody ? (coding ?? length) !== undefined : !announcesBody
  return {
    status,
    headers,
    body: !hasBody ? 'none' : coding === undefined ? 'length' : 'chunked',
    bodyBytes: hasBody && coding === undefined ? Number(length ?? Infinity) : 0,
    persists: mayPersist && persists(fieldOf(headers, 'connection'), version),
    keepAliveSeconds: keepAliveHint(headers),
  }
}

const answerSyntax: Syntax<AnswerHead> = {
  read: readAnswerHead,
  beginning: /^(?:H(?:T(?:T(?:P(?:\/(?:1(?:\..*)?)?)?)?)?)?)?$/s,
  mayFollowEmptyLine: false,
  longLine: malformed('a status line that is too long'),
}

/** The idle time that the backend's Keep-Alive field announces; undefined: it announces none. */
export function keepAliveHint(headers: readonly string[]): number | undefined {
  const keepAlive = fieldOf(headers, 'keep-alive')
  if (keepAlive === undefined) return undefined
  if (keepAlive !== latestField) {
    const seconds = /timeout=(\d{1,9})/i.exec(keepAlive)?.[1]
    latestField = keepAlive
    latestHint = seconds === undefined ? undefined : Number(seconds)
  }
  return latestHint
}

/** Backends send the same field with each answer. */
let latestField = ''
let latestHint: number | undefined
