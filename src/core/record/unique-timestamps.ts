/** Gives the decisions of this process timestamps of which no two are the same, so that a log shows their order. */

const MOST_IN_A_MS = 999

export class UniqueTimestamps {
  readonly #epochMs: () => number
  #ms = 0
  /** How many timestamps of #ms were given before the latest one. */
  #before = 0

  /** epochMs: returns Unix time in ms. */
  constructor(epochMs: () => number = Date.now) {
    this.#epochMs = epochMs
  }

  /** Returns Unix time in ms; its fraction counts, in thousandths, the timestamps given earlier in the same ms. */
  next(): number {
    const ms = this.#epochMs()
    this.#before = ms === this.#ms ? Math.min(this.#before + 1, MOST_IN_A_MS) : 0
    this.#ms = ms
    return ms + this.#before / 1000
  }
}
