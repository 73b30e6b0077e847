/** The response to a request on an HTTP/1.1 connection (RFC 9112). */
import { STATUS_CODES } from 'node:http'
import { freeWhenWritten, HeadWriter, lengthOf, writePiece } from './head-writer.ts'
import type { Http1Connection } from './http1-connection.ts'
import type { OutgoingResponse } from './messages.ts'
import { takenBytes } from './node-internals.ts'
import type { Http1Request } from './request-head.ts'
import { sendAnswers } from './turn-stages.ts'

/** Longest body that is copied behind its head and sent with it; above it the copy costs more than it saves. */
const MAX_JOINED_BYTES = 4_096
const NO_BODY = Buffer.alloc(0)
/** RFC 9112 7.1. */
const LAST_CHUNK = '0\r\n\r\n'
const writer = new HeadWriter()
const statusLines: string[] = []

export class Http1Response implements OutgoingResponse {
  shouldKeepAlive: boolean
  headersSent = false
  destroyed = false
  writableFinished = false
  /** send() or end() has been called. */
  isEnded = false
  readonly #connection: Http1Connection
  readonly #isHead: boolean
  readonly #isOld: boolean
  /** How the end of the body is shown (RFC 9112 6.3). */
  #framing: 'none' | 'length' | 'chunked' | 'close' = 'none'
  #unsent: { status: number; headers: readonly string[]; body: Buffer } | undefined
  #onClose: (() => void) | undefined
  #onDrain: (() => void) | undefined

  constructor(
    connection: Http1Connection,
    { method, httpVersion }: Pick<Http1Request, 'method' | 'httpVersion'>,
    persists: boolean,
  ) {
    this.#connection = connection
    this.#isHead = method === 'HEAD'
    this.#isOld = httpVersion === '1.0'
    this.shouldKeepAlive = persists
  }

  get writableLength(): number {
    return this.#connection.socket.writableLength
  }

  get takenBytes(): number {
    return takenBytes(this.#connection.socket)
  }

  writeContinue(): void {
    this.#connection.socket.write('HTTP/1.1 100 Continue\r\n\r\n', 'latin1')
  }

  begin(status: number, headers: readonly string[], chunk: Buffer = NO_BODY): boolean {
    this.#compose(status, headers)
    return this.#start(chunk)
  }

  send(status: number, headers: readonly string[], body: Buffer = NO_BODY): void {
    if (this.destroyed || this.isEnded) return
    this.isEnded = true
    this.headersSent = true
    this.#unsent = { status, headers, body }
    sendAnswers.add(this)
  }

  /** Writes what send() was given, if it waits for its stage of the turn. */
  flush(): void {
    if (this.#unsent === undefined || this.destroyed) return
    const { status, headers, body } = this.#unsent
    this.#unsent = undefined
    this.#compose(status, headers)
    const isChunked = this.#framing === 'chunked'
    if (this.#framing === 'length' && body.length <= MAX_JOINED_BYTES) writer.body(body)
    else if (this.#framing !== 'none' && body.length > 0) {
      this.#start(body)
      return this.#connection.writeEnd(isChunked ? LAST_CHUNK : NO_BODY)
    }
    if (isChunked) writer.text(LAST_CHUNK)
    this.#connection.writeEnd(this.#composed())
  }

  #compose(status: number, headers: readonly string[]): void {
    let hasLength = false
    let hasDate = false
    writer.begin((statusLines[status] ??= `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}`))
    for (let at = 0; at < headers.length; at += 2) {
      const name = headers[at] ?? ''
      const length = lengthOf(name)
      if (length === 14) hasLength ||= name.toLowerCase() === 'content-length'
      else if (length === 4) hasDate ||= name.toLowerCase() === 'date'
      writer.field(name, headers[at + 1] ?? '')
    }
    const hasBody = !this.#isHead && status !== 204 && status !== 304
    if (!hasBody) this.#framing = 'none'
    else if (hasLength) this.#framing = 'length'
    else this.#framing = this.#isOld ? 'close' : 'chunked'
    if (this.#framing === 'close') this.shouldKeepAlive = false
    // RFC 9110 6.6.1.
    if (!hasDate) writer.text(dateField())
    const { keepAliveFields } = this.#connection.parts.http1Limits
    writer.text(this.shouldKeepAlive ? keepAliveFields : 'Connection: close\r\n')
    if (this.#framing === 'chunked') writer.text('Transfer-Encoding: chunked\r\n')
    writer.text('\r\n')
  }

  /** Returns the head. Throws a TypeError where a field is invalid: written out, it could end the head early. */
  #composed(): Buffer {
    const head = writer.end()
    if (head === undefined) throw new TypeError('a field that is none')
    this.headersSent = true
    return head
  }

  #start(chunk: Buffer): boolean {
    const { socket } = this.#connection
    const head = this.#composed()
    socket.cork()
    let keepsUp = socket.write(head)
    const isChunked = this.#framing === 'chunked'
    if (chunk.length > 0 && this.#framing !== 'none') keepsUp = writePiece(socket, chunk, isChunked)
    socket.uncork()
    return keepsUp
  }

  write(chunk: Buffer): boolean {
    if (this.destroyed || this.#framing === 'none') return true
    const isChunked = this.#framing === 'chunked'
    return writePiece(this.#connection.socket, chunk, isChunked, freeWhenWritten(chunk))
  }

  end(): void {
    if (this.destroyed || this.isEnded) return
    this.isEnded = true
    this.#connection.writeEnd(this.#framing === 'chunked' ? LAST_CHUNK : NO_BODY)
  }

  /** Ends the connection, so that the answer does not look complete. */
  destroy(): void {
    this.destroyed = true
    this.#connection.destroy()
  }

  once(event: 'close' | 'drain', listener: () => void): void {
    if (event === 'drain') this.#onDrain = listener
    else this.#onClose = listener
  }

  /** The connection has taken all that was written. */
  drained(): void {
    const onDrain = this.#onDrain
    this.#onDrain = undefined
    onDrain?.()
  }

  /** The answer has been written, or the connection has closed before. */
  closed(isFinished: boolean): void {
    this.writableFinished = isFinished
    this.destroyed = true
    const onClose = this.#onClose
    this.#onClose = undefined
    onClose?.()
  }
}

let dateSecond = 0
let dateText = ''
/** Returns the line of the field Date (RFC 9110 5.6.7), which is made at most once a second. */
function dateField(): string {
  const second = Math.floor(Date.now() / 1000)
  if (second !== dateSecond) {
    dateSecond = second
    dateText = `Date: ${new Date(second * 1000).toUTCString()}\r\n`
  }
  return dateText
}
