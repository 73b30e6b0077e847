/**
 * Time for whatever runs in this process alone, without sockets and files: it stands still while anybody has something to
 * do, and leaps to who waits for the least then. Minutes pass at once, and in the same order on every machine.
 */
export class LeapingTime {
  #nowMs: number
  #waiting: { readonly atMs: number; readonly call: () => void }[] = []
  #isWatched = false

  constructor(startMs: number) {
    this.#nowMs = startMs
  }

  readonly now = (): number => this.#nowMs

  readonly after = (ms: number, call: () => void): (() => void) => {
    const waiter = { atMs: this.#nowMs + ms, call }
    // Behind those of the same moment.
    const at = this.#waiting.findIndex(({ atMs }) => atMs > waiter.atMs)
    this.#waiting.splice(at === -1 ? this.#waiting.length : at, 0, waiter)
    this.#watch()
    return () => void (this.#waiting = this.#waiting.filter((each) => each !== waiter))
  }

  /** Promises and streams go on before the next turn of the event loop; a few of these begin the next one. */
  #watch(): void {
    if (this.#isWatched) return
    this.#isWatched = true
    let turns = 0
    const turn = (): void => {
      if (++turns < 4) return void setImmediate(turn)
      this.#isWatched = false
      const [first] = this.#waiting.splice(0, 1)
      if (first === undefined) return
      this.#nowMs = Math.max(this.#nowMs, first.atMs)
      first.call()
      if (this.#waiting.length > 0) this.#watch()
    }
    setImmediate(turn)
  }
}
