/** The direct engine forwards with its own HTTP/1.1 client, at the least cost per request. */
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { isIdempotent, unusableAnswer } from '../../rules/backend-failure.ts'
import { Attempt } from '../attempt.ts'
import type { Backend } from '../../backends/backend.ts'
import type { AttemptSink, Engine, EngineOptions, ForwardJob, ReceivedBody } from '../engine.ts'
import type { AnswerHead } from '../../http/answer-reader.ts'
import { clockTickMs, CoarseClock } from '../../backends/coarse-clock.ts'
import type { Http1Connection } from './connection.ts'
import { Http1Pool } from './pool.ts'
import { requestHead, type WrittenHead } from '../../http/request-head.ts'
import { RequestBody } from '../request-body.ts'

export function createDirectEngine(options: EngineOptions): Engine {
  const pools = new Map<Backend, Http1Pool>()
  const clock = new CoarseClock((nowMs) =>
    Array.from(pools.values(), (pool) => pool.tick(nowMs)).includes(true),
  )
  return {
    send: (backend, job, sink) => {
      let pool = pools.get(backend)
      if (pool === undefined) pools.set(backend, (pool = new Http1Pool(backend, options, clock)))
      return new Http1Exchange(job, sink, pool)
    },
    close: () => {
      for (const pool of pools.values()) pool.closeAll()
      clock.stop()
    },
  }
}

/** One exchange waits for a connection, writes the request and passes the answer to the pipeline. */
export class Http1Exchange extends Attempt {
  /** The request has been written completely. */
  wholeSent = false
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
    this.#progressMs = pool.clock.nowMs
    pool.take(this)
  }

  get method(): string {
    return this.job.method
  }

  /** The request can be sent again if the connection turns out to be closed. */
  get mayRepeat(): boolean {
    const { method, body, received } = this.job
    return isIdempotent(method) && (body === undefined || received?.isWhole === true)
  }

  resume(): void {
    if (this.settled || !this.#paused) return
    this.#paused = false
    this.#progress()
    this.#connection?.resume()
  }

  /** The exchange has its connection and writes the request now. */
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

  /** The answer has ended; the connection is already free, reused or closed. */
  onAnswerEnd(): void {
    this.#connection = undefined
    this.settle({ closes: false })
    this.sink.end()
  }

  onDrain(): void {
    this.#progress()
    this.body?.resume()
  }

  /** Called at each tick, with the time on the coarse clock. */
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
