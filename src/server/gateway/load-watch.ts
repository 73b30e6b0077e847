/** Measures how late the event loop is, and decides what is refused for it. */
import type { Log } from '../../core/record/log.ts'
import type { Metrics } from '../../core/record/metrics.ts'
import {
  afterLook,
  LOOK_EVERY_MS,
  NO_LOAD,
  type Look,
  type Shed,
} from '../../core/rules/overload.ts'

export class LoadWatch {
  /** server.overload.lag */
  limitMs: number
  /** All arrivals so far. Whoever counts them writes this field. */
  arrivals: Omit<Look, 'lateMs'> = { keyed: 0, others: 0 }
  #counted = this.arrivals
  readonly #timer: NodeJS.Timeout
  #load = NO_LOAD
  #lookedMs = performance.now()

  constructor(limitMs: number, { log, metrics }: { log: Log; metrics: Metrics }) {
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
      const { shed, lagMs } = this.#load
      metrics.eventLoopLag(lagMs)
      if (shed !== before.shed) log.shedding({ refused: shed, lagMs: Math.round(lagMs) })
    }, LOOK_EVERY_MS).unref()
  }

  get shed(): Shed {
    return this.#load.shed
  }

  close(): void {
    clearInterval(this.#timer)
  }
}
