/**
 * The store's Unix time as far as a process knows it, so that all processes mean the same moment whatever the clocks of their
 * machines say. What the store said last goes on with the process's own clock, also while the store is away.
 */

/** nowMs: monotonic, in ms. epochMs: Unix time in ms, which counts until the store has said its time. */
interface OwnClock {
  nowMs(): number
  epochMs(): number
}

export class StoreClock {
  readonly #own: OwnClock
  /** The store's Unix time less the monotonic clock. Written by set. */
  #aheadMs: number | undefined

  constructor(own: OwnClock) {
    this.#own = own
  }

  /** In whole ms. */
  nowMs(): number {
    const { nowMs, epochMs } = this.#own
    return Math.floor(this.#aheadMs === undefined ? epochMs() : nowMs() + this.#aheadMs)
  }

  /**
   * The store said this Unix time at some moment of the call, which took so long and is over now. What was known before stays where
   * that agrees, so a reply that was late does not set the clock back.
   */
  set(storeMs: number, tookMs: number): void {
    const leastMs = storeMs - this.#own.nowMs()
    const known = this.#aheadMs ?? leastMs
    this.#aheadMs = Math.min(Math.max(known, leastMs), leastMs + tookMs)
  }
}
