/** Traffic of each backend and latency of the store over the last ten seconds. */
import { attemptBounds, storeBounds } from '../../core/backends/histogram-series.ts'
import type { Second } from './second.ts'
import { quantileMs, sums } from './seconds.ts'

const SECONDS = 10

/** Rates per second. p99Ms is null where there was no attempt. */
export interface Traffic {
  readonly requestsPerSecond: number
  readonly failuresPerSecond: number
  readonly p99Ms: number | null
}

export class Latest {
  /** Written by add. */
  #seconds: Pick<Second, 'at' | 'store' | 'backends'>[] = []

  add({ at, store, backends }: Second): void {
    this.#seconds = this.#seconds.filter((one) => one.at > at - SECONDS && one.at <= at)
    this.#seconds.push({ at, store, backends })
  }

  backend(name: string): Traffic {
    const own = this.#seconds.flatMap(({ backends }) => backends.filter((one) => one.name === name))
    const first = this.#seconds[0]?.at ?? 0
    const seconds = Math.max(1, (this.#seconds.at(-1)?.at ?? 0) - first + 1)
    const perSecond = (count: (of: (typeof own)[number]) => number): number =>
      Math.round((own.reduce((sum, one) => sum + count(one), 0) / seconds) * 10) / 10
    return {
      requestsPerSecond: perSecond(({ requests }) => requests),
      failuresPerSecond: perSecond(({ failures }) => failures),
      p99Ms: quantileMs(own.map(({ attempts }) => attempts).reduce(sums, []), attemptBounds, 0.99),
    }
  }

  get storeP99Ms(): number | null {
    return quantileMs(this.#seconds.map(({ store }) => store).reduce(sums, []), storeBounds, 0.99)
  }
}
