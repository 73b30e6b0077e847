/**
 * A client in this process, and what the authority knows of it.
 *
 * | state     | what it means                                               | what ends it                             |
 * | --------- | ----------------------------------------------------------- | ---------------------------------------- |
 * | settled   | the authority knows the use, or will with the next call     | begin: asking; doubt or fail: uncertain  |
 * | asking    | a call is under way; requests and notices wait for its end  | end: settled; doubt: restating           |
 * | uncertain | the authority may believe something else: a call is due     | begin: restating; trust: settled         |
 * | restating | both: the call under way states the use                     | trust: asking; end: uncertain            |
 *
 * In each state it may be wanted: some process refuses requests, so that tokens refunded here are returned at once. That begins
 * with `short` and ends with `free`, by a notice or by a reply.
 */
import type { Limits } from '../../config/config.ts'
import type { Lease } from './lease.ts'
import type { Notice, QuotaDecision } from '../../state/quota.ts'

/** Only its methods write its fields, except where noted. */
export class Client {
  /** See Lease for its writers. */
  readonly lease: Lease
  /** The call under way or about to be repeated; never rejects. */
  inFlight: Promise<void> | undefined
  /** Consecutive replies that reported a loss of data. */
  lostInARow = 0
  isWanted = false
  /** Requests that wait for a decision, including those of the call under way. Written by lessee.ts. */
  pending = 0
  /** holdings.ts keeps this client in its list of holders. Written there. */
  isHolder = false
  /** Requests that arrived during the call; the next call is for them. */
  #queued: Waiter[] = []
  /** Notices that arrived during the call, each once, the latest last. */
  #deferred: readonly Notice[] = []
  /** The uncertain and restating clients of all. */
  readonly #uncertain: Set<Client>

  constructor(lease: Lease, uncertain: Set<Client>) {
    this.lease = lease
    this.#uncertain = uncertain
  }

  get isCalling(): boolean {
    return this.inFlight !== undefined
  }

  get isUncertain(): boolean {
    return this.#uncertain.has(this)
  }

  begin(call: Promise<void>): void {
    this.inFlight = call
  }

  queue(waiter: Waiter): void {
    this.#queued.push(waiter)
  }

  /** Ends the call and returns the requests that were queued meanwhile. */
  end(): readonly Waiter[] {
    const queued = this.#queued
    if (queued.length > 0) this.#queued = []
    this.inFlight = undefined
    return queued
  }

  /** The authority knows all that was used. */
  trust(): void {
    this.lostInARow = 0
    this.#uncertain.delete(this)
  }

  /** The authority may have lost what was stated to it. */
  doubt(): void {
    this.#uncertain.add(this)
  }

  /** The authority has reported a loss of data. */
  lose(): void {
    this.lostInARow += 1
  }

  /** The authority did not answer in time; it may have carried out the call, or may still do so. */
  fail(): void {
    this.lostInARow = 0
    this.lease.awaited = 0
    this.#uncertain.add(this)
  }

  applyNotice(notice: Notice): void {
    if (notice !== 'unknown') this.isWanted = notice === 'short'
  }

  /** Keeps a notice for the end of the call: the reply under way may be older than the notice. */
  defer(notice: Notice): void {
    this.#deferred = [...this.#deferred.filter((other) => other !== notice), notice]
  }

  takeDeferred(): readonly Notice[] {
    const deferred = this.#deferred
    this.#deferred = []
    return deferred
  }
}

/** A request that waits for a call. */
export interface Waiter {
  readonly limits: Limits
  resolve(decision: QuotaDecision): void
}
