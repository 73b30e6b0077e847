/** Parses the bytes of a connection into answers, piece by piece; knows nothing of sockets. */
import { mayBecomeHead, readAnswerHead, type AnswerHead } from './answer-head.ts'
import { chunkSize, isTrailerSection, maxChunkLineBytes } from './chunks.ts'

/** Receives the parsed answer. There are no calls after onBroken() or stop(). */
export interface AnswerListener {
  /** Receives the final head; interim answers are dropped. */
  onHead(head: AnswerHead): void
  /** Receives a copy of a piece, which may be kept. */
  onBody(piece: Buffer): void
  /** The answer has ended. hasSurplus: more bytes followed it. */
  onAnswerEnd(hasSurplus: boolean): void
  onBroken(cause: string): void
}

const IDLE = 0
const HEAD = 1
const BODY_BY_LENGTH = 2
const BODY_TO_CLOSE = 3
const CHUNK_LINE = 4
const CHUNK = 5
const CHUNK_END = 6
const TRAILERS = 7
const STOPPED = 8

const LF = 0x0a
const CR = 0x0d
const none = Buffer.alloc(0)
const emptyLine = '\r\n\r\n'

export class AnswerReader {
  readonly #listener: AnswerListener
  readonly #maxHeadBytes: number
  #state = IDLE
  #isHead = false
  /** Bytes of the body or the chunk that have not come. */
  #missingBytes = 0
  /** An incomplete head, chunk line or trailer section; while paused, all bytes that have come. */
  #pending: Buffer = none
  #paused = false
  /** Chunks of one read, passed on as one piece: a backend may send a byte at a time. */
  #joined: Buffer | undefined
  #joinedBytes = 0

  /** maxHeadBytes: limit of a head, and of a trailer section. */
  constructor(listener: AnswerListener, maxHeadBytes: number) {
    this.#listener = listener
    this.#maxHeadBytes = maxHeadBytes
  }

  /** The next bytes belong to an answer. isHead: the request was HEAD. */
  expect(isHead: boolean): void {
    this.#state = HEAD
    this.#isHead = isHead
  }

  /** Keeps further bytes of a body until resume(). */
  pause(): void {
    this.#paused = true
  }

