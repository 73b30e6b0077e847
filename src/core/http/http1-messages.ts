/** A request and its response on an HTTP/1.1 connection (RFC 9112). */
import { STATUS_CODES } from 'node:http'
import { Readable } from 'node:stream'
import type { Framing } from '../rules/framing.ts'
import { fieldLines } from './byte-kinds.ts'
import type { Http1Connection } from './http1-connection.ts'
import type { IncomingRequest, OutgoingResponse } from './messages.ts'
import { StreamedRequest } from './streamed-request.ts'
import type { RequestHead } from './request-head.ts'

export class Http1Request extends StreamedRequest implements IncomingRequest {
  readonly method: string
  readonly url: string
  readonly httpVersion: '1.0' | '1.1'
  readonly rawHeaders: string[]
  readonly socket: Http1Connection
  receivedBytes = 0
  /** The end of the body has come. Written by the connection. */
  complete = false
  protected body: Body | undefined

  constructor(connection: Http1Connection, head: RequestHead) {
    super()
    this.method = head.method
    this.url = head.target
    this.httpVersion = head.httpVersion
    this.rawHeaders = head.rawHeaders
    this.socket = connection
  }

  framed(framing: Framing | undefined): void {
    if (framing !== undefined && framing.body !== 'none') this.body = new Body(this.socket)
    this.socket.frame(framing)
  }

  takeOver(): ReturnType<Http1Connection['takeOver']> {
    return this.socket.takeOver()
  }

  /** Passes on a piece of the body, or null for its end; returns false when no more is wanted until the body is read. */
  push(piece: Buffer | null): boolean {
    return this.body?.push(piece) ?? true
  }

  /** The connection has closed: a body that is not complete never will be. */
  closed(): void {
    if (!this.complete) this.body?.destroy()
  }

  override get destroyed(): boolean {
    return this.body === undefined ? this.socket.destroyed : this.body.destroyed
  }
}

class Body extends Readable {
  readonly #connection: Http1Connection

  constructor(connection: Http1Connection) {
    super()
    this.#connection = connection
  }

  override _read(): void {
    this.#connection.readBody()
  }
}

/** How the end of an answer's body is shown (RFC 9112 6.3). */
type AnswerFraming = 'none' | 'length' | 'chunked' | 'close'

export class Http1Response implements OutgoingResponse {
  shouldKeepAlive: boolean
  headersSent = false
  destroyed = false
  writableFinished = false
  /** end() has been called. */
  isEnded = false
  readonly #connection: Http1Connection
  readonly #isHead: boolean
  readonly #isOld: boolean
  /** The head, until it is sent with the first bytes of the body or the end. */
  #head = ''
  #framing: AnswerFraming = 'none'
  #onClose: (() => void)[] = []
  #onDrain: (() => void) | undefined

  constructor(
    connection: Http1Connection,
    { method, httpVersion }: RequestHead,
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

  writeContinue(): void {
    this.#connection.socket.write('HTTP/1.1 100 Continue\r\n\r\n', 'latin1')
  }

  /** Throws a TypeError for what is no field: as text it could end the head early. */
  writeHead(status: number, headers: readonly string[]): void {
    let fields = ''
    let hasLength = false
    let hasDate = false
    for (let at = 0; at < headers.length; at += 2) {
      const name = headers[at] ?? ''
      if (name.length === 14) hasLength ||= name.toLowerCase() === 'content-length'
      else if (name.length === 4) hasDate ||= name.toLowerCase() === 'date'
      fields += `${name}: ${headers[at + 1]}\r\n`
    }
    if (fieldLines(fields, 0) !== headers.length / 2) throw new TypeError('a field that is none')
    let head = `HTTP/1.1 ${status} ${STATUS_CODES[status] ?? ''}\r\n${fields}`
    const hasBody = !this.#isHead && status !== 204 && status !== 304
    if (!hasBody) this.#framing = 'none'
    else if (hasLength) this.#framing = 'length'
    else this.#framing = this.#isOld ? 'close' : 'chunked'
    if (this.#framing === 'close') this.shouldKeepAlive = false
    // RFC 9110 6.6.1.
    if (!hasDate) head += dateField()
    head += this.shouldKeepAlive ? this.#connection.keepAliveFields : 'Connection: close\r\n'
    if (this.#framing === 'chunked') head += 'Transfer-Encoding: chunked\r\n'
    this.#head = `${head}\r\n`
    this.headersSent = true
  }

  flushHeaders(): void {
    if (this.#head !== '') this.#connection.socket.write(this.#takeHead(), 'latin1')
  }

  write(chunk: Buffer): boolean {
    if (this.destroyed) return true
    if (this.#framing === 'none') {
      this.flushHeaders()
      return true
    }
    const { socket } = this.#connection
    socket.cork()
    this.flushHeaders()
    const isChunked = this.#framing === 'chunked' && chunk.length > 0
    if (isChunked) socket.write(`${chunk.length.toString(16)}\r\n`, 'latin1')
    let keepsUp = socket.write(chunk)
    if (isChunked) keepsUp = socket.write('\r\n', 'latin1')
    socket.uncork()
    return keepsUp
  }

  /** body: with a declared length, or none. */
  end(body: string | Buffer = '', encoding: 'latin1' | 'utf8' = 'utf8'): void {
    if (this.destroyed || this.isEnded) return
    this.isEnded = true
    const { socket, onWritten } = this.#connection
    const last = this.#framing === 'chunked' ? '0\r\n\r\n' : ''
    if (this.#framing === 'none' || body.length === 0) {
      const text = this.#takeHead() + last
      // Everything may have been written before.
      socket.write(text, 'latin1', onWritten)
    } else if (encoding === 'latin1' && typeof body === 'string' && last === '') {
      socket.write(this.#takeHead() + body, 'latin1', onWritten)
    } else {
      socket.cork()
      this.write(typeof body === 'string' ? Buffer.from(body, encoding) : body)
      socket.write(last, 'latin1', onWritten)
      socket.uncork()
    }
  }

  /** Ends the connection, so that the answer does not look complete. */
  destroy(): void {
    this.destroyed = true
    this.#connection.destroy()
  }

  once(event: 'close' | 'drain', listener: () => void): void {
    if (event === 'close') this.#onClose.push(listener)
    else this.#onDrain = listener
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
    const listeners = this.#onClose
    this.#onClose = []
    for (const listener of listeners) listener()
  }

  #takeHead(): string {
    const head = this.#head
    this.#head = ''
    return head
  }
}

let dateSecond = 0
let dateText = ''
/** Returns the line of the field Date (RFC 9110 5.6.7), made once a second. */
export function dateField(): string {
  const second = Math.floor(Date.now() / 1000)
  if (second !== dateSecond) {
    dateSecond = second
    dateText = `Date: ${new Date(second * 1000).toUTCString()}\r\n`
  }
  return dateText
}
