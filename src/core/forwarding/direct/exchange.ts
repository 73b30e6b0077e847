/** One exchange waits for a connection, writes the request and passes the answer to the pipeline. */
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { isIdempotent, unusableAnswer } from '../../rules/backend-failure.ts'
import { Attempt } from '../attempt.ts'
import type { AttemptSink, ForwardJob, ReceivedBody } from '../engine.ts'
import type { AnswerHead } from '../../http/answer-reader.ts'
import { clockTickMs } from '../../backends/coarse-clock.ts'
import type { ConnectionUser, Http1Connection } from './connection.ts'
import type { Http1Pool } from './pool.ts'
import { requestHead, type WrittenHead } from '../../http/request-head.ts'
import { RequestBody } from '../request-body.ts'

/** The attempt's handle and the connection's exchange are one object: this is the hot path. */
export class Http1Exchange extends Attempt implements ConnectionUser {
  wholeSent = false
  readonly isHead: boolean
  readonly mayRepeat: boolean
  readonly #pool: Http1Pool
  /** The connection that the request is sent on; undefined: there is none yet, or no longer. */
  #connection: Http1Connection | undefined
  /** Time of the last progress, on the coarse clock. */
  #progressMs: number
  #headPassed = false
  #paused = false

  constructor(job: ForwardJob, sink: AttemptSink, pool: Http1Pool) {
    super(job, sink)
    this.#pool = pool
    this.isHead = job.method === 'HEAD'
    this.mayRepeat =
      isIdempotent(job.method) && (job.body === undefined || job.received?.isWhole === true)
    this.#progressMs = pool.clock.nowMs
    pool.take(this)
  }

  resume(): void {
    if (this.settled || !this.#paused) return
    this.#paused = false
    this.#progress()
    this.#connection?.resume()
  }

  onReady(connection: Http1Connection): void {
    this.#connection = connection
    const head = requestHead(this.job, this.#pool.backend.hostHeader)
    if (head === undefined) return this.fail('broken', 'a request that cannot be written')
    this.sent = true
    this.#progress()
    if (this.job.body !== undefined) return this.#sendWithBody(connection, head, this.job.body)
    this.wholeSent = true
    connection.socket.write(head.text, 'latin1')
  }

  onHead({ status, headers }: AnswerHead): void {
    this.#progress()
    const cause = unusableAnswer(status, headers)
    if (cause !== undefined) return this.fail('broken', cause)
    this.#headPassed = true
    this.sink.head(status, headers)
  }

  onBody(piece: Buffer): void {
    this.#progress()
    if (this.sink.data(piece) || this.settled) return
    // The backend's time-out pauses while the client reads slowly.
    this.#paused = true
    this.#connection?.pause()
  }

  onAnswerEnd(): void {
    this.#connection = undefined
    this.settle({ closes: false })
    this.sink.end()
  }

  onLost(code: string, cause: string): void {
    this.onError(Object.assign(new Error(cause), { code }))
  }

  onDrain(): void {
    this.#progress()
    this.body?.resume()
  }

  onTick(nowMs: number): void {
    if (this.settled || this.#paused) return
    if (nowMs - this.#progressMs < this.job.responseTimeoutMs + clockTickMs) return
    if (!this.isOverdue(this.#headPassed)) this.#progress()
  }

  #progress(): void {
    this.#progressMs = this.#pool.clock.nowMs
  }

  /** Exactly the declared number of bytes goes out: any other number would corrupt the next request. */
  #sendWithBody({ socket }: Http1Connection, head: WrittenHead, client: Readable): void {
    const { received } = this.job
    if (received?.isWhole === true) return this.#sendWhole(socket, head, received)
    const { text, bodyBytes } = head
    const body = new RequestBody(client, this.job)
    this.body = body
    let missingBytes = bodyBytes ?? Infinity
    // The available part of the body goes out together with the head.
    socket.cork()
    queueMicrotask(() => socket.uncork())
    socket.write(text, 'latin1')
    body.on('data', (chunk: Buffer) => {
      if (this.settled || chunk.length === 0) return
      this.#progress()
      missingBytes -= chunk.length
      if (missingBytes < 0) return this.#mismatch()
      const keepsUp = bodyBytes === undefined ? writeChunk(socket, chunk) : socket.write(chunk)
      if (!keepsUp) body.pause()
    })
    body.once('end', () => {
      if (this.settled) return
      if (bodyBytes !== undefined && missingBytes > 0) return this.#mismatch()
      this.wholeSent = true
      if (bodyBytes === undefined) socket.write('0\r\n\r\n', 'latin1')
    })
    body.once('error', (error) => this.onError(error))
  }

  #sendWhole(socket: Socket, { text, bodyBytes }: WrittenHead, { bytes }: ReceivedBody): void {
    if (bodyBytes !== undefined && bodyBytes !== bytes.length) return this.#mismatch()
    socket.cork()
    socket.write(text, 'latin1')
    if (bodyBytes !== undefined) socket.write(bytes)
    else {
      if (bytes.length > 0) writeChunk(socket, bytes)
      socket.write('0\r\n\r\n', 'latin1')
    }
    this.wholeSent = true
    socket.uncork()
  }

  #mismatch(): void {
    this.fail('broken', 'a body of another length than its Content-Length')
  }

  protected override connectionFacts() {
    const { life, answerBegun } = this.#connection ?? notYet
    return { reusedConnection: life.uses > 1, answerBegun }
  }

  /** Gives up the connection. The pool drops a settled exchange that still waits for one. */
  protected override leave(closes: boolean): void {
    if (closes) this.#connection?.close()
    this.#connection = undefined
  }
}

const notYet = { life: { uses: 0 }, answerBegun: false }

function writeChunk(socket: Socket, chunk: Buffer): boolean {
  socket.cork()
  socket.write(`${chunk.length.toString(16)}\r\n`, 'latin1')
  socket.write(chunk)
  const keepsUp = socket.write('\r\n', 'latin1')
  socket.uncork()
  return keepsUp
}
