/**
 * A client as this process serves it, and where it stands with the authority.
 *
 * | state     | what it means                                               | what ends it                             |
 * | --------- | ----------------------------------------------------------- | ---------------------------------------- |
 * | settled   | the authority knows the use, or hears it with the next call | begin: asking; doubt or fail: uncertain  |
 * | asking    | a call is under way; requests and notices wait for its end  | end: settled; doubt: restating           |
 * | uncertain | the authority may believe something else: a call is due     | begin: restating; trust: settled         |
 * | restating | both: the call under way states the use                     | trust: asking; end: uncertain            |
 *
 * In each of them it may be wanted: requests are refused somewhere, so what is handed back here goes back at once. That begins
 * and ends with what is heard: `short` and `free`, as a notice or as what a reply shows.
 */
import type { Limits } from '../../config/config.ts'
import type { Lease } from './lease.ts'
import type { Notice, QuotaDecision } from '../../state/quota.ts'

/** Its methods alone write its fields, but where it says otherwise. */
export class Client {
  /** See Lease for its writers. */
  readonly lease: Lease
  /** The call under way, or about to be repeated; never rejects. */
  inFlight: Promise<void> | undefined
  /** Replies in a row that said the authority had lost its data. */
  lostInARow = 0
  isWanted = false
  /** Requests that wait for a decision, those of the call under way included. Written by lessee.ts. */
  pending = 0
  /** Is in the list of those whose tokens are looked after. Written by holdings.ts. */
  isHolder = false
  /** Requests that arrived during the call; the next one is for them. */
  #queued: Waiter[] = []
  /** Notices that came during the call, each once, the latest last. */
  #deferred: readonly Notice[] = []
  /** Of all clients those that are uncertain or restating. */
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

  /** The result is the requests that have queued meanwhile. */
  end(): readonly Waiter[] {
    const queued = this.#queued
    if (queued.length > 0) this.#queued = []
    this.inFlight = undefined
    return queued
  }

  /** The authority has heard all that was used. */
  trust(): void {
    this.lostInARow = 0
    this.#uncertain.delete(this)
  }

  /** The authority may have lost what it heard. */
  doubt(): void {
    this.#uncertain.add(this)
  }

  /** The authority has answered that it has lost what it knew. */
  lose(): void {
    this.lostInARow += 1
  }

  /** The authority did not answer, or not in time: it may have carried the call out, and may do so yet. */
  fail(): void {
    this.lostInARow = 0
    this.lease.awaited = 0
    this.#uncertain.add(this)
  }

  hear(notice: Notice): void {
    if (notice !== 'unknown') this.isWanted = notice === 'short'
  }

  /** The reply under way may be older than the notice. */
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
