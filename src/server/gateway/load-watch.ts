/** Measures how late the event loop is, and decides what is refused for it. */
import {
  afterLook,
  LOOK_EVERY_MS,
  NO_LOAD,
  type Load,
  type Look,
  type Shed,
} from '../../core/rules/overload.ts'

export interface LoadWatchOptions {
  /** server.overload.lag */
  readonly limitMs: number
  /** Called at each look. */
  onLook(lagMs: number): void
  onChange(load: Load): void
}

export class LoadWatch {
  limitMs: number
  /** All arrivals so far. Whoever counts them writes this field. */
  arrivals: Omit<Look, 'lateMs'> = { keyed: 0, others: 0 }
  #counted = this.arrivals
  readonly #timer: NodeJS.Timeout
  #load = NO_LOAD
  #lookedMs = performance.now()

  constructor({ limitMs, onLook, onChange }: LoadWatchOptions) {
    this.limitMs = limitMs
    this.#timer = setInterval(() => {
      const nowMs = performance.now()
      const before = this.#load
      const { keyed, others } = this.arrivals
      const look = {
        lateMs: nowMs - this.#lookedMs - LOOK_EVERY_MS,
        keyed: keyed - this.#counted.keyed,
        others: others - this.#counted.others,
      }
      this.#load = afterLook(before, look, this.limitMs)
      this.#lookedMs = nowMs
      this.#counted = { keyed, others }
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
