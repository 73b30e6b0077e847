/** Measures how fast a client sends requests to this process, and so how many tokens are worth holding ahead of need. */
import type { Limits } from '../../config/config.ts'

/** Leases of about this lifetime cost the fewest calls: longer ones come back unspent, shorter ones are renewed more often. */
const LIFETIME_MS = 10_000
/** A process holds at most this part of a client's minute ahead of need. */
const MOST_OF_A_MINUTE = 1 / 16
/** A measurement of this length has the same weight as all earlier ones together. */
const MEMORY_MS = 3_000
const SHORTEST_MEASUREMENT_MS = 20

/** The pace of one client, measured from call to call. Time is an argument, in ms of this process's monotonic clock. */
export class Pace {
  /** Requests since the latest measurement, including refused ones, as they show what could be spent. Counted by lessee.ts. */
  seen = 0
  #perMs = 0
  #measuredMs: number
  #measurements = 0

  constructor(nowMs: number) {
    this.#measuredMs = nowMs
  }

  /** Measures the pace since the latest measurement, unless that was a moment ago. */
  measure(nowMs: number): void {
    const passedMs = nowMs - this.#measuredMs
    if (passedMs < SHORTEST_MEASUREMENT_MS) return
    this.#measurements += 1
    // The first few have equal weights, so that a new client's pace is known after its second call.
    const weight = Math.max(passedMs / (passedMs + MEMORY_MS), 1 / this.#measurements)
    this.#perMs += weight * (this.seen / passedMs - this.#perMs)
    this.seen = 0
    this.#measuredMs = nowMs
  }

  /** Returns the number of tokens to ask for in one call, at least `need`: what will be spent within a lease's lifetime and within the minute. */
  leaseSize(limits: Limits, need: number, minuteLeftMs: number): number {
    const wished = Math.ceil(this.#perMs * Math.min(LIFETIME_MS, minuteLeftMs))
    return Math.max(need, Math.min(wished, Math.floor(limits.perMinute * MOST_OF_A_MINUTE)))
  }

  /**
   * Returns the number of tokens in hand at which the next call begins, so that its reply arrives before they are spent.
   * undefined: the call waits until a token is needed, as so slow a client loses nothing by waiting, and would hold a lease that
   * it may never use.
   */
  prefetchLevel(inHand: number, callMs: number): number | undefined {
    const spentMeanwhile = Math.round(this.#perMs * 3 * callMs)
    return spentMeanwhile === 0 ? undefined : Math.min(spentMeanwhile, Math.floor(inHand / 4))
  }
}
