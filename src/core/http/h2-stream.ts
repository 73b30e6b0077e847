/** Makes of a stream of HTTP/2 (RFC 9113) what the gateway serves: a request, which is a channel of its own, and its response. */
import { constants, type IncomingHttpHeaders, type ServerHttp2Stream } from 'node:http2'
import { http1Fields } from './http2-fields.ts'
import type { ClientChannel, IncomingRequest, OutgoingResponse } from './messages.ts'
import { endHasCome, watchPieces } from './node-internals.ts'
import type { Share } from './shared-turn.ts'

/** The connection that a stream belongs to. */
export interface Carrier {
  readonly proto: 'http' | 'https'
  readonly socket: { readonly destroyed: boolean }
  /** A piece of the body of one of its streams has come. */
  took(request: StreamRequest, bytes: number): void
  /** Lets what is under way on it finish, and takes nothing new. */
  leave(): void
}

type StreamEvent = 'data' | 'end' | 'close' | 'error'

export class StreamRequest implements IncomingRequest, ClientChannel {
  readonly httpVersion = '2.0'
  readonly method: string | undefined
  readonly url: string
  readonly rawHeaders: string[]
  readonly headers: IncomingHttpHeaders
  /** A body follows, be it announced by a length or not. */
  readonly bodyFollows: boolean
  bytesRead = 0
  /** What its body has of a turn, where that counts for it alone. Written by its carrier. */
  share: Share | undefined
  /** Given to the stream. Written by StreamResponse alone. */
  writtenBytes = 0
  readonly stream: ServerHttp2Stream
  readonly carrier: Carrier

  constructor(
    stream: ServerHttp2Stream,
    carrier: Carrier,
    headers: IncomingHttpHeaders,
    rawHeaders: readonly string[],
  ) {
    const { method, scheme, authority, path, fields } = http1Fields(rawHeaders)
    this.stream = stream
    this.carrier = carrier
    this.method = method
    this.headers = headers
    this.rawHeaders = fields
    // Another scheme than the connection's is that of another origin, unless a trusted proxy says so too: as the absolute form is judged.
    this.url =
      scheme === undefined || scheme === carrier.proto || path === undefined
        ? (path ?? authority ?? '')
        : `${scheme}://${authority ?? ''}${path}`
    this.bodyFollows = !stream.endAfterHeaders
    if (!this.bodyFollows) return
    // Whoever breaks off with NO_ERROR would seem to have sent all of the body.
    stream.once('aborted', () => stream.destroy())
    watchPieces(stream, (bytes) => {
      this.bytesRead += bytes
      carrier.took(this, bytes)
    })
  }

  /** Of its own, so that its end is nobody else's. */
  get socket(): ClientChannel {
    return this
  }

  get takenBytes(): number {
    return this.writtenBytes - this.stream.writableLength
  }

  get complete(): boolean {
    return !this.bodyFollows || (endHasCome(this.stream) && !this.stream.aborted)
  }

  get destroyed(): boolean {
    return this.stream.destroyed
  }

  get isCutOff(): boolean {
    return this.stream.errored === CUT_OFF
  }

  get readableEnded(): boolean {
    return this.stream.readableEnded
  }

  get readableFlowing(): boolean | null {
    return this.stream.readableFlowing
  }

  get readableLength(): number {
    return this.stream.readableLength
  }

  read(bytes: number): unknown {
    return this.stream.read(bytes)
  }

  pause(): void {
    this.stream.pause()
  }

  resume(): void {
    this.stream.resume()
  }

  destroy(): void {
    cutOff(this.stream)
  }

  endConnection(): void {
    this.carrier.leave()
  }

  on(event: StreamEvent, listener: (chunk: Buffer) => void): this {
    this.stream.on(event, listener)
    return this
  }

  once(event: 'end' | 'close', listener: () => void): this {
    this.stream.once(event, listener)
    return this
  }

