/** The forwarding engine on undici: one connection pool per backend, requests streamed both ways. */
import type { Pool } from 'undici'
import type { Backend } from '../../backends/backend.ts'
import { endsWithConnection, moreMayCome, unusableAnswer } from '../../rules/backend-failure.ts'
import { Attempt } from '../attempt.ts'
import type { EngineOptions } from '../engine.ts'
import type { AttemptSink, Engine, ForwardJob } from '../forwarder.ts'
import { RequestBody } from '../request-body.ts'
import { createUndiciPool, type Controller, type Handler, type Line } from './pool.ts'

/** undici's own clock ticks every half second: fine for long waits, and cheaper than a timer for each request. */
const OWN_CLOCK_BELOW_MS = 5_000

export function createUndiciEngine(options: EngineOptions): Engine {
  const pools = new Map<Backend, Pool>()
  return {
    send: (backend, job, sink) => {
      let pool = pools.get(backend)
      if (pool === undefined) pools.set(backend, (pool = createUndiciPool(backend, options)))
      return new UndiciExchange(job, sink, pool, backend.host)
    },
    close: async () => {
      await Promise.all(Array.from(pools.values(), (pool) => pool.close()))
      pools.clear()
    },
  }
}

/** One attempt: undici's handler and the handle in one object, since this is the hot path. */
class UndiciExchange extends Attempt implements Handler {
  line: Line | undefined
  #controller: Controller | undefined
  #headers: string[] | undefined
  #timer: NodeJS.Timeout | undefined
  #answerBegun = false
  #reusedConnection = false
  #starting = true

  /** servername: undici would take it from each request's Host field, and change connections with it. */
  constructor(job: ForwardJob, sink: AttemptSink, pool: Pool, servername: string) {
    super(job, sink)
    this.body = job.hasBody ? new RequestBody(job) : undefined
    this.#dispatch(pool, servername)
    this.#starting = false
  }

  resume(): void {
    if (this.settled) return
    this.#startTimer()
    this.#controller?.resume()
  }

  onRequestStart(controller: Controller): void {
    // A request that waits for a connection cannot be taken out of the pool's queue, only stopped here.
    if (this.settled) return controller.abort(aborted)
    this.#controller = controller
    this.sent = true
    if (this.line) {
      this.line.life?.start()
      this.#reusedConnection = (this.line.life?.uses ?? 0) > 1
      this.line.handler = this
    }
    this.#stopTimer()
    this.#startTimer()
  }

  onResponseStarted(): void {
    if (!this.#answerBegun) this.line?.life?.answer()
    this.#answerBegun = true
  }

  onResponseStart(controller: Controller, status: number): void {
    if (status >= 100 && status < 200 && status !== 101) {
      // Each interim answer restarts undici's own clock.
      this.#timer ??= setTimeout(onTimeout, this.job.responseTimeoutMs, this)
      return
    }
    this.#stopTimer()
    this.#startTimer()
    const headers = (controller.rawHeaders as Buffer[]).map(latin1)
    const cause = unusableAnswer(status, headers)
    if (cause !== undefined) return this.fail('broken', cause)
    if (this.line?.life && moreMayCome(this.job.method, status, headers))
      this.line.life.isLast = true
    this.#headers = headers
    this.sink.head(status, headers)
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    if (this.settled) return
    this.#timer?.refresh()
    if (this.sink.data(chunk)) return
    // A client that reads slowly is not the backend's fault.
    this.#stopTimer()
    controller.pause()
  }

  onResponseEnd(): void {
    if (this.settled) return
    if (this.line?.wasReset && endsWithConnection(this.#headers ?? []))
      return this.fail('broken', 'the connection was reset in mid-body')
    this.settle({ closes: false })
    this.sink.end()
  }

  onResponseError(_controller: unknown, error: Error): void {
    if (this.#starting) queueMicrotask(() => this.onError(error))
    else this.onError(error)
  }

  onUnreadable(error: Error): void {
    this.onError(error)
  }

  onTimeout(): void {
    if (!this.isOverdue(this.#answerBegun)) this.#timer?.refresh()
  }

  #dispatch(pool: Pool, servername: string): void {
    const { method, target, headers, responseTimeoutMs } = this.job
    const options = {
      method,
      path: target,
      headers,
      body: this.body ?? null,
      headersTimeout: this.#hasOwnClock ? 0 : responseTimeoutMs,
      bodyTimeout: this.#hasOwnClock ? 0 : responseTimeoutMs,
      servername,
    }
    pool.dispatch(options, this)
    if (!this.sent && !this.settled) this.#timer = setTimeout(onTimeout, responseTimeoutMs, this)
  }

  protected override connectionFacts() {
    return { reusedConnection: this.#reusedConnection, answerBegun: this.#answerBegun }
  }

  protected override leave(closes: boolean): void {
    this.#stopTimer()
    if (closes) this.#controller?.abort(aborted)
  }

  get #hasOwnClock(): boolean {
    return this.job.responseTimeoutMs < OWN_CLOCK_BELOW_MS
  }

  /** For what the backend has to do next. */
  #startTimer(): void {
    if (!this.#hasOwnClock || this.#timer !== undefined) return
    this.#timer = setTimeout(onTimeout, this.job.responseTimeoutMs, this)
  }

  #stopTimer(): void {
    if (this.#timer === undefined) return
    clearTimeout(this.#timer)
    this.#timer = undefined
  }
}

const aborted = new Error('aborted by the gateway')
const latin1 = (field: Buffer): string => field.toString('latin1')
const onTimeout = (exchange: UndiciExchange): void => exchange.onTimeout()
