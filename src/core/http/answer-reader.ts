/** Parses the bytes of a connection into answers, piece by piece; knows nothing of sockets. */
import { fieldOf } from '../rules/field-names.ts'
import { persists, readFields } from './field-lines.ts'
import {
  END,
  FAULT,
  HEAD,
  malformed,
  MessageReader,
  MORE,
  type BodyFraming,
} from './message-reader.ts'

export interface AnswerHead extends BodyFraming {
  readonly status: number
  /** Flat name, value array as received; values are trimmed, bytes above ASCII are latin1. */
  readonly headers: string[]
  /** The connection may carry another request once the body has ended. */
  readonly persists: boolean
  /** The idle time that the backend's Keep-Alive field announces; undefined: it announces none. */
  readonly keepAliveSeconds: number | undefined
}

/** Receives the parsed answer. There are no calls after onBroken() or stop(). */
export interface AnswerListener {
  /** Receives the final head; interim answers are dropped. */
  onHead(head: AnswerHead): void
  /** Receives a piece, which may be kept. */
  onBody(piece: Buffer): void
  /** The answer has ended. hasSurplus: more bytes followed it. */
  onAnswerEnd(hasSurplus: boolean): void
  onBroken(cause: string): void
}

export class AnswerReader {
  readonly #listener: AnswerListener
  readonly #reader: MessageReader<AnswerHead>
  /** An answer is due; bytes that come while none is are surplus. */
  #isDue = false
  #isHead = false
  #isInterim = false
  #endsWithConnection = false
  #paused = false
  #stopped = false

  /** maxHeadBytes: limit of a head, and of a trailer section. */
  constructor(listener: AnswerListener, maxHeadBytes: number) {
    this.#listener = listener
    const longLine = malformed('a status line that is too long')
    this.#reader = new MessageReader(maxHeadBytes, {
      read: (text) => {
        const head = readAnswerHead(text, this.#isHead)
        return typeof head === 'string' ? malformed(head) : head
      },
      beginning: /^(?:H(?:T(?:T(?:P(?:\/(?:1(?:\..*)?)?)?)?)?)?)?$/s,
      mayFollowEmptyLine: false,
      longLine,
    })
  }

  /** The next bytes belong to an answer. isHead: the request was HEAD. */
  expect(isHead: boolean): void {
    this.#isDue = true
    this.#isHead = isHead
  }

  /** Keeps further bytes of a body until resume(). */
  pause(): void {
    this.#paused = true
  }

  resume(): void {
    this.#paused = false
    this.#run()
  }

  stop(): void {
    this.#stopped = true
    this.#reader.stop()
  }

  /** Parses bytes of the connection; they are not used after this returns. */
  read(bytes: Buffer, length: number): void {
    const copy = Buffer.allocUnsafe(length)
    bytes.copy(copy, 0, 0, length)
    this.#reader.add(copy)
    this.#run()
  }

  /** The connection has ended normally. */
  end(): void {
    if (this.#stopped || !this.#isDue) return
    if (!this.#endsWithConnection) return this.#broken('the connection ended before the answer')
    this.#finish()
  }

  #run(): void {
    // An end that has come frees the connection, however slowly its last piece is taken.
    while (this.#isDue && !this.#stopped && (!this.#paused || this.#reader.isAtEnd)) {
      switch (this.#reader.next()) {
        case MORE:
          return
        case FAULT:
          return this.#broken(this.#reader.fault.cause ?? 'not HTTP/1.1')
        case HEAD:
          this.#begin()
          break
        case END:
          if (this.#isInterim) this.#isInterim = false
          else this.#finish()
          break
        default:
          this.#listener.onBody(this.#reader.piece)
      }
    }
  }

  #begin(): void {
    const { head } = this.#reader
    if (head === undefined) return
    const { status, bodyBytes } = head
    this.#isInterim = status >= 100 && status < 200 && status !== 101
    this.#endsWithConnection = bodyBytes === Infinity
    this.#reader.frame(head)
    if (!this.#isInterim) this.#listener.onHead(head)
  }

  #finish(): void {
    this.#isDue = false
    this.#endsWithConnection = false
    this.#paused = false
    const hasSurplus = this.#reader.heldBytes > 0
    this.#reader.drop()
    this.#listener.onAnswerEnd(hasSurplus)
  }

  #broken(cause: string): void {
    this.stop()
    this.#listener.onBroken(cause)
  }
}

/** `HTTP/1.1 200` without a reason is accepted, as by most parsers. */
const statusLine = /^HTTP\/1\.[01] \d{3}(?: [\t -~\x80-\xff]*)?\r\n/

/**
 * Reads the head of an answer; refuses everything that two parsers could read differently. Returns a text that explains why it is
 * invalid. text: the head as latin1, including the empty line. isHead: the request was HEAD.
 */
function readAnswerHead(text: string, isHead: boolean): AnswerHead | string {
  if (!statusLine.test(text)) return 'no HTTP/1.1 status line, or a control byte in it'
  const status = Number(text.slice(9, 12))
  const version = text[7] === '0' ? '1.0' : '1.1'
  const headers: string[] = []
  const fault = readFields(text, text.indexOf('\n') + 1, headers, false)
  if (fault !== undefined) return fault
  const coding = fieldOf(headers, 'transfer-encoding')
  const length = fieldOf(headers, 'content-length')
  // A number represents 15 digits exactly.
  if (length !== undefined && !/^[0-9]{1,15}$/.test(length))
    return 'not exactly one Content-Length of digits'
  if (coding !== undefined && coding.toLowerCase() !== 'chunked')
    return 'a transfer coding other than chunked'
  if (coding !== undefined && length !== undefined)
    return 'both Content-Length and Transfer-Encoding'
  // RFC 9112 section 6.1: the framing of such a message is faulty.
  if (coding !== undefined && version === '1.0') return 'Transfer-Encoding in HTTP/1.0'
  const isInterim = status >= 100 && status < 200
  if (isInterim && (coding ?? length) !== undefined) return 'an interim answer with a body'
  const hasBody = !isHead && !isInterim && status !== 204 && status !== 304
  const announcesBody = coding !== undefined || Number(length ?? 0) > 0
  // A body ends with its connection; where there may be none, the backend may still send it as if it were the next answer.
  const mayPersist = hasBody ? (coding ?? length) !== undefined : !isHead && !announcesBody
  const keepAlive = fieldOf(headers, 'keep-alive')
  const hint = keepAlive === undefined ? undefined : /timeout=(\d{1,9})/i.exec(keepAlive)?.[1]
  return {
    status,
    headers,
    body: !hasBody ? 'none' : coding === undefined ? 'length' : 'chunked',
    bodyBytes: hasBody && coding === undefined ? Number(length ?? Infinity) : 0,
    persists: mayPersist && persists(fieldOf(headers, 'connection'), version),
    keepAliveSeconds: hint === undefined ? undefined : Number(hint),
  }
}
