/**
 * The store's Unix time as far as a process knows it, so that all processes mean the same time, whatever the clocks of their
 * machines say. It goes on with the process's own clock, even while the store is away.
 */

/** nowMs: monotonic, in ms. epochMs: Unix time in ms, used until the store has reported its time. */
const ownClock = { nowMs: () => performance.now(), epochMs: () => Date.now() }

export class StoreClock {
  readonly #own: typeof ownClock
  /** The store's Unix time minus the monotonic clock. Written by set. */
  #aheadMs: number | undefined

  constructor(own = ownClock) {
    this.#own = own
  }

  /** Unix time in whole ms. */
  nowMs(): number {
    return this.at(this.#own.epochMs())
  }

  /** Unix time in whole ms at this moment of the process's own Unix clock. */
  at(ownMs: number): number {
    if (this.#aheadMs === undefined) return Math.floor(ownMs)
    return Math.floor(this.#own.nowMs() + this.#aheadMs - (this.#own.epochMs() - ownMs))
  }

  /**
   * The store reported the Unix time storeMs at some moment of a call that took tookMs and has just ended. A known time that
   * agrees with that stays, so that a late reply does not set the clock back.
   */
  set(storeMs: number, tookMs: number): void {
    const leastMs = storeMs - this.#own.nowMs()
    const known = this.#aheadMs ?? leastMs
    this.#aheadMs = Math.min(Math.max(known, leastMs), leastMs + tookMs)
  }
}
