/** A client's HTTP/1.1 connection: its requests are served one after the other, and what comes meanwhile waits in it. */
import type { Socket } from 'node:net'
import { Readable } from 'node:stream'
import type { Framing } from '../rules/framing.ts'
import { refuse, type Refusal } from '../rules/refusals.ts'
import type { ClientConnection, ProtocolConnection } from './connections.ts'
import { Http1Response } from './http1-messages.ts'
import type { ServerParts } from './server-parts.ts'
import { readOn, stopReading, takenBytes } from './node-internals.ts'
import { MessageReader } from './message-reader.ts'
import { requestSyntax, type Http1Request } from './request-head.ts'
import { beginRequests, IN_PIECES, Share } from './shared-turn.ts'

/** Time for which a closing connection is still read, so that the client sees the answer and no reset (RFC 9112 9.6). */
const LINGER_MS = 1_000
/** Time between two dropped packets of up to 64 KiB: a client that does not stop sending must neither delay others nor fill the memory. */
const DISCARD_EVERY_MS = 50
/** Bytes that may come while a request is being answered. The connection is read on, as only reading shows that its client leaves. */
const HELD_BYTES = 64 * 1024
/** Requests of one connection that may begin even in a full turn. */
const OWN_AT_LEAST = 4

const INCOMPLETE = refuse('invalid_request', { cause: 'the connection ended before the request' })
const LATE = refuse('request_timeout', { cause: 'the head did not arrive in time' })

export class Http1Connection implements ProtocolConnection {
  readonly socket: Socket
  readonly share = new Share()
  readonly client: ClientConnection
  /** Its response reads them too. */
  readonly parts: ServerParts
  readonly #isSecured: boolean
  readonly #reader: MessageReader<Http1Request>
  /** head: a request is awaited. body: its body is being read. answer: it is complete. over: nothing more is parsed. */
  #phase: 'head' | 'body' | 'answer' | 'over' = 'head'
  #request: Http1Request | undefined
  #response: Http1Response | undefined
  /** The body's stream wants more. */
  #isBodyWanted = true
  #isAdvancing = false
  /** The shared turn has stopped the reading. */
  #isStopped = false
  /** The client has ended its side. */
  #isEnded = false
  /** It goes on in its stage of this turn. */
  #isDue = false
  #isTunnel = false
  #hasServed = false
  /** End of the present wait, by performance.now(); see onLook(). */
  #deadlineMs: number
  /** Bytes moved both ways as of the last look that found progress, and the time of that look. */
  #movedBytes = 0
  #movedMs = 0

