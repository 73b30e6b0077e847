/** Parses the bytes of a connection into HTTP/1.1 messages (RFC 9112), requests or answers; knows nothing of sockets. */
import { isRefusal, refuse, type Refusal } from '../rules/refusals.ts'
import { CR, LF } from './field-lines.ts'

/** What next() has found. more: further bytes are needed. */
export type Found = 'more' | 'head' | 'piece' | 'end' | 'fault'

type State = 'head' | 'body' | 'chunk line' | 'chunk' | 'chunk end' | 'trailers' | 'end' | 'stopped'

const NOTHING = Buffer.alloc(0)
const LEAST_BLOCK_BYTES = 1_024
/** Limit of chunks in one piece: what a connection takes of a turn of the event loop is checked after each piece. */
const MOST_CHUNKS = 1_024

export const malformed = (cause: string): Refusal => refuse('invalid_request', { cause })
const NO_BEGINNING = malformed('malformed first line')
const BAD_TRAILER = malformed('malformed trailer')
const LONE_LINE_END = malformed('CR or LF alone, or a control byte, in a head')
const BAD_CHUNK = malformed('malformed chunk')
const LONG_EXTENSION = refuse('body_too_large', { cause: 'a chunk extension that is too long' })
const LONG_HEAD = refuse('headers_too_large', { cause: 'a head that is too long' })

/** What requests and answers do not have in common. */
export interface Syntax<Head> {
  /** text: a head as latin1, including the empty line. */
  read(text: string): Head | Refusal
  /** Matches the first bytes of a head, or as much of them as has come. */
  readonly beginning: RegExp
  /** RFC 9112 2.2: one empty line before a request is ignored. */
  readonly mayFollowEmptyLine: boolean
  /** The refusal where the first line alone is longer than a head may be. */
  readonly longLine: Refusal
}

/** How the end of a body is found. bodyBytes: Infinity where the body ends with its connection. */
export interface BodyFraming {
  readonly body: 'none' | 'length' | 'chunked'
  readonly bodyBytes: number
}

/** The caller adds bytes and calls next() until it returns 'more'; so the caller decides when a request begins. */
export class MessageReader<Head> {
  /** Limit of a head, and of a trailer section. */
  maxHeadBytes: number
  /** What next() has found: a head, a piece or a fault, as it returned. A piece may share its memory with the bytes added. */
  head: Head | undefined
  piece: Buffer = NOTHING
  /** Number of chunks that the piece was made of. */
  pieceChunks = 1
  fault: Refusal = NO_BEGINNING
  #state: State = 'head'
  #bytes: Buffer = NOTHING
  #at = 0
  #end = 0
  /** The memory was allocated here, so bytes may be added behind #end. */
  #isOwn = false
  /** Bytes of the head, chunk line or trailer line that were searched for its end. */
  #searchedBytes = 0
  /** Bytes of the body or chunk that have not come; in the trailer section, the most that may still come. */
  #missingBytes = 0
  /** An empty line has come before the request; a second one is a fault. */
  #sawEmptyLine = false

  readonly #syntax: Syntax<Head>

  constructor(maxHeadBytes: number, syntax: Syntax<Head>) {
    this.maxHeadBytes = maxHeadBytes
    this.#syntax = syntax
  }

  /** Bytes that have come and were not parsed. */
  get heldBytes(): number {
    return this.#end - this.#at
  }

  /** The end of the message has been found; the next call of next() returns 'end'. */
  get isAtEnd(): boolean {
    return this.#state === 'end'
  }

