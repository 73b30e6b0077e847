/** The attempts of all engines share this base: each waits for a connection of its pool, sends its request and ends with one call of its sink. */
import { clockTickMs } from '../backends/coarse-clock.ts'
import {
  backendFailureKind,
  isIdempotent,
  isStale,
  unusableAnswer,
  type FailedAttempt,
} from '../rules/backend-failure.ts'
import { inWords, isTlsRefusal } from '../rules/tls-faults.ts'
import type { Connection } from './connection.ts'
import type { AttemptSink, ForwardJob } from './engine.ts'
import type { ConnectionPool } from './pool.ts'
import type { RequestBody } from './request-body.ts'

/** The attempt is also its handle: the hot path allocates one object. */
export abstract class Attempt<Sink extends AttemptSink = AttemptSink> {
  settled = false
  readonly job: ForwardJob
  protected readonly sink: Sink
  protected readonly pool: ConnectionPool
  /** The connection that the request is sent on; undefined: there is none yet, or no longer. */
  protected connection: Connection | undefined
  /** The client's body, as far as it is not read already; undefined: nothing was taken from it. */
  protected body: RequestBody | undefined
  /** The backend may have received some of the request. */
  protected sent = false
  /** The head of the answer was passed on. */
  protected hasAnswer = false
  /** Time of the last progress, on the pool's clock. */
  #progressMs: number
  #paused = false

  constructor(job: ForwardJob, sink: Sink, pool: ConnectionPool) {
    this.job = job
    this.sink = sink
    this.pool = pool
    this.#progressMs = pool.clock.nowMs
  }

  /** What the answer comes from; undefined: there is none. */
  abstract readonly answer: { pause(): unknown; resume(): unknown } | undefined

  /** Opens a connection of the kind that its request needs. */
  abstract connect(): Connection

  protected abstract send(connection: Connection): void

  /** The request can be sent again if the connection turns out to be closed. */
  get mayRepeat(): boolean {
    const { method, body, received } = this.job
    return isIdempotent(method) && (body === undefined || received?.isWhole === true)
  }

  /**
   * Ends the backend request at once, after the client left or the gateway gave up; no sink call follows.
   * Returns whether the backend may have received any of the request.
   */
  abort(): boolean {
    if (!this.settled) this.settle()
    return this.sent
  }

  /** Continues the answer after data() of the sink returned false. */
  resume(): void {
    if (this.settled || !this.#paused) return
    this.#paused = false
    this.progress()
    this.answer?.resume()
  }

  onReady(connection: Connection): void {
    this.connection = connection
    this.progress()
    this.send(connection)
  }

  /** Called at each tick, with the time on the pool's clock. */
  onTick(nowMs: number): void {
    const { responseTimeoutMs } = this.job
    if (this.settled || this.#paused) return
    if (nowMs - this.#progressMs < responseTimeoutMs + clockTickMs) return
    // The backend waits for the client's body, whose time the public listener limits.
    if (this.sent && !this.hasAnswer && this.body?.waitsForClient) return this.progress()
    const limit = `within ${responseTimeoutMs} ms (upstream.timeouts.response or the route's)`
    if (this.sent)
      this.fail('response_timeout', `no ${this.hasAnswer ? 'more of the ' : ''}answer ${limit}`)
    else this.fail('connect_timeout', `no connection ${limit}`)
  }

  onError(error: Error): void {
    if (this.settled) return
    const code = errorCode(error)
    const cause = inWords(
      error.message.includes(code) ? error.message : `${code}: ${error.message}`,
    )
    if (isTlsRefusal(cause)) this.fail('unreachable', cause, 'connecting')
    else this.fail(backendFailureKind(code, this.sent), cause)
  }

  /** The answer has ended; the connection is already free, reused or closed. */
  onAnswerEnd(): void {
    this.connection = undefined
    this.settle()
    this.sink.end()
  }

  onHead(status: number, headers: string[]): void {
    this.progress()
    const cause = unusableAnswer(status, headers)
    if (cause !== undefined) return this.fail('broken', cause)
    this.hasAnswer = true
    this.sink.head(status, headers)
  }

  onPiece(piece: Buffer): void {
    this.progress()
    if (this.sink.data(piece) || this.settled) return
    // The backend's time-out pauses while the client reads slowly.
    this.#paused = true
    this.answer?.pause()
  }

  protected progress(): void {
    this.#progressMs = this.pool.clock.nowMs
  }

  protected fail(
    kind: FailedAttempt['kind'],
    cause: string,
    phase: FailedAttempt['phase'] = this.sent ? 'sent' : 'connecting',
  ): void {
    if (this.settled) return
    const failed = {
      kind,
      cause,
      phase,
      bodyTouched: this.body !== undefined,
      reusedConnection: this.connection !== undefined && this.connection.life.uses > 1,
      answerBegun: this.connection?.answerBegun ?? false,
    }
    if (isStale(failed)) this.pool.onStale()
    this.settle()
    this.sink.fail(failed)
  }

  /** Gives up the connection, if it still has one. The pool drops a settled attempt that waits for one. */
  protected settle(): void {
    this.settled = true
    this.connection?.close()
    this.connection = undefined
    this.body?.destroy()
  }
}

export function errorCode(error: Error): string {
  return 'code' in error && typeof error.code === 'string' ? error.code : error.name
}
