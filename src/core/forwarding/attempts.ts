/** The one policy of which backend a request goes to and whether it goes to another after a failure, for all engines. */
import type { Backend } from '../backends/backend.ts'
import type { Balancer } from '../backends/balancer.ts'
import { Place, type Waiter } from '../backends/line.ts'
import type { Outcome } from '../backends/outcomes.ts'
import { answered, type BackendFailure, type FailedAttempt } from '../rules/backend-failure.ts'
import type { AttemptSink, Engine, ForwardHandle, ForwardJob, ForwardSink } from './forwarder.ts'
import { readOn } from './request-body.ts'
import type { Retries } from './retries.ts'

export const saturated: BackendFailure = {
  kind: 'saturated',
  cause: 'too many requests wait for a backend',
}
export const overdue: BackendFailure = {
  kind: 'connect_timeout',
  cause: "no connection became free within upstream.timeouts.response or the route's",
}

export class Forwarder {
  readonly balancer: Balancer
  readonly retries: Retries
  readonly engine: Engine
  closing = false
  /** Requests. Written by forward and settled alone. */
  underWay = 0
  #whenNoneIs: (() => void) | undefined

  constructor(balancer: Balancer, retries: Retries, engine: Engine) {
    this.balancer = balancer
    this.retries = retries
    this.engine = engine
  }

  /** Starts the request; never throws, all news goes to the sink. */
  forward(job: ForwardJob, sink: ForwardSink): ForwardHandle {
    this.underWay++
    this.retries.begun()
    return new Attempts(job, sink, this)
  }

  settled(): void {
    this.underWay--
    if (this.underWay === 0) this.#whenNoneIs?.()
  }

  /** Lets what is under way finish and takes nothing new. */
  async close(): Promise<void> {
    this.closing = true
    if (this.underWay > 0) await new Promise<void>((resolve) => (this.#whenNoneIs = resolve))
    await this.engine.close()
  }
}

/** One request: the pipeline's handle, the engine's sink and who waits for a backend in one object, since this is the hot path. */
class Attempts implements ForwardHandle, AttemptSink, Waiter {
  #job: ForwardJob
  readonly #sink: ForwardSink
  readonly #forwarder: Forwarder
  /** When the backend was sent the attempt under way, of performance.now(). */
  startedMs: number
  /** Whose permit it holds; undefined while it waits for one and when it has given it back. */
  #backend: Backend | undefined
  /** Of the attempt under way; undefined between two. */
  #handle: ForwardHandle | undefined
  /** In line, if it ever had to wait. */
  #place: Place | undefined
  #status: number | undefined
  #repeated = 0
  /** Why the attempt before failed; undefined at the first one. */
  #failed: FailedAttempt | undefined
  /** An attempt that failed may have been seen by its backend. */
  #reached = false
  settled = false

  constructor(job: ForwardJob, sink: ForwardSink, forwarder: Forwarder) {
    this.#job = job
    this.#sink = sink
    this.#forwarder = forwarder
    this.startedMs = job.startedMs
    if (forwarder.closing) this.#refuseSoon(closing)
    else this.#start()
  }

  get clientId(): string {
    return this.#job.clientId
  }

  get method(): string {
    return this.#job.method
  }

  abort(fault?: BackendFailure): boolean {
    // Before its permit is given to one who needs the connection.
    const isSeen = this.#handle?.abort() ?? false
    if (!this.settled) this.#settle(fault ? { ...fault, ...answered } : 'abandoned')
    return isSeen || this.#reached
  }

  resume(): void {
    this.#handle?.resume()
  }

  onPermit(backend: Backend): void {
    this.#backend = backend
    if (!this.#job.hasBody || this.#job.received?.isWhole === true) return this.#send(backend)
    readOn(this.#job, this, (received) => {
      this.#job = { ...this.#job, received }
      if (received.bytes.length <= this.#job.bodyLimitBytes) return this.#send(backend)
      this.#giveBack('abandoned')
      this.#refuse({ kind: 'body_too_large', cause: `more than ${this.#job.bodyLimitBytes} bytes` })
    })
  }

  #send(backend: Backend): void {
    this.#backend = backend
    // Each attempt is the time of the backend that has it: neither the line's nor another backend's.
    if (this.#failed !== undefined || this.#place !== undefined) this.startedMs = performance.now()
    this.#sink.sentTo(backend.name, this.#failed)
    this.#handle = this.#forwarder.engine.send(backend, this.#job, this)
  }

  onOverdue(): void {
    this.#refuse(overdue)
  }

  head(status: number, headers: string[]): void {
    this.#status = status
    this.#sink.head(status, headers)
  }

  data(chunk: Buffer): boolean {
    return this.#sink.data(chunk)
  }

  end(): void {
    this.#settle(this.#status ?? 'abandoned')
    this.#sink.end()
  }

  fail(failed: FailedAttempt): void {
    const failedAt = this.#backend
    this.#giveBack(failed)
    if (this.#forwarder.retries.allows(this, failed, this.#repeated))
      return this.#repeat(failed, failedAt)
    this.#refuse(failed)
  }

  #start(avoid?: Backend): void {
    const { balancer } = this.#forwarder
    const backend = balancer.take(this, avoid)
    if (backend !== undefined) return this.#send(backend)
    // It has waited enough.
    if (this.#failed?.kind === 'response_timeout') return this.#refuse(this.#failed)
    this.#place ??= new Place(this, this.#job.responseTimeoutMs)
    if (!balancer.wait(this.#place, avoid)) this.#refuseSoon(saturated)
  }

  #repeat(failed: FailedAttempt, failedAt: Backend | undefined): void {
    this.#repeated++
    this.#failed = failed
    this.#reached ||= failed.phase === 'sent'
    this.#handle = undefined
    // The engine is still cleaning up after the failure when it reports it.
    setImmediate(() => {
      if (!this.settled) this.#start(failedAt)
    })
  }

  #refuseSoon(failure: BackendFailure): void {
    queueMicrotask(() => {
      if (!this.settled) this.#refuse(failure)
    })
  }

  #refuse(failure: BackendFailure): void {
    this.#finish()
    this.#sink.fail(failure)
  }

  #settle(outcome: Outcome): void {
    this.#giveBack(outcome)
    this.#finish()
  }

  #giveBack(outcome: Outcome): void {
    const { balancer } = this.#forwarder
    const backend = this.#backend
    this.#backend = undefined
    if (backend !== undefined) balancer.report(backend, outcome, this)
    else if (this.#place !== undefined) balancer.leave(this.#place)
  }

  #finish(): void {
    this.settled = true
    this.#forwarder.settled()
  }
}

const closing: BackendFailure = { kind: 'unreachable', cause: 'the gateway is closing' }
