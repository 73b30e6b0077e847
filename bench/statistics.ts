/** What several measurements of one thing say together. */

export const sum = (values: readonly number[]): number =>
  values.reduce((total, value) => total + value, 0)

/** The value below which a share `q` of the others lies, interpolated; NaN for none. */
export function quantile(values: Iterable<number>, q: number): number {
  const sorted = Float64Array.from(values).sort()
  const at = (sorted.length - 1) * q
  const [below = NaN, above = below] = [sorted[Math.floor(at)], sorted[Math.ceil(at)]]
  return below + (above - below) * (at - Math.floor(at))
}

export const median = (values: Iterable<number>): number => quantile(values, 0.5)

/** A busy machine only adds to what a request costs: the lower quartile is nearest to the cost itself. */
export const lowerQuartile = (values: Iterable<number>): number => quantile(values, 0.25)
