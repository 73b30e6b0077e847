/** Counts decisions over the time of the log, in steps of a minute, or in longer ones if there were too many. */
import { MINUTE_MS } from '../../config/time.ts'
import type { Decided } from './policy.ts'
import type { ReplayReport } from './report.ts'

const MOST_STEPS = 2_000

export class OverTime {
  #fromMs: number | undefined
  #stepMs = MINUTE_MS
  #steps = 0
  readonly #now = columns()
  readonly #before = columns()

  add(atMs: number, decided: Decided, before: Decided | undefined): void {
    this.#fromMs ??= Math.floor(atMs / MINUTE_MS) * MINUTE_MS
    let step = Math.max(0, Math.floor((atMs - this.#fromMs) / this.#stepMs))
    while (step >= MOST_STEPS) {
      this.#widen()
      step = Math.floor(step / 2)
    }
    this.#steps = Math.max(this.#steps, step + 1)
    const now = this.#now[decided]
    now[step] = (now[step] ?? 0) + 1
    if (before === undefined) return
    const earlier = this.#before[before]
    earlier[step] = (earlier[step] ?? 0) + 1
  }

  report(hasBefore: boolean): ReplayReport['overTime'] {
    const shown = (column: Float64Array) => [...column.subarray(0, this.#steps)]
    const refused = ({ minute, day, ban }: Columns) => ({
      minute: shown(minute),
      day: shown(day),
      ban: shown(ban),
    })
    return {
      from: this.#fromMs === undefined ? null : new Date(this.#fromMs).toISOString(),
      stepSeconds: this.#stepMs / 1000,
      admitted: shown(this.#now.admitted),
      ...refused(this.#now),
      ...(hasBefore && { before: refused(this.#before) }),
    }
  }

  #widen(): void {
    for (const column of [...Object.values(this.#now), ...Object.values(this.#before)])
      for (let step = 0; step < MOST_STEPS; step++)
        column[step] =
          step < MOST_STEPS / 2 ? (column[2 * step] ?? 0) + (column[2 * step + 1] ?? 0) : 0
    this.#stepMs *= 2
    this.#steps = Math.ceil(this.#steps / 2)
  }
}

type Columns = Record<Decided, Float64Array>

const columns = (): Columns => {
  const column = (): Float64Array => new Float64Array(MOST_STEPS)
  return { admitted: column(), minute: column(), day: column(), ban: column(), free: column() }
}
