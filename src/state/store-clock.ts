/** The store's Unix time, which goes on with the process's own clock: all mean the same time, whatever their machines' clocks say. */

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

  /** The store named storeMs in a call of tookMs that has just ended. A known time that fits stays: a late reply sets no clock back. */
  set(storeMs: number, tookMs: number): void {
    const leastMs = storeMs - this.#own.nowMs()
    const known = this.#aheadMs ?? leastMs
    this.#aheadMs = Math.min(Math.max(known, leastMs), leastMs + tookMs)
  }
}