  constructor(socket: Socket, client: ClientConnection, parts: ServerParts) {
    this.socket = socket
    this.client = client
    this.parts = parts
    this.#isSecured = 'encrypted' in socket
    this.#reader = new MessageReader(parts.http1Limits.maxHeadBytes, requestSyntax)
    this.#deadlineMs = performance.now() + parts.config.timeouts.headersMs
    parts.connections.turn.enter(this)
    socket.on('data', this.#onData).on('end', this.#onEnd).on('drain', this.#onDrain)
    // 'close' follows.
    socket.on('error', () => {})
    socket.once('close', () => this.#onClose())
    if (socket.isPaused()) socket.resume()
  }

  /** No request is under way, and none has begun to arrive. */
  get isIdle(): boolean {
    return this.#phase === 'head' && this.#reader.heldBytes === 0
  }

  get hasMore(): boolean {
    return this.#reader.heldBytes > 0
  }

  closeIdle(): void {
    if (this.isIdle) this.destroy()
  }

  destroy(): void {
    this.socket.destroy()
  }

  frame(framing: Framing | undefined): void {
    if (framing === undefined) return this.#stop()
    if (this.#request !== undefined && framing.body !== 'none')
      this.#request.body = new Readable({ read: () => this.#wantBody() })
    this.#reader.frame(framing)
    this.#phase = 'body'
  }

  takeOver(): Socket {
    this.#isTunnel = true
    const behindHead = this.#reader.stop()
    if (this.#response !== undefined) this.#response.shouldKeepAlive = false
    this.#phase = 'over'
    this.socket
      .pause()
      .off('data', this.#onData)
      .off('end', this.#onEnd)
      .off('drain', this.#onDrain)
    if (behindHead.length > 0 && !this.#isEnded) this.socket.unshift(behindHead)
    return this.socket
  }

  #wantBody(): void {
    this.#isBodyWanted = true
    this.goOn()
  }

  stopReading(): void {
    this.#isStopped = true
    this.#controlReading()
  }

  readOn(): void {
    this.#isStopped = false
    this.#controlReading()
  }

  onLook(nowMs: number): void {
    if (this.#isTunnel) return
    // What could not be read has no request: once it is answered, its sender has as long as on any closing connection.
    const isRequest = this.#request !== undefined || !this.#isAnswered
    if (this.#response !== undefined && isRequest) return this.#lookForProgress(nowMs)
    if (nowMs < this.#deadlineMs) return
    // A closing connection, an idle one, or a refused request whose body does not come has had its answer.
    if (this.#phase !== 'head' || (this.isIdle && this.#hasServed)) return this.destroy()
    this.#fail(LATE)
  }

  #lookForProgress(nowMs: number): void {
    const movedBytes = this.socket.bytesRead + takenBytes(this.socket)
    if (movedBytes !== this.#movedBytes || this.#movedMs === 0) {
      this.#movedBytes = movedBytes
      this.#movedMs = nowMs
    } else if (nowMs - this.#movedMs > this.parts.http1Limits.inactivityMs) this.destroy()
  }

  readonly #onData = (bytes: Buffer): void => {
    if (this.#phase === 'over') return this.#discard()
    if (this.isIdle) this.#deadlineMs = performance.now() + this.parts.config.timeouts.headersMs
    this.#reader.add(bytes)
    if (this.#phase === 'head' && !this.#isDue) {
      this.#isDue = true
      beginRequests.add(this)
    } else this.goOn()
  }

  readonly #onEnd = (): void => {
    if (this.#isDue) this.goOn()
    this.#isEnded = true
    this.#response?.flush()
    if (this.#phase === 'over' && this.#isAnswered) this.destroy()
    // A client that ends its side cannot be told from one that has left, and an answer would be wasted on the latter.
    else if (this.#phase === 'answer' && !this.#isAnswered) this.socket.destroySoon()
    else this.goOn()
  }

  readonly #onDrain = (): void => this.#response?.drained()

  #onClose(): void {
    this.#stop()
    this.parts.connections.turn.leave(this)
    // The rest of the body will never come.
    if (this.#request?.complete === false) this.#request.body?.destroy()
    const response = this.#response
    this.#response = undefined
    response?.closed(false)
  }

  /** Parses as far as the phase and the shared turn allow. */
  goOn(): void {
    if (this.#isAdvancing) return
    this.#isDue = false
    this.#isAdvancing = true
    try {
      while (this.#step());
    } finally {
      this.#isAdvancing = false
    }
    this.#controlReading()
  }

  /** The whole answer is decided, and written in this turn at the latest, or there is none: the rest of the request's body is dropped. */
  get #isAnswered(): boolean {
    return this.#response === undefined || this.#response.isEnded
  }

  /** Returns whether another step may follow. */
  #step(): boolean {
    if (this.#phase === 'head') return this.#readHead()
    if (this.#phase !== 'body') return false
    if (!this.#isAnswered) return this.#isBodyWanted && this.#read()
    // The connection closes behind this answer, so what is left is not parsed.
    return this.#response?.shouldKeepAlive !== false && this.#read()
  }

  #readHead(): boolean {
    if (this.#reader.heldBytes === 0) {
      if (this.#isEnded) this.#linger()
      return false
    }
    const { turn } = this.parts.connections
    if (!turn.mayBegin(this.share, OWN_AT_LEAST)) {
      turn.wait(this)
      return false
    }
    return this.#read()
  }

  #read(): boolean {
    switch (this.#reader.next()) {
      case 'head':
        this.#begin()
        return true
      case 'piece':
        return this.#takePiece()
      case 'end':
        this.#complete()
        return true
      case 'fault':
        this.#fail(this.#reader.fault)
        return false
      default:
        if (this.#isEnded) this.#fail(INCOMPLETE)
        return false
    }
  }

  #begin(): void {
    const { head: request } = this.#reader
    if (request === undefined) return
    this.parts.connections.turn.began(this.share)
    this.#isBodyWanted = true
    this.#movedMs = 0
    this.#hasServed = true
    const isLast = this.#isEnded && this.#reader.heldBytes === 0
    const response = new Http1Response(this, request, request.persists && !isLast)
    this.#request = request
    this.#response = response
    this.#phase = 'answer'
    this.parts.events.request(request, response, this.client)
  }

  #complete(): void {
    const request = this.#request
    if (request !== undefined) request.complete = true
    if (this.#response === undefined) return this.#awaitNext()
    this.#phase = 'answer'
    request?.body?.push(null)
  }

  #takePiece(): boolean {
    const { piece, pieceChunks } = this.#reader
    const request = this.#request
    if (request !== undefined) request.receivedBytes += piece.length
    if (!this.parts.connections.turn.take(this.share, piece.length, pieceChunks)) {
      this.#fail(IN_PIECES)
      return false
    }
    if (!this.#isAnswered && request?.body?.push(piece) === false) this.#isBodyWanted = false
    return true
  }

  /** What comes cannot be read, or did not come in time: it is answered, and nothing behind it is parsed. */
  #fail(refusal: Refusal): void {
    const { events } = this.parts
    const isInBody = this.#phase === 'body'
    const seen = this.#reader.stop().toString('latin1')
    this.#stop()
    this.#deadlineMs = performance.now() + LINGER_MS
    if (!isInBody) {
      this.#response = new Http1Response(this, { method: '', httpVersion: '1.1' }, false)
      events.unreadable(this.client, this.#response, refusal, seen)
    } else if (this.#response === undefined) this.#linger()
    // A refused request whose body breaks off has had its answer.
    else if (this.#request !== undefined && !this.#isAnswered) events.broken(this.#request, refusal)
  }

  /** Parses nothing more. */
  #stop(): void {
    this.#phase = 'over'
    this.#reader.stop()
  }

  /** Writes the end of an answer. rest: text is latin1; empty where everything has been written before. */
  writeEnd(rest: string | Buffer): void {
    const { socket } = this
    // A callback would delay the next request, and the kernel takes most answers at once; a TLS socket never takes one at once.
    if (this.#isSecured) return void socket.write(rest, 'latin1', this.#onWritten)
    if (rest.length > 0) socket.write(rest, 'latin1')
    if (socket.writableLength > 0) socket.write('', 'latin1', this.#onWritten)
    // After a fault 'close' follows.
    else if (socket.errored === null) this.#onWritten()
  }

  /** Called when the kernel has taken the end of an answer. */
  readonly #onWritten = (): void => {
    const response = this.#response
    if (response === undefined || !response.isEnded || this.socket.destroyed) return
    this.#response = undefined
    response.closed(true)
    if (!response.shouldKeepAlive || this.#phase === 'over') return this.#linger()
    if (this.#phase === 'answer') this.#awaitNext()
    else this.#deadlineMs = performance.now() + this.parts.config.timeouts.requestMs
    this.goOn()
  }

  #awaitNext(): void {
    this.#request = undefined
    this.#reader.head = undefined
    this.#phase = 'head'
    const { maxHeadBytes, idleMs } = this.parts.http1Limits
    const { headersMs } = this.parts.config.timeouts
    this.#reader.maxHeadBytes = maxHeadBytes
    this.#deadlineMs = performance.now() + (this.#reader.heldBytes === 0 ? idleMs : headersMs)
  }

  /** Closes the connection gracefully: closing with unread bytes would reset it and could lose the answer (RFC 9112 9.6). */
  #linger(): void {
    this.#stop()
    this.#deadlineMs = performance.now() + LINGER_MS
    if (this.#isEnded) return this.socket.destroySoon()
    this.socket.end()
    if (this.#isTunnel) this.socket.on('data', this.#onData).once('end', this.#onEnd)
    this.#isTunnel = false
    this.socket.resume()
  }

  /** Stops the handle itself: a stream that is paused would hold what the kernel has ready. */
  #discard(): void {
    stopReading(this.socket)
    setTimeout(() => readOn(this.socket), DISCARD_EVERY_MS)
  }

  /** Reads on while there is room for what comes. */
  #controlReading(): void {
    if (this.#phase === 'over') return
    const isFull = this.#reader.heldBytes >= HELD_BYTES
    const isHeldBack = this.#phase === 'body' && !this.#isBodyWanted && !this.#isAnswered
    const mayRead = !this.#isStopped && !isFull && !isHeldBack
    if (mayRead !== this.socket.isPaused()) return
    if (mayRead) this.socket.resume()
    else this.socket.pause()
  }
}