  off(event: StreamEvent, listener: (chunk: Buffer) => void): this {
    this.stream.off(event, listener)
    return this
  }
}

export class StreamResponse implements OutgoingResponse {
  /** Streams beside it go on, whatever is said. */
  shouldKeepAlive = true
  headersSent = false
  readonly socket: object
  readonly #stream: ServerHttp2Stream
  readonly #request: StreamRequest
  /** Until it goes out with what follows. */
  #head: string[] | undefined
  #hasBody = true
  #isEnded = false

  constructor(request: StreamRequest) {
    this.#stream = request.stream
    this.#request = request
    this.socket = request.stream
  }

  get destroyed(): boolean {
    return this.#stream.destroyed || this.#stream.closed
  }

  /**
   * Node ends the stream itself, of HEAD and where its client has left; and it closes one that was sent whole without calling
   * it finished, where the request had ended before.
   */
  get writableFinished(): boolean {
    if (!this.#isEnded || this.#stream.writableFinished) return this.#isEnded
    const { closed, rstCode } = this.#stream
    return (
      closed && rstCode === constants.NGHTTP2_NO_ERROR && !this.#request.carrier.socket.destroyed
    )
  }

  get writableLength(): number {
    return this.#stream.writableLength
  }

  writeContinue(): void {
    if (!this.destroyed) this.#stream.additionalHeaders({ ':status': 100 })
  }

  writeHead(status: number, headers: string[]): void {
    this.headersSent = true
    this.#head = [':status', String(status), ...headers]
    // Node has ended, or will end, the stream behind such a head.
    this.#hasBody = this.#request.method !== 'HEAD' && ![204, 205, 304].includes(status)
    if (status === 205) this.#head = withoutLength(this.#head)
  }

  flushHeaders(): void {
    this.#begin(false)
  }

  write(chunk: Buffer): boolean {
    this.#begin(false)
    if (!this.#hasBody || this.destroyed) return true
    this.#request.writtenBytes += chunk.length
    return this.#stream.write(chunk)
  }

  end(body?: string | Buffer, encoding: 'latin1' | 'utf8' = 'utf8'): void {
    const isEmpty = body === undefined || body.length === 0 || !this.#hasBody
    this.#isEnded = !this.destroyed
    this.#begin(isEmpty)
    if (this.destroyed) return
    if (!isEmpty) {
      this.#request.writtenBytes += body.length
      this.#stream.end(body, encoding)
    } else if (this.#hasBody) this.#stream.end()
    if (!this.#request.bodyFollows) return
    // Of HEAD; a reset in the same turn would take the head with it.
    if (this.#stream.writableFinished) setImmediate(() => this.#dropBody())
    else this.#stream.once('finish', () => this.#dropBody())
  }

  destroy(): void {
    cutOff(this.#stream)
  }

  once(event: 'close' | 'drain' | 'socket', listener: () => void): void {
    this.#stream.once(event, listener)
  }

  emit(event: 'close'): boolean {
    return this.#stream.emit(event)
  }

  #begin(endStream: boolean): void {
    const head = this.#head
    this.#head = undefined
    if (head !== undefined && !this.destroyed)
      this.#stream.respond(head, { endStream: endStream || !this.#hasBody })
  }

  /** RFC 9113 8.1: a client whose request is answered is told to send no more of it; what it has sent is in nobody's way. */
  #dropBody(): void {
    if (this.#stream.destroyed) return
    if (!this.#request.complete) this.#stream.close(constants.NGHTTP2_NO_ERROR)
    this.#stream.resume()
  }
}

/** It must not look complete. At once, also where the client reads nothing any more. */
function cutOff(stream: ServerHttp2Stream): void {
  stream.destroy(stream.closed ? undefined : CUT_OFF)
}

const CUT_OFF = new Error('cut off')

function withoutLength(head: readonly string[]): string[] {
  return head.filter((_, at) => head[at - (at % 2)]?.toLowerCase() !== 'content-length')
}
