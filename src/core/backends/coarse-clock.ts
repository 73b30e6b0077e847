/** One timer for all waits of a kind: reading the time and arming a timer for each request costs more than the waits are worth. */

/** How far the clock may be behind: a wait is not over before this much more has passed. */
export const clockTickMs = 50

/** Of a turn of the event loop that took longer, no more is counted: its answers may be there, not yet read. */
const MOST_PER_TICK_MS = 4 * clockTickMs

export class CoarseClock {
  /** Stands still while the clock is stopped. */
  nowMs = 0
  readonly #onTick: (nowMs: number) => boolean
  #timer: NodeJS.Timeout | undefined
  #readMs = 0

  /** onTick: answers whether the clock is still needed. */
  constructor(onTick: (nowMs: number) => boolean) {
    this.#onTick = onTick
  }

  start(): void {
    if (this.#timer !== undefined) return
    this.#readMs = performance.now()
    this.#timer = setInterval(() => this.#tick(), clockTickMs)
    this.#timer.unref()
  }

  stop(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #tick(): void {
    const readMs = performance.now()
    this.nowMs += Math.min(readMs - this.#readMs, MOST_PER_TICK_MS)
    this.#readMs = readMs
    if (!this.#onTick(this.nowMs)) this.stop()
  }
}
