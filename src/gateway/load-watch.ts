/** Looks how late the event loop is, and knows what is to be refused for it. */
import { afterLook, LOOK_EVERY_MS, NO_LOAD, type Load, type Shed } from '../rules/overload.ts'

export interface LoadWatchOptions {
  /** server.overload.lag */
  readonly limitMs: number
  /** Told at each look. */
  onLook(lagMs: number): void
  onChange(load: Load): void
}

export class LoadWatch {
  limitMs: number
  readonly #timer: NodeJS.Timeout
  #load = NO_LOAD
  #lookedMs = performance.now()

  constructor({ limitMs, onLook, onChange }: LoadWatchOptions) {
    this.limitMs = limitMs
    this.#timer = setInterval(() => {
      const nowMs = performance.now()
      const before = this.#load
      this.#load = afterLook(before, nowMs - this.#lookedMs - LOOK_EVERY_MS, this.limitMs)
      this.#lookedMs = nowMs
      onLook(this.#load.lagMs)
      if (this.#load.shed !== before.shed) onChange(this.#load)
    }, LOOK_EVERY_MS).unref()
  }

  get shed(): Shed {
    return this.#load.shed
  }

  close(): void {
    clearInterval(this.#timer)
  }
}
