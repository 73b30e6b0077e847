/** One job on its way: waits for a connection, writes the request, and tells the pipeline of the answer. */
import {
  unusableAnswer,
  backendFailureKind,
  type FailedAttempt,
} from '../../rules/backend-failure.ts'
import { errorText, backendErrorCode } from '../engine.ts'
import type { AttemptSink, ForwardHandle, ForwardJob } from '../forwarder.ts'
import type { AnswerHead } from '../../http1/answer-head.ts'
import { clockTickMs } from './clock.ts'
import type { Http1Connection } from './connection.ts'
import type { Http1Pool, Waiting } from './pool.ts'
import { requestHead } from '../../http1/request-head.ts'
import { RequestBody } from '../request-body.ts'

/** The handle of the attempt, and what the connection carries, in one object, since this is the hot path. */
export class Http1Exchange implements ForwardHandle, Waiting {
  settled = false
  wholeSent = false
  readonly isHead: boolean
  readonly #job: ForwardJob
  readonly #sink: AttemptSink
  readonly #pool: Http1Pool
  /** Once the request goes out on it. */
  #connection: Http1Connection | undefined
  #body: RequestBody | undefined
  /** Time on the clock of the last sign of progress. */
  #progressMs: number
  #sent = false
  #headTold = false
  #paused = false

  constructor(job: ForwardJob, sink: AttemptSink, pool: Http1Pool) {
    this.#job = job
    this.#sink = sink
    this.#pool = pool
    this.isHead = job.method === 'HEAD'
    this.#progressMs = pool.clock.nowMs
    pool.take(this)
  }

  abort(): boolean {
    if (!this.settled) this.#settle({ closes: true })
    return this.#sent
  }

  resume(): void {
    if (this.settled || !this.#paused) return
    this.#paused = false
    this.#progress()
    this.#connection?.resume()
  }

  onReady(connection: Http1Connection): void {
    this.#connection = connection
    const head = requestHead(this.#job, this.#pool.backend.hostHeader)
    if (head === undefined) return this.#fail('broken', 'a request that cannot be written')
    this.#sent = true
    this.#progress()
    if (this.#job.hasBody) return this.#sendWithBody(connection, head.text, head.bodyBytes)
    this.wholeSent = true
    connection.write(head.text)
  }

  onHead({ status, headers }: AnswerHead): void {
    this.#progress()
    const cause = unusableAnswer(status, headers)
    if (cause !== undefined) return this.#fail('broken', cause)
    this.#headTold = true
    this.#sink.head(status, headers)
  }

  onBody(piece: Buffer): void {
    this.#progress()
    if (this.#sink.data(piece) || this.settled) return
    // A client that reads slowly is not the backend's fault.
    this.#paused = true
    this.#connection?.pause()
  }

  onAnswerEnd(): void {
    this.#connection = undefined
    this.#settle({ closes: false })
    this.#sink.end()
  }

  onLost(code: string, cause: string): void {
    const kind = backendFailureKind(code, this.#sent)
    this.#fail(kind, cause.includes(code) ? cause : `${code}: ${cause}`)
  }

  onDrain(): void {
    this.#progress()
    this.#body?.resume()
  }

  onTick(nowMs: number): void {
    if (this.settled || this.#paused) return
    if (nowMs - this.#progressMs < this.#job.responseTimeoutMs + clockTickMs) return
    if (!this.#sent)
      return this.#fail('connect_timeout', 'no connection became free in time', 'waiting')
    // The backend waits for the client's body; how long that may take is the public listener's to say.
    if (!this.#headTold && this.#body?.waitsForClient) return this.#progress()
    this.#fail('response_timeout', 'no answer, or no more of it, in time')
  }

  #progress(): void {
    this.#progressMs = this.#pool.clock.nowMs
  }

  /** bodyBytes: as the head says; undefined: in chunks. Neither more nor less goes out, or the rest would be a request. */
  #sendWithBody(connection: Http1Connection, head: string, bodyBytes: number | undefined): void {
    const body = new RequestBody(this.#job)
    this.#body = body
    let missingBytes = bodyBytes ?? Infinity
    // What is there of the body goes out with the head.
    connection.cork()
    setImmediate(() => connection.uncork())
    connection.write(head)
    const mismatch = (): void =>
      this.#fail('broken', 'a body of another length than its Content-Length')
    body.on('data', (chunk: Buffer) => {
      if (this.settled || chunk.length === 0) return
      this.#progress()
      missingBytes -= chunk.length
      if (missingBytes < 0) return mismatch()
      const keepsUp =
        bodyBytes === undefined ? writeChunk(connection, chunk) : connection.write(chunk)
      if (!keepsUp) body.pause()
    })
    body.once('end', () => {
      if (this.settled) return
      if (bodyBytes !== undefined && missingBytes > 0) return mismatch()
      this.wholeSent = true
      if (bodyBytes === undefined) connection.write('0\r\n\r\n')
    })
    body.once('error', (error) => {
      this.#fail(backendFailureKind(backendErrorCode(error), true), errorText(error))
    })
  }

  #fail(
    kind: FailedAttempt['kind'],
    cause: string,
    phase: FailedAttempt['phase'] = this.#sent ? 'sent' : 'connecting',
  ): void {
    if (this.settled) return
    const { requests, answerBegun } = this.#connection ?? notYet
    const bodyTouched = this.#body?.touched ?? false
    this.#settle({ closes: true })
    const reusedConnection = requests > 1
    this.#sink.fail({ kind, cause, phase, bodyTouched, reusedConnection, answerBegun })
  }

  /** What it waited for, if it never had a connection, finds it settled. */
  #settle({ closes }: { closes: boolean }): void {
    this.settled = true
    if (closes) this.#connection?.close()
    this.#connection = undefined
    this.#body?.destroy()
  }
}

const notYet = { requests: 0, answerBegun: false }

function writeChunk(connection: Http1Connection, chunk: Buffer): boolean {
  connection.cork()
  connection.write(`${chunk.length.toString(16)}\r\n`)
  connection.write(chunk)
  const keepsUp = connection.write('\r\n')
  connection.uncork()
  return keepsUp
}
