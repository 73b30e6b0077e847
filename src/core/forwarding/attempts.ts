/** Decides for all engines which backend a request goes to, and whether another one gets it after a failure. */
import type { Balancer } from '../backends/balancer.ts'
import { Place, type Waiter } from '../backends/line.ts'
import type { Backend, Outcome } from '../backends/backend.ts'
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
  /** Number of requests under way. Written by forward() and settled() only. */
  underWay = 0
  #onIdle: (() => void) | undefined

  constructor(balancer: Balancer, retries: Retries, engine: Engine) {
    this.balancer = balancer
    this.retries = retries
    this.engine = engine
  }

  /** Starts the request; never throws: the sink gets all results. */
  forward(job: ForwardJob, sink: ForwardSink): ForwardHandle {
    this.underWay++
    this.retries.begun()
    return new Attempts(job, sink, this)
  }

  settled(): void {
    this.underWay--
    if (this.underWay === 0) this.#onIdle?.()
  }

  /** Refuses new requests; resolves when those under way have finished and the engine is closed. */
  async close(): Promise<void> {
    this.closing = true
    if (this.underWay > 0) await new Promise<void>((resolve) => (this.#onIdle = resolve))
    await this.engine.close()
  }
}

/** One request is the pipeline's handle, the engine's sink and the balancer's waiter: the hot path allocates one object. */
class Attempts implements ForwardHandle, AttemptSink, Waiter {
  #job: ForwardJob
  readonly #sink: ForwardSink
  readonly #forwarder: Forwarder
  /** The performance.now() at which the current attempt was sent. */
  startedMs: number
  /** The backend whose permit the request holds; undefined: it holds none. */
  #backend: Backend | undefined
  /** The handle of the current attempt; undefined between two attempts. */
  #handle: ForwardHandle | undefined
  /** The place in line; undefined: the request never had to wait. */
  #place: Place | undefined
  #status: number | undefined
  #repeated = 0
  /** The failure of the previous attempt; undefined during the first one. */
  #failed: FailedAttempt | undefined
  /** The backend of a failed attempt may have received some of the request. */
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
    // The connection has to close first, as the permit may go at once to a request that needs a connection.
    const isSeen = this.#handle?.abort() ?? false
    if (!this.settled) this.#settle(fault ? { ...fault, ...answered } : 'abandoned')
    return isSeen || this.#reached
  }

  resume(): void {
    this.#handle?.resume()
  }

  onPermit(backend: Backend): void {
    this.#backend = backend
    const { body, received: before } = this.#job
    if (body === undefined || before?.isWhole === true) return this.#send(backend)
    readOn(body, before, this, (received) => {
      this.#job = { ...this.#job, received }
      if (received.bytes.length <= this.#job.bodyLimitBytes) return this.#send(backend)
      this.#giveBack('abandoned')
      this.#refuse({ kind: 'body_too_large', cause: `more than ${this.#job.bodyLimitBytes} bytes` })
    })
  }

  #send(backend: Backend): void {
    this.#backend = backend
    // The time of an attempt excludes the wait in line and earlier attempts.
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
    // A request that has used up its response timeout does not wait again.
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