  resume(): void {
    this.#paused = false
    if (this.#pending.length > 0 && this.#state !== STOPPED) this.read(none, 0)
  }

  stop(): void {
    this.#state = STOPPED
    this.#pending = none
    this.#joined = undefined
  }

  /** Parses bytes of the connection; they are not used after this returns. */
  read(bytes: Buffer, length: number): void {
    if (this.#pending.length > 0) {
      bytes = Buffer.concat([this.#pending, bytes.subarray(0, length)])
      length = bytes.length
      this.#pending = none
    }
    let at = 0
    while (at < length) {
      const next = this.#paused ? undefined : this.#step(bytes, at, length)
      if (next === undefined) {
        if (this.#state !== STOPPED) this.#pending = copyOf(bytes, at, length)
        break
      }
      at = next
    }
    this.#flushJoined()
  }

  /** The connection has ended normally. */
  end(): void {
    if (this.#state === STOPPED || this.#state === IDLE) return
    if (this.#state !== BODY_TO_CLOSE) return this.#broken('the connection ended before the answer')
    this.#state = IDLE
    this.#listener.onAnswerEnd(false)
  }

  /** Returns the next position; undefined: more bytes are needed, or none are wanted. */
  #step(bytes: Buffer, at: number, length: number): number | undefined {
    switch (this.#state) {
      case HEAD:
        return this.#readHead(bytes, at, length)
      case BODY_BY_LENGTH:
      case CHUNK:
        return this.#readCounted(bytes, at, length)
      case BODY_TO_CLOSE:
        this.#listener.onBody(copyOf(bytes, at, length))
        return this.#stopped ? undefined : length
      case CHUNK_LINE:
        return this.#readChunkLine(bytes, at, length)
      case CHUNK_END:
        return this.#readChunkEnd(bytes, at, length)
      case TRAILERS:
        return this.#readTrailers(bytes, at, length)
      default:
        return undefined
    }
  }

  #readHead(bytes: Buffer, at: number, length: number): number | undefined {
    const end = within(bytes.indexOf(emptyLine, at, 'latin1'), 4, length)
    if ((end ?? length) - at > this.#maxHeadBytes) return this.#broken('a head that is too long')
    if (end === undefined) {
      const text = bytes.toString('latin1', at, length)
      return mayBecomeHead(text) ? undefined : this.#broken('not HTTP/1.1')
    }
    const head = readAnswerHead(bytes.toString('latin1', at, end), this.#isHead)
    if (typeof head === 'string') return this.#broken(head)
    if (head.status >= 100 && head.status < 200 && head.status !== 101) return end
    return this.#begin(head, end, length)
  }

  #begin(head: AnswerHead, at: number, length: number): number | undefined {
    const { framing, bodyBytes } = head
    if (framing === 'length') this.#state = BODY_BY_LENGTH
    else if (framing === 'chunked') this.#state = CHUNK_LINE
    else if (framing === 'close') this.#state = BODY_TO_CLOSE
    this.#missingBytes = bodyBytes
    this.#listener.onHead(head)
    if (this.#stopped) return undefined
    return framing === 'none' ? this.#finish(at, length) : at
  }

  #readCounted(bytes: Buffer, at: number, length: number): number | undefined {
    const end = Math.min(length, at + this.#missingBytes)
    this.#missingBytes -= end - at
    if (end < length && this.#state === CHUNK) this.#join(bytes, { at, end, length })
    else {
      this.#flushJoined()
      if (this.#stopped) return undefined
      this.#listener.onBody(copyOf(bytes, at, end))
    }
    if (this.#stopped) return undefined
    if (this.#missingBytes > 0) return end
    if (this.#state === BODY_BY_LENGTH) return this.#finish(end, length)
    this.#state = CHUNK_END
    return end
  }

  #join(bytes: Buffer, { at, end, length }: { at: number; end: number; length: number }): void {
    this.#joined ??= Buffer.allocUnsafe(length - at)
    this.#joinedBytes += bytes.copy(this.#joined, this.#joinedBytes, at, end)
  }

  #flushJoined(): void {
    const joined = this.#joined
    if (joined === undefined) return
    const piece = joined.subarray(0, this.#joinedBytes)
    this.#joined = undefined
    this.#joinedBytes = 0
    // A small view would keep the whole buffer in memory.
    this.#listener.onBody(2 * piece.length < joined.length ? Buffer.from(piece) : piece)
  }

  #readChunkLine(bytes: Buffer, at: number, length: number): number | undefined {
    const end = within(bytes.indexOf(LF, at), 1, length)
    if ((end ?? length) - at > maxChunkLineBytes)
      return this.#broken('a chunk size line that is too long')
    if (end === undefined) return undefined
    const size = chunkSize(bytes.toString('latin1', at, end))
    if (size === undefined) return this.#broken('a chunk size that is none')
    this.#missingBytes = size
    this.#state = size === 0 ? TRAILERS : CHUNK
    return end
  }

  #readChunkEnd(bytes: Buffer, at: number, length: number): number | undefined {
    if (bytes[at] !== CR || (at + 1 < length && bytes[at + 1] !== LF))
      return this.#broken('a chunk longer than its size')
    if (at + 1 >= length) return undefined
    this.#state = CHUNK_LINE
    return at + 2
  }

  /** Checks the syntax of trailers, which are not passed on. */
  #readTrailers(bytes: Buffer, at: number, length: number): number | undefined {
    const isEmpty = bytes[at] === CR && at + 1 < length && bytes[at + 1] === LF
    const end = isEmpty ? at + 2 : within(bytes.indexOf(emptyLine, at, 'latin1'), 4, length)
    if ((end ?? length) - at > this.#maxHeadBytes)
      return this.#broken('a trailer section that is too long')
    if (end === undefined) return undefined
    if (!isTrailerSection(bytes.toString('latin1', at, end)))
      return this.#broken('a trailer section that is none')
    return this.#finish(end, length)
  }

  #finish(at: number, length: number): number | undefined {
    this.#flushJoined()
    if (this.#stopped) return undefined
    this.#state = IDLE
    this.#paused = false
    this.#listener.onAnswerEnd(at < length)
    return length
  }

  #broken(cause: string): undefined {
    this.stop()
    this.#listener.onBroken(cause)
  }

  /** A call of the listener may have stopped the reader. */
  get #stopped(): boolean {
    return this.#state === STOPPED
  }
}

/** Returns the end of a match found by indexOf; undefined: the whole match does not lie before length. */
function within(found: number, foundBytes: number, length: number): number | undefined {
  return found < 0 || found + foundBytes > length ? undefined : found + foundBytes
}

function copyOf(bytes: Buffer, start: number, end: number): Buffer {
  const piece = Buffer.allocUnsafe(end - start)
  bytes.copy(piece, 0, start, end)
  return piece
}
