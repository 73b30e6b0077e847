/** When this process decides: no two moments are the same, so that a log tells what came before what. */

const MOST_IN_A_MS = 999

export class Moments {
  readonly #epochMs: () => number
  #ms = 0
  /** Moments of #ms before the latest one. */
  #before = 0

  /** Unix time in ms. */
  constructor(epochMs: () => number = Date.now) {
    this.#epochMs = epochMs
  }

  /** Unix time in ms; digits behind the point: how many moments of that ms came before, in thousandths. */
  next(): number {
    const ms = this.#epochMs()
    this.#before = ms === this.#ms ? Math.min(this.#before + 1, MOST_IN_A_MS) : 0
    this.#ms = ms
    return ms + this.#before / 1000
  }
}
