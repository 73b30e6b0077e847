/** One timer serves all waits of a kind: reading the time and arming a timer for each request would cost too much. */

/** The clock may be this far behind: deadlines add it so that no wait ends too early. */
export const clockTickMs = 50

/** A longer turn of the event loop counts only this much: answers may have arrived but not been read. */
const MOST_PER_TICK_MS = 4 * clockTickMs

export class CoarseClock {
  /** The time does not advance while the clock is stopped. */
  nowMs = 0
  readonly #onTick: (nowMs: number) => boolean
  #timer: NodeJS.Timeout | undefined
  #readMs = 0

  /** onTick: returns whether the clock is still needed. */
  constructor(onTick: (nowMs: number) => boolean) {
    this.#onTick = onTick
  }

  start(): void {
    if (this.#timer !== undefined) return
    this.#readMs = performance.now()
    this.#timer = setInterval(() => this.#tick(), clockTickMs).unref()
  }

  #tick(): void {
    const readMs = performance.now()
    this.nowMs += Math.min(readMs - this.#readMs, MOST_PER_TICK_MS)
    this.#readMs = readMs
    if (this.#onTick(this.nowMs)) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}
