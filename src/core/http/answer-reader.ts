/** Parses the bytes of a connection into answers, piece by piece; knows nothing of sockets. */
import { readAnswerHead, type AnswerHead } from './answer-head.ts'
import { END, FAULT, HEAD, malformed, MessageReader, MORE } from './message-reader.ts'

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

const NO_BODY = { body: 'none', bodyBytes: 0 } as const
/** The body ends with the connection. */
const ENDLESS = { body: 'length', bodyBytes: Infinity } as const

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
    const { status, framing, bodyBytes } = head
    this.#isInterim = status >= 100 && status < 200 && status !== 101
    this.#endsWithConnection = framing === 'close'
    if (framing === 'close') this.#reader.frame(ENDLESS)
    else this.#reader.frame(framing === 'none' ? NO_BODY : { body: framing, bodyBytes })
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
