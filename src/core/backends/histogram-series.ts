/** A histogram series in plain numbers: an observation costs a short scan and three additions. */

/** Bounds for the gateway's own time: 50 us to 250 ms. */
export const gatewayBounds = [
  0.00005, 0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
] as const

/** Bounds for the backend's time: 0.5 ms to 30 s. */
export const backendBounds = [
  0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30,
] as const

/** Bounds for one attempt at a backend, finer since quantiles are read from them: 0.5 ms to 30 s. */
export const attemptBounds = [
  0.0005, 0.001, 0.002, 0.003, 0.005, 0.0075, 0.01, 0.015, 0.025, 0.05, 0.075, 0.1, 0.15, 0.25, 0.5,
  1, 2.5, 5, 10, 30,
] as const

/** Bounds for calls to the store: 100 us to 1 s. */
export const storeBounds = [
  0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1,
] as const

export class HistogramSeries {
  /** Upper bounds in seconds, ascending; values above the last one count in +Inf only. */
  readonly bounds: readonly number[]
  /** Number of values in each interval between bounds; the last interval is above all bounds. Both are written by observe only. */
  readonly counts: Float64Array
  sumSeconds = 0

  constructor(bounds: readonly number[]) {
    this.bounds = bounds
    this.counts = new Float64Array(bounds.length + 1)
  }

  observe(seconds: number): void {
    // A clock that stepped back, or a missing time, must not corrupt the sum.
    const value = seconds > 0 && seconds < Infinity ? seconds : 0
    let slot = 0
    while (slot < this.bounds.length && value > (this.bounds[slot] ?? 0)) slot++
    this.counts[slot] = (this.counts[slot] ?? 0) + 1
    this.sumSeconds += value
  }
}
