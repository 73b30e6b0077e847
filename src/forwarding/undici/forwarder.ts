/** The forwarding engine on undici: one connection pool per backend URL, requests streamed both ways. */
import {
  endsWithConnection,
  mayRepeat,
  neverReached,
  unusableAnswer,
  backendFailureKind,
} from '../../rules/backend-failure.ts'
import { createBackendRotation, type BackendRotation } from '../../backends/balancer.ts'
import { errorText, backendErrorCode, type ForwarderOptions } from '../engine.ts'
import type { ForwardHandle, ForwardJob, ForwardSink, Forwarder } from '../forwarder.ts'
import type { BackendFailure } from '../forwarder.ts'
import { RequestBody } from '../request-body.ts'
import {
  createUndiciBackend,
  type Controller,
  type Handler,
  type Line,
  type UndiciBackend,
} from './pool.ts'

/** undici's own clock ticks every half second: fine for long waits, and cheaper than a timer for each request. */
const OWN_CLOCK_BELOW_MS = 5_000

/**
 * Requests go to the URLs in turn. close() lets what is under way finish and takes nothing new.
 * connections: per URL. A request that finds none free within its response timeout fails as connect_timeout.
 */
export function createUndiciForwarder(upstream: ForwarderOptions): Forwarder {
  const backends = upstream.urls.map((url) => createUndiciBackend(url, upstream))
  const rotation = createBackendRotation<UndiciBackend>(backends)
  let closing: Promise<unknown> | undefined
  return {
    forward: (job, sink) => new UndiciExchange(job, sink, rotation),
    close: async () => {
      closing ??= Promise.all(backends.map(({ pool }) => pool.close()))
      await closing
    },
  }
}

/** One job: undici's handler and the pipeline's handle in one object, since this is the hot path. */
class UndiciExchange implements ForwardHandle, Handler {
  line: Line | undefined
  readonly #job: ForwardJob
  readonly #sink: ForwardSink
  readonly #rotation: BackendRotation<UndiciBackend>
  #backend: UndiciBackend
  #controller: Controller | undefined
  #body: RequestBody | undefined
  #headers: string[] | undefined
  #timer: NodeJS.Timeout | undefined
  #sent = false
  /** Like sent, and stays so over a repetition. */
  #reached = false
  #answerBegun = false
  #reusedConnection = false
  #repeated = false
  #settled = false
  #starting = true

  constructor(job: ForwardJob, sink: ForwardSink, rotation: BackendRotation<UndiciBackend>) {
    this.#job = job
    this.#sink = sink
    this.#rotation = rotation
    this.#backend = rotation.next()
    this.#dispatch()
    this.#starting = false
  }

  abort(): boolean {
    if (!this.#settled) this.#settle(aborted)
    return this.#reached
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
    this.#reached = true
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
    if (cause !== undefined) return this.#fail({ kind: 'broken', cause })
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
      return this.#fail({ kind: 'broken', cause: 'the connection was reset in mid-body' })
    this.#settle()
    this.#sink.end()
  }

  onResponseError(_controller: unknown, error: Error): void {
    if (this.#settled) return
    const kind = backendFailureKind(backendErrorCode(error), this.#sent)
    if (neverReached(kind)) this.#rotation.failed(this.#backend)
    const repeats = mayRepeat({
      method: this.#job.method,
      kind,
      sent: this.#sent,
      bodyTouched: this.#body?.touched ?? false,
      reusedConnection: this.#reusedConnection,
      answerBegun: this.#answerBegun,
    })
    // There is no use in connecting to the only backend again at once.
    const hasWhereTo = this.#sent || this.#rotation.size > 1
    if (repeats && hasWhereTo && !this.#repeated) return this.#repeat()
    this.#fail({ kind, cause: errorText(error) })
  }

  onTimeout(): void {
    if (!this.#sent) {
      return this.#fail({ kind: 'connect_timeout', cause: 'no connection became free in time' })
    }
    // The backend waits for the client's body; how long that may take is the public listener's to say.
    if (this.#body?.waitsForClient && !this.#answerBegun) return void this.#timer?.refresh()
    this.#fail({ kind: 'response_timeout', cause: 'no answer, or no more of it, in time' })
  }

  #dispatch(): void {
    const { method, target, headers, hasBody, responseTimeoutMs } = this.#job
    this.#body = hasBody ? new RequestBody(this.#job) : undefined
    const { pool, servername } = this.#backend
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

  #repeat(): void {
    this.#repeated = true
    this.#stopTimer()
    this.#body?.destroy()
    this.#sent = false
    this.#controller = undefined
    this.#backend = this.#rotation.next(this.#backend)
    // undici is still cleaning up after the failure when it reports it.
    queueMicrotask(() => {
      if (!this.#settled) this.#dispatch()
    })
  }

  #fail(failure: BackendFailure): void {
    this.#settle(new Error(failure.cause))
    if (this.#starting) queueMicrotask(() => this.#sink.fail(failure))
    else this.#sink.fail(failure)
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
