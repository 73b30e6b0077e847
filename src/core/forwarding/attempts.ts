/** Decides for all engines which backend a request goes to, and whether another one gets it after a failure. */
import type { Balancer, Waiter } from '../backends/balancer.ts'
import type { Backend, Outcome } from '../backends/backend.ts'
import { answered, type BackendFailure, type FailedAttempt } from '../rules/backend-failure.ts'
import type { AttemptHandle, AttemptSink, Engine, ForwardJob } from './engine.ts'
import { readOn } from './request-body.ts'
import type { Retries } from './retries.ts'

export interface Forwarder {
  readonly balancer: Balancer
  readonly retries: Retries
  readonly engine: Pick<Engine, 'send' | 'close'>
}

/**
 * One request through all its attempts. It is the pipeline's handle and sink, the engine's sink and the balancer's waiter: the
 * hot path allocates one object.
 */
export abstract class Forwarding implements AttemptSink, Waiter {
  job: ForwardJob
  protected readonly forwarder: Forwarder
  /** The performance.now() at which the current attempt was sent. */
  startedMs: number
  deadlineMs: number | undefined
  avoid: Backend | undefined
  settled = false
  /** The backend whose permit the request holds; undefined: it holds none. */
  #backend: Backend | undefined
  /** The handle of the current attempt; undefined between two attempts. */
  #handle: AttemptHandle | undefined
  #status: number | undefined
  /** The outcome was noted before the end. */
  #isNoted = false
  #repeated = 0
  /** The failure of the previous attempt; undefined during the first one. */
  #failed: FailedAttempt | undefined
  /** The backend of a failed attempt may have received some of the request. */
  #reached = false

  constructor(job: ForwardJob, forwarder: Forwarder) {
    this.job = job
    this.forwarder = forwarder
    this.startedMs = job.startedMs
  }

  /** Names the backend of each attempt, for a repeated one with the previous failure. */
  protected abstract sentTo(backend: string, after?: BackendFailure): void
  abstract data(chunk: Buffer): boolean
  /** The request has failed for good. */
  protected abstract refuse(failure: BackendFailure): void

  /** Starts the request; never throws. */
  begin(): void {
    this.forwarder.retries.begun()
    this.#start()
  }

  /**
   * Ends the request at once. fault: the reason if the backend's answer cannot be passed on. Returns whether a backend may have
   * received any of the request.
   */
  abort(fault?: BackendFailure): boolean {
    // The connection closes first, as the permit may go to a request that needs its place.
    const isSeen = this.#handle?.abort() ?? false
    if (!this.settled) this.#settle(fault ? { ...fault, ...answered } : 'abandoned')
    return isSeen || this.#reached
  }

  resume(): void {
    this.#handle?.resume()
  }

  onPermit(backend: Backend): void {
    this.#backend = backend
    const { body, received: before } = this.job
    if (body === undefined || before?.isWhole === true) return this.#send(backend)
    readOn(body, before, this, (received) => {
      this.job = { ...this.job, received }
      if (received.bytes.length <= this.job.bodyLimitBytes) return this.#send(backend)
      this.#giveBack('abandoned')
      this.#fail({ kind: 'body_too_large', cause: `more than ${this.job.bodyLimitBytes} bytes` })
    })
  }

  #send(backend: Backend): void {
    this.#backend = backend
    // The time of an attempt excludes the wait in line and earlier attempts.
    if (this.#failed !== undefined || this.deadlineMs !== undefined)
      this.startedMs = performance.now()
    this.sentTo(backend.name, this.#failed)
    this.#handle = this.send(backend)
  }

  protected send(backend: Backend): AttemptHandle {
    return this.forwarder.engine.send(backend, this.job, this)
  }

  onOverdue(): void {
    const cause = "no connection became free within upstream.timeouts.response or the route's"
    this.#fail({ kind: 'connect_timeout', cause })
  }

  head(status: number, _headers: string[]): void {
    this.#status = status
    if (status !== 101 || this.#backend === undefined) return
    // A tunnel keeps the permit, but its answer is complete.
    this.forwarder.balancer.note(this.#backend, status, this)
    this.#isNoted = true
  }

  end(): void {
    this.#settle(this.#status ?? 'abandoned')
  }

  fail(failed: FailedAttempt): void {
    const failedAt = this.#backend
    this.#giveBack(failed)
    if (!this.forwarder.retries.allows(this.job, failed, this.#repeated)) return this.#fail(failed)
    this.#repeated++
    this.#failed = failed
    this.avoid = failedAt
    this.#reached ||= failed.phase === 'sent'
    this.#handle = undefined
    // The engine is still cleaning up after the failure when it reports it.
    setImmediate(() => {
      if (!this.settled) this.#start()
    })
  }

  #start(): void {
    const { balancer } = this.forwarder
    const backend = balancer.take(this)
    if (backend !== undefined) return this.#send(backend)
    // A request that has used up its response timeout does not wait again.
    if (this.#failed?.kind === 'response_timeout') return this.#fail(this.#failed)
    if (!balancer.wait(this))
      this.#fail({ kind: 'saturated', cause: 'too many requests wait for a backend' })
  }

  #fail(failure: BackendFailure): void {
    this.settled = true
    this.refuse(failure)
  }

  #settle(outcome: Outcome): void {
    this.#giveBack(outcome)
    this.settled = true
  }

  #giveBack(outcome: Outcome): void {
    const { balancer } = this.forwarder
    const backend = this.#backend
    this.#backend = undefined
    if (backend === undefined) balancer.leave(this)
    else if (this.#isNoted) balancer.giveBack(backend, this.job.clientId)
    else balancer.report(backend, outcome, this)
  }
}
