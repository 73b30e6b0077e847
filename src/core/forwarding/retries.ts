/** How often a request may be sent again, and how many of all requests: failing backends must not be met with twice the load. */
import type { Asker } from '../backends/choice.ts'
import type { Config } from '../../config/config.ts'
import { isStale, mayRepeat, type FailedAttempt } from '../rules/backend-failure.ts'

/** Whatever the share of so few requests is. */
const leastPerSecond = 10

/** A client whose repeat failed as well gets one repeat in so long. */
const spacingMs = 1_000
/** After so long without a repeat it gets as many as any other. */
const forgottenMs = 10_000
/** Such clients that are remembered; one more, and all are forgotten. */
const mostClients = 256

/** Time is an argument. */
export class Retries {
  readonly #attempts: number
  readonly #share: number
  readonly #hasOthers: boolean
  /** At once, after a time without any. */
  readonly #most: number
  #left: number
  /** Requests since that was reckoned. */
  #begun = 0
  #reckonedMs = 0
  /** Clients whose repeat failed as well, with the time of their last repeat: what fails everywhere must not use up the repeats of all. */
  readonly #inVain = new Map<string, number>()

  constructor({
    retry,
    connections,
    urls,
  }: Pick<Config['upstream'], 'retry' | 'connections' | 'urls'>) {
    this.#attempts = retry.attempts
    this.#share = retry.budget
    this.#hasOthers = urls.length > 1
    // As many as one backend can leave behind when it dies.
    this.#most = retry.budget === 0 ? 0 : Math.max(connections, leastPerSecond)
    this.#left = this.#most
  }

  /** Of every request. */
  begun(): void {
    this.#begun++
  }

  /** Whether a request goes to the next backend after it has failed; repeated: so many times so far. */
  allows(
    { method, clientId }: Asker,
    failed: FailedAttempt,
    repeated: number,
    nowMs = performance.now(),
  ): boolean {
    if (!mayRepeat(method, failed)) return false
    if (repeated > 0 && failed.phase === 'sent') this.#noteVain(clientId, nowMs)
    if (repeated >= this.#attempts) return false
    // The only backend deserves a fresh connection, but no second chance.
    if (isStale(failed)) return true
    return this.#hasOthers && this.#isItsTurn(clientId, nowMs) && this.#spend(nowMs)
  }

  #noteVain(clientId: string, nowMs: number): void {
    if (this.#inVain.size >= mostClients && !this.#inVain.has(clientId)) this.#inVain.clear()
    this.#inVain.set(clientId, nowMs)
  }

  #isItsTurn(clientId: string, nowMs: number): boolean {
    const lastMs = this.#inVain.get(clientId)
    if (lastMs === undefined) return true
    if (nowMs - lastMs < spacingMs) return false
    if (nowMs - lastMs < forgottenMs) this.#inVain.set(clientId, nowMs)
    else this.#inVain.delete(clientId)
    return true
  }

  #spend(nowMs: number): boolean {
    const seconds = (nowMs - this.#reckonedMs) / 1000
    const earned = this.#begun * this.#share + seconds * leastPerSecond
    this.#left = Math.min(this.#most, this.#left + earned)
    this.#begun = 0
    this.#reckonedMs = nowMs
    if (this.#left < 1) return false
    this.#left--
    return true
  }
}
