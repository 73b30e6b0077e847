/** Decides when a store that is late counts as away: a late answer costs those who waited for it, and nobody else. Time is an argument. */

/** What a store that is well does now and then (a fork, a slow disk, a lost packet) takes less. */
const AWAY_AFTER_MS = 1_000
/** So much between two calls counts at most: a process that stood still itself has asked nothing meanwhile. */
const COUNTED_AT_MOST_MS = 250

/** One store, or one server of it. */
export class Silence {
  #lastedMs = 0
  /** When the latest call went without an answer; undefined: it had one. */
  #latestMs: number | undefined

  /** A call went without an answer, and none has had one since. */
  get isOn(): boolean {
    return this.#latestMs !== undefined
  }

  /** A call was answered in time. */
  end(): void {
    this.#lastedMs = 0
    this.#latestMs = undefined
  }

  /** A call had no answer for timeoutMs. The result is whether the store is away: so of calls bounded by less than 250 ms five in a row had none. */
  goesOn(nowMs: number, timeoutMs: number): boolean {
    const askedMs = nowMs - timeoutMs
    const lastedMs = nowMs - (this.#latestMs ?? askedMs)
    this.#lastedMs += Math.min(lastedMs, Math.max(timeoutMs, COUNTED_AT_MOST_MS))
    this.#latestMs = nowMs
    return this.#lastedMs >= AWAY_AFTER_MS
  }
}
