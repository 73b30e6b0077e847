/** Decides when a late store counts as away: a late answer affects only the requests that waited for it. Time is an argument. */

/** Shorter silences are normal in a healthy store (a fork, a slow disk, a lost packet). */
const AWAY_AFTER_MS = 1_000
/** Time between two time-outs counts up to this, or a call's bound if longer: a process that stood still has asked nothing meanwhile. */
const COUNTED_AT_MOST_MS = 250

/** The silence of one store, or of one of its servers. */
export class Silence {
  #lastedMs = 0
  /** When the latest call timed out; undefined: it was answered. */
  #latestMs: number | undefined

  /** A call had no answer, and none has had one since. */
  get isOn(): boolean {
    return this.#latestMs !== undefined
  }

  /** A call was answered in time. */
  end(): void {
    this.#lastedMs = 0
    this.#latestMs = undefined
  }

  /** A call had no answer for timeoutMs. Returns whether the store is away: never before the fifth in a row if timeoutMs is below 250. */
  goesOn(nowMs: number, timeoutMs: number): boolean {
    const askedMs = nowMs - timeoutMs
    const lastedMs = nowMs - (this.#latestMs ?? askedMs)
    this.#lastedMs += Math.min(lastedMs, Math.max(timeoutMs, COUNTED_AT_MOST_MS))
    this.#latestMs = nowMs
    return this.#lastedMs >= AWAY_AFTER_MS
  }
}
