/** The forwarding engine on undici: one connection pool per backend, requests streamed both ways. */
import type { Backend } from '../../backends/backend.ts'
import {
  endsWithConnection,
  unusableAnswer,
  backendFailureKind,
  type FailedAttempt,
} from '../../rules/backend-failure.ts'
import { errorText, backendErrorCode, type EngineOptions } from '../engine.ts'
import type { AttemptSink, Engine, ForwardHandle, ForwardJob } from '../forwarder.ts'
import { RequestBody } from '../request-body.ts'
import { createUndiciPool, type Controller, type Handler, type Line } from './pool.ts'
import type { UndiciPool } from './pool.ts'

/** undici's own clock ticks every half second: fine for long waits, and cheaper than a timer for each request. */
const OWN_CLOCK_BELOW_MS = 5_000

export function createUndiciEngine(options: EngineOptions): Engine {
  const pools = new Map<Backend, UndiciPool>()
  const open = (backend: Backend): UndiciPool => {
    const pool = createUndiciPool(backend, options)
    pools.set(backend, pool)
    return pool
  }
  return {
    send: (backend, job, sink) =>
      new UndiciExchange(job, sink, pools.get(backend) ?? open(backend)),
    close: async () => {
      await Promise.all(Array.from(pools.values(), ({ pool }) => pool.close()))
      pools.clear()
    },
  }
}

/** One attempt: undici's handler and the handle in one object, since this is the hot path. */
class UndiciExchange implements ForwardHandle, Handler {
  line: Line | undefined
  readonly #job: ForwardJob
  readonly #sink: AttemptSink
  readonly #body: RequestBody | undefined
  #controller: Controller | undefined
  #headers: string[] | undefined
  #timer: NodeJS.Timeout | undefined
  #sent = false
  #answerBegun = false
  #reusedConnection = false
  #settled = false
  #starting = true

  constructor(job: ForwardJob, sink: AttemptSink, pool: UndiciPool) {
    this.#job = job
    this.#sink = sink
    this.#body = job.hasBody ? new RequestBody(job) : undefined
    this.#dispatch(pool)
    this.#starting = false
  }

  abort(): boolean {
    if (!this.#settled) this.#settle(aborted)
    return this.#sent
  }

  resume(): void {
    if (this.#settled) return
    this.#startTimer()
    this.#controller?.resume()
  }

  onRequestStart(controller: Controller): void {
    // A request that waits for a connection cannot be taken out of the pool's queue, only stopped here.
    if (this.#settled) return controller.abort(aborted)
    this.#controller = controller
    this.#sent = true
    this.#reusedConnection = this.line !== undefined && this.line.carried++ > 0
    this.#stopTimer()
    this.#startTimer()
  }

  onResponseStarted(): void {
    this.#answerBegun = true
  }

  onResponseStart(controller: Controller, status: number): void {
    if (status >= 100 && status < 200 && status !== 101) {
      // Each interim answer restarts undici's own clock.
      this.#timer ??= setTimeout(onTimeout, this.#job.responseTimeoutMs, this)
      return
    }
    this.#stopTimer()
    this.#startTimer()
    const headers = (controller.rawHeaders as Buffer[]).map(latin1)
    const cause = unusableAnswer(status, headers)
    if (cause !== undefined) return this.#fail('broken', cause)
    this.#headers = headers
    this.#sink.head(status, headers)
  }

  onResponseData(controller: Controller, chunk: Buffer): void {
    if (this.#settled) return
    this.#timer?.refresh()
    if (this.#sink.data(chunk)) return
    // A client that reads slowly is not the backend's fault.
    this.#stopTimer()
    controller.pause()
  }

  onResponseEnd(): void {
    if (this.#settled) return
    if (this.line?.wasReset && endsWithConnection(this.#headers ?? []))
      return this.#fail('broken', 'the connection was reset in mid-body')
    this.#settle()
    this.#sink.end()
  }

  onResponseError(_controller: unknown, error: Error): void {
    if (this.#settled) return
    this.#fail(backendFailureKind(backendErrorCode(error), this.#sent), errorText(error))
  }

  onTimeout(): void {
    if (!this.#sent)
      return this.#fail('connect_timeout', 'no connection became free in time', 'waiting')
    // The backend waits for the client's body; how long that may take is the public listener's to say.
    if (this.#body?.waitsForClient && !this.#answerBegun) return void this.#timer?.refresh()
    this.#fail('response_timeout', 'no answer, or no more of it, in time')
  }

  #dispatch({ pool, servername }: UndiciPool): void {
    const { method, target, headers, responseTimeoutMs } = this.#job
    const options = {
      method,
      path: target,
      headers,
      body: this.#body ?? null,
      headersTimeout: this.#hasOwnClock ? 0 : responseTimeoutMs,
      bodyTimeout: this.#hasOwnClock ? 0 : responseTimeoutMs,
      servername,
    }
    pool.dispatch(options, this)
    if (!this.#sent && !this.#settled) this.#timer = setTimeout(onTimeout, responseTimeoutMs, this)
  }

  #fail(
    kind: FailedAttempt['kind'],
    cause: string,
    phase: FailedAttempt['phase'] = this.#sent ? 'sent' : 'connecting',
  ): void {
    const failed: FailedAttempt = {
      kind,
      cause,
      phase,
      bodyTouched: this.#body?.touched ?? false,
      reusedConnection: this.#reusedConnection,
      answerBegun: this.#answerBegun,
    }
    this.#settle(new Error(cause))
    if (this.#starting) queueMicrotask(() => this.#sink.fail(failed))
    else this.#sink.fail(failed)
  }

  /** With a reason, the backend's connection is closed too. */
  #settle(reason?: Error): void {
    this.#settled = true
    this.#stopTimer()
    if (reason) this.#controller?.abort(reason)
    this.#body?.destroy()
  }

  get #hasOwnClock(): boolean {
    return this.#job.responseTimeoutMs < OWN_CLOCK_BELOW_MS
  }

  /** For what the backend has to do next. */
  #startTimer(): void {
    if (!this.#hasOwnClock || this.#timer !== undefined) return
    this.#timer = setTimeout(onTimeout, this.#job.responseTimeoutMs, this)
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
