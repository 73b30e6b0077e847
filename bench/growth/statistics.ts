/** What a handful of measurements say together. */
import { median } from '../markdown.ts'

export interface Spread {
  readonly median: number
  readonly min: number
  readonly max: number
}

export function spread(values: readonly number[]): Spread {
  return { median: median(values), min: Math.min(...values), max: Math.max(...values) }
}

/** q in 0..1 of values in ascending order; NaN for none. */
export function quantile(sorted: ArrayLike<number>, q: number): number {
  return sorted[Math.floor((sorted.length - 1) * q)] ?? NaN
}
