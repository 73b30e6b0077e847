/** How often a request may be sent again, and how many of all requests: failing backends must not be met with twice the load. */
import type { Config } from '../config/config.ts'
import { isStale, mayRepeat, type FailedAttempt } from '../rules/backend-failure.ts'

/** Whatever the share of so few requests is. */
const leastPerSecond = 10

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
    method: string,
    failed: FailedAttempt,
    repeated: number,
    nowMs = performance.now(),
  ): boolean {
    if (repeated >= this.#attempts || !mayRepeat(method, failed)) return false
    // The only backend deserves a fresh connection, but no second chance.
    return isStale(failed) || (this.#hasOthers && this.#spend(nowMs))
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