  /** Takes the bytes, which must not change afterwards. */
  add(bytes: Buffer): void {
    const held = this.heldBytes
    if (this.#state === 'stopped' || held === 0) {
      this.#bytes = this.#state === 'stopped' ? NOTHING : bytes
      this.#at = 0
      this.#end = this.#bytes.length
      this.#isOwn = false
      return
    }
    const { length } = bytes
    // The block doubles, so that a head that comes byte by byte is copied twice, not a thousand times.
    if (!this.#isOwn || this.#end + length > this.#bytes.length) {
      const block = Buffer.allocUnsafe(Math.max(2 * (held + length), LEAST_BLOCK_BYTES))
      this.#bytes.copy(block, 0, this.#at, this.#end)
      this.#bytes = block
      this.#at = 0
      this.#end = held
      this.#isOwn = true
    }
    bytes.copy(this.#bytes, this.#end)
    this.#end += length
  }

  /** Sets how the body of the head that was found is framed. */
  frame({ body, bodyBytes }: BodyFraming): void {
    this.#searchedBytes = 0
    this.#missingBytes = bodyBytes
    if (body === 'chunked') this.#state = 'chunk line'
    else this.#state = body === 'length' && bodyBytes > 0 ? 'body' : 'end'
  }

  /** Ends the parsing for good and returns the bytes that were not parsed. */
  stop(): Buffer {
    const rest = this.#bytes.subarray(this.#at, this.#end)
    this.#state = 'stopped'
    this.#bytes = NOTHING
    this.#at = this.#end = 0
    return rest
  }

  /** Parses on. The caller must call frame() after each 'head' before it calls this again, and not call this after a 'fault'. */
  next(): Found {
    switch (this.#state) {
      case 'head':
        return this.#readHead()
      case 'body':
        if (this.#at === this.#end) return 'more'
        this.#takePiece()
        if (this.#missingBytes === 0) this.#state = 'end'
        return 'piece'
      case 'end':
        this.#state = 'head'
        this.#searchedBytes = 0
        this.#sawEmptyLine = false
        return 'end'
      case 'stopped':
        return 'more'
      default:
        return this.#readChunks()
    }
  }

  #fail(refusal: Refusal): 'fault' {
    this.fault = refusal
    return 'fault'
  }

  /** Takes what is there of a body or chunk, as a slice. */
  #takePiece(): void {
    const to = Math.min(this.#end, this.#at + this.#missingBytes)
    this.piece = this.#bytes.subarray(this.#at, to)
    this.pieceChunks = 1
    this.#missingBytes -= to - this.#at
    this.#at = to
    // Who takes the piece may free its memory.
    if (to === this.#end) {
      this.#bytes = NOTHING
      this.#at = this.#end = 0
    }
  }

  /** Finds the text; returns its position, or undefined. Bytes that were searched before are not searched again. */
  #find(text: '\r\n' | '\r\n\r\n'): number | undefined {
    const from = this.#at + Math.max(0, this.#searchedBytes - text.length + 1)
    const found = this.#bytes.indexOf(text, from, 'latin1')
    // The memory behind #end holds what came earlier.
    if (found >= 0 && found + text.length <= this.#end) return found
    this.#searchedBytes = this.heldBytes
    return undefined
  }

  #readHead(): Found {
    if (this.#at === this.#end) return 'more'
    if (this.#searchedBytes === 0 && this.#bytes[this.#at] === CR) {
      if (this.#sawEmptyLine || !this.#syntax.mayFollowEmptyLine) return this.#fail(NO_BEGINNING)
      if (this.heldBytes === 1) return 'more'
      if (this.#bytes[this.#at + 1] !== LF) return this.#fail(LONE_LINE_END)
      this.#sawEmptyLine = true
      this.#at += 2
      return this.#readHead()
    }
    const searchedBytes = this.#searchedBytes
    const end = this.#find('\r\n\r\n')
    if ((end === undefined ? this.#end : end + 4) - this.#at > this.maxHeadBytes)
      return this.#fail(this.#longHead())
    if (end === undefined) return this.#checkBeginning(searchedBytes)
    const head = this.#syntax.read(this.#bytes.toString('latin1', this.#at, end + 4))
    if (isRefusal(head)) return this.#fail(head)
    this.#at = end + 4
    this.head = head
    return 'head'
  }

  /** Refuses at once what can become no head, as its sender may wait for an answer. */
  #checkBeginning(searchedBytes: number): Found {
    if (this.#hasLoneLineEnd(searchedBytes)) return this.#fail(LONE_LINE_END)
    const text = this.#bytes.toString('latin1', this.#at, Math.min(this.#end, this.#at + 32))
    return this.#syntax.beginning.test(text) ? 'more' : this.#fail(NO_BEGINNING)
  }

  #longHead(): Refusal {
    const lineEnd = this.#bytes.indexOf('\r\n', this.#at, 'latin1')
    const isLine = lineEnd >= 0 && lineEnd - this.#at <= this.maxHeadBytes
    return isLine ? LONG_HEAD : this.#syntax.longLine
  }

  /** Chunks that came together make one piece, as a client may send each byte in a chunk of its own. */
  #readChunks(): Found {
    const pieces: Buffer[] = []
    let found: Found | undefined
    while (found === undefined && this.#state !== 'end' && pieces.length < MOST_CHUNKS) {
      if (this.#at === this.#end) found = 'more'
      else if (this.#state === 'chunk') {
        this.#takePiece()
        pieces.push(this.piece)
        if (this.#missingBytes === 0) this.#moveTo(this.#at, 'chunk end')
      } else found = this.#readBetweenChunks()
    }
    // A fault moves nothing: where the piece has to be returned first, the next call finds the fault again.
    if (pieces.length === 0) return found ?? this.next()
    if (pieces.length > 1) this.piece = Buffer.concat(pieces)
    this.pieceChunks = pieces.length
    return 'piece'
  }

  /** Returns undefined when the reader has moved on to what comes next. */
  #readBetweenChunks(): Found | undefined {
    switch (this.#state) {
      case 'chunk line':
        return this.#readChunkLine()
      case 'chunk end':
        if (this.#bytes[this.#at] !== CR) return this.#fail(BAD_CHUNK)
        if (this.heldBytes === 1) return 'more'
        if (this.#bytes[this.#at + 1] !== LF) return this.#fail(BAD_CHUNK)
        return this.#moveTo(this.#at + 2, 'chunk line')
      default:
        return this.#readTrailer()
    }
  }

  #readChunkLine(): Found | undefined {
    const at = this.#at
    const searchedBytes = this.#searchedBytes
    const end = this.#find('\r\n')
    if ((end ?? this.#end) - at > maxChunkLineBytes - 2) {
      const hasExtension = /^[0-9A-Fa-f]+;/.test(this.#bytes.toString('latin1', at, at + 16))
      return this.#fail(hasExtension ? LONG_EXTENSION : BAD_CHUNK)
    }
    if (end === undefined)
      return this.#hasLoneLineEnd(searchedBytes) ? this.#fail(BAD_CHUNK) : 'more'
    const digits = sizeLine.exec(this.#bytes.toString('latin1', at, end + 2))?.[1]
    if (digits === undefined) return this.#fail(BAD_CHUNK)
    const size = Number.parseInt(digits, 16)
    this.#missingBytes = size === 0 ? this.maxHeadBytes : size
    return this.#moveTo(end + 2, size === 0 ? 'trailers' : 'chunk')
  }

  /** Reads line by line, so that a line that is no field is refused at once. */
  #readTrailer(): Found | undefined {
    const at = this.#at
    const searchedBytes = this.#searchedBytes
    const end = this.#find('\r\n')
    const lineBytes = (end === undefined ? this.#end : end + 2) - at
    if (lineBytes > this.#missingBytes) return this.#fail(LONG_HEAD)
    if (end === undefined)
      return this.#hasLoneLineEnd(searchedBytes) ? this.#fail(LONE_LINE_END) : 'more'
    if (end === at) return this.#moveTo(end + 2, 'end')
    const line = this.#bytes.toString('latin1', at, end)
    if (!fieldLine.test(line) || framingField.test(line)) return this.#fail(BAD_TRAILER)
    this.#missingBytes -= lineBytes
    return this.#moveTo(end + 2, 'trailers')
  }

  /** Whether the bytes not searched before contain what no head, chunk line or trailer may. */
  #hasLoneLineEnd(searchedBytes: number): boolean {
    let from = this.#at + searchedBytes
    // A CR may have been the last of the earlier bytes.
    if (searchedBytes > 0 && this.#bytes[from - 1] === CR) from -= 1
    return loneLineEnd.test(this.#bytes.toString('latin1', from, this.#end))
  }

  #moveTo(at: number, state: State): undefined {
    this.#at = at
    this.#state = state
    this.#searchedBytes = 0
  }
}

/** Matches a CR or LF alone, or a control byte; a CR at the end may still get its LF. */
const loneLineEnd = /[^\r]\n|^\n|\r[^\n]|[^\t\r\n -~\x80-\xff]/

/** Longest size line of a chunk, extensions and line end included. */
const maxChunkLineBytes = 1_024

const tchar = "[!#$%&'*+\\-.^_`|~0-9A-Za-z]"
const quoted = '"(?:[\\t \\x21\\x23-\\x5b\\x5d-\\x7e\\x80-\\xff]|\\\\[\\t\\x20-\\x7e\\x80-\\xff])*"'
const extensions = `(?:;${tchar}+(?:=(?:${tchar}+|${quoted}))?)*`
const sizeLine = new RegExp(`^([0-9A-Fa-f]{1,12})${extensions}\\r\\n$`)

const fieldLine = new RegExp(`^${tchar}+:[\\t\\x20-\\x7e\\x80-\\xff]*$`)

/** Framing fields must not stand in a trailer section (RFC 9110 section 6.5.1). */
const framingField = /^(?:content-length|transfer-encoding):/i
