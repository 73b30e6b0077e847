/** How often a request may be sent again, and how many of all requests: failing backends must not be met with twice the load. */
import type { Balancer } from '../backends/balancer.ts'
import type { Config } from '../config/config.ts'
import { isStale, mayRepeat, type FailedAttempt } from '../rules/backend-failure.ts'

/** Whatever the share of so few requests is. */
const leastPerSecond = 10

/** A share of requests may be repeated. Time is an argument. */
export class RetryBudget {
  readonly #share: number
  readonly #most: number
  #left: number
  #earning = 0
  #countedMs = 0

  /** most: at once, after a time without any. */
  constructor(share: number, most: number) {
    this.#share = share
    this.#most = share === 0 ? 0 : Math.max(most, leastPerSecond)
    this.#left = this.#most
  }

  /** A request has begun. */
  earn(): void {
    this.#earning++
  }

  spend(nowMs: number): boolean {
    const seconds = (nowMs - this.#countedMs) / 1000
    const earned = this.#earning * this.#share + seconds * leastPerSecond
    this.#left = Math.min(this.#most, this.#left + earned)
    this.#earning = 0
    this.#countedMs = nowMs
    if (this.#left < 1) return false
    this.#left--
    return true
  }
}

export class Retries {
  readonly #attempts: number
  readonly #balancer: Balancer
  readonly #budget: RetryBudget

  constructor(
    balancer: Balancer,
    { retry, connections }: Pick<Config['upstream'], 'retry' | 'connections'>,
  ) {
    this.#balancer = balancer
    this.#attempts = retry.attempts
    // As many as one backend can leave behind when it dies.
    this.#budget = new RetryBudget(retry.budget, connections)
  }

  begun(): void {
    this.#budget.earn()
  }

  /** Whether a request goes to the next backend after it has failed; repeated: so many times so far. */
  allows(method: string, failed: FailedAttempt, repeated: number): boolean {
    if (repeated >= this.#attempts || !mayRepeat(method, failed)) return false
    // The only backend deserves a fresh connection, but no second chance.
    if (isStale(failed)) return true
    return this.#balancer.backends.length > 1 && this.#budget.spend(performance.now())
  }
}
