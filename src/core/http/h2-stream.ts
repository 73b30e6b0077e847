/** Presents an HTTP/2 stream (RFC 9113) as a request and a response. */
import { constants, type ServerHttp2Stream } from 'node:http2'
import type { Http2Connection } from './h2-connection.ts'
import type { IncomingRequest, OutgoingResponse } from './messages.ts'
import { watchPieces } from './node-internals.ts'
import type { Share } from './shared-turn.ts'
import { sendAnswers } from './turn-stages.ts'

export class StreamRequest implements IncomingRequest {
  readonly httpVersion = '2.0'
  readonly method: string | undefined
  readonly url: string
  readonly rawHeaders: string[]
  /** A body follows, with or without a declared length. */
  readonly bodyFollows: boolean
  receivedBytes = 0
  /** The body's own share of the turn, on a connection of many clients; undefined: the connection's share counts. Written by its carrier. */
  share: Share | undefined
  /** The stream itself, also where no body follows. */
  readonly body: ServerHttp2Stream
  readonly carrier: Http2Connection

  constructor(stream: ServerHttp2Stream, carrier: Http2Connection, rawHeaders: readonly string[]) {
    const { method, scheme, authority, path, fields } = http1Fields(rawHeaders)
    const { proto } = carrier.client.origin
    this.body = stream
    this.carrier = carrier
    this.method = method
    this.rawHeaders = fields
    // A scheme other than the connection's names another origin; it is judged like the absolute form of a target.
    this.url =
      scheme === undefined || scheme === proto || path === undefined
        ? (path ?? authority ?? '')
        : `${scheme}://${authority ?? ''}${path}`
    this.bodyFollows = !stream.endAfterHeaders
    if (!this.bodyFollows) return
    // A reset with NO_ERROR would otherwise look like the end of the body.
    stream.once('aborted', () => stream.destroy())
    watchPieces(stream, (bytes) => {
      this.receivedBytes += bytes
      carrier.took(this, bytes)
    })
  }

  get complete(): boolean {
    return !this.bodyFollows || (this.body.state.remoteClose === 1 && !this.body.aborted)
  }

  destroy(): void {
    cutOff(this.body)
  }
}

export class StreamResponse implements OutgoingResponse {
  /** Other streams of the connection go on, whatever is written here. */
  shouldKeepAlive = true
  headersSent = false
  readonly #stream: ServerHttp2Stream
  readonly #request: StreamRequest
  #hasBody = true
  #writtenBytes = 0
  #isEnded = false
  #unsent: { status: number; headers: string[]; body: Buffer | undefined } | undefined

  constructor(request: StreamRequest) {
    this.#stream = request.body
    this.#request = request
  }

  get destroyed(): boolean {
    return this.#stream.destroyed || this.#stream.closed
  }

  /**
   * Node ends the stream itself for HEAD and when the client has left. If the request has already ended, Node closes a
   * completely sent stream without marking it finished.
   */
  get writableFinished(): boolean {
    if (!this.#isEnded || this.#unsent !== undefined) return false
    if (this.#stream.writableFinished) return true
    const { closed, rstCode } = this.#stream
    return (
      closed && rstCode === constants.NGHTTP2_NO_ERROR && !this.#request.carrier.socket.destroyed
    )
  }

  get writableLength(): number {
    return this.#stream.writableLength
  }

  get takenBytes(): number {
    return this.#writtenBytes - this.#stream.writableLength
  }

  get isCutOff(): boolean {
    return this.#stream.errored === CUT_OFF
  }

  endConnection(): void {
    this.#request.carrier.leave()
  }

  writeContinue(): void {
    if (!this.destroyed) this.#stream.additionalHeaders({ ':status': 100 })
  }

  begin(status: number, headers: string[], chunk?: Buffer): boolean {
    this.#respond(status, headers, false)
    return chunk === undefined || this.write(chunk)
  }

  write(chunk: Buffer): boolean {
    if (!this.#hasBody || this.destroyed) return true
    this.#writtenBytes += chunk.length
    return this.#stream.write(chunk)
  }

  send(status: number, headers: string[], body?: Buffer): void {
    this.headersSent = true
    if (this.destroyed || this.#isEnded) return
    this.#isEnded = true
    this.#unsent = { status, headers, body }
    sendAnswers.add(this)
  }

  /** Sends what send() was given, if it waits for its stage of the turn. */
  flush(): void {
    if (this.#unsent === undefined || this.destroyed) return
    const { status, headers, body } = this.#unsent
    this.#unsent = undefined
    this.#respond(status, headers, body === undefined || body.length === 0)
    this.#finish(body)
  }

  end(): void {
    if (this.#isEnded) return
    this.#isEnded = !this.destroyed
    this.#finish()
  }

  #respond(status: number, headers: string[], endStream: boolean): void {
    this.headersSent = true
    // Node ends the stream after such a head.
    this.#hasBody = this.#request.method !== 'HEAD' && ![204, 205, 304].includes(status)
    if (this.destroyed) return
    const head = [':status', String(status), ...headers]
    this.#stream.respond(status === 205 ? withoutLength(head) : head, {
      endStream: endStream || !this.#hasBody,
    })
  }

  #finish(body?: Buffer): void {
    if (this.destroyed) return
    if (body !== undefined && body.length > 0 && this.#hasBody) {
      this.#writtenBytes += body.length
      this.#stream.end(body)
    } else if (this.#hasBody) this.#stream.end()
    if (!this.#request.bodyFollows) return
    // After HEAD a reset in the same turn would drop the head.
    if (this.#stream.writableFinished) setImmediate(() => this.#dropBody())
    else this.#stream.once('finish', () => this.#dropBody())
  }

  destroy(): void {
    cutOff(this.#stream)
  }

  once(event: 'close' | 'drain', listener: () => void): void {
    this.#stream.once(event, listener)
  }

  /** Resets the request side of an answered stream, so that the client stops sending (RFC 9113 8.1), and discards what has come. */
  #dropBody(): void {
    if (this.#stream.destroyed) return
    if (!this.#request.complete) this.#stream.close(constants.NGHTTP2_NO_ERROR)
    this.#stream.resume()
  }
}

/** Destroys the stream at once, even if the client reads nothing; the answer must not look complete. */
function cutOff(stream: ServerHttp2Stream): void {
  stream.destroy(stream.closed ? undefined : CUT_OFF)
}

const CUT_OFF = new Error('cut off')

function withoutLength(head: readonly string[]): string[] {
  return head.filter((_, at) => head[at - (at % 2)]?.toLowerCase() !== 'content-length')
}

/** Separates pseudo-fields, turns :authority into Host and joins Cookie fields (RFC 9113 8.3.1, 8.2.3). A Host that differs stays as a second one, which is refused. rawHeaders: flat. */
export function http1Fields(rawHeaders: readonly string[]) {
  let method: string | undefined
  let scheme: string | undefined
  let authority: string | undefined
  let path: string | undefined
  const fields: string[] = []
  let cookieAt: number | undefined
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const name = rawHeaders[at] ?? ''
    const value = rawHeaders[at + 1] ?? ''
    if (name === ':method') method = value
    else if (name === ':scheme') scheme = value
    else if (name === ':path') path = value
    else if (name === ':authority') fields.push('host', (authority = value))
    else if (name === 'cookie' && cookieAt !== undefined) fields[cookieAt] += `; ${value}`
    else if (name !== 'host' || value !== authority) {
      if (name === 'cookie') cookieAt = fields.length + 1
      fields.push(name, value)
    }
  }
  return { method, scheme, authority, path, fields }
}
