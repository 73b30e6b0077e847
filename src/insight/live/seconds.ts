/** The latest 15 minutes of this gateway, second by second, summed over its processes. Time is an argument. */
import type { Latency, Refused, Tick } from '../api/live.ts'
import {
  attemptBounds,
  backendBounds,
  gatewayBounds,
  storeBounds,
} from '../../core/backends/histogram-series.ts'
import { perWindow } from '../../config/time.ts'
import { sum } from '../format.js'
import type { BackendSecond, Second } from './second.ts'

const KEPT_SECONDS = 900
/** Seconds over which latencies and the traffic of backends are measured. */
const MEASURED_SECONDS = 10
/** Measurements are forgotten when the clock goes back further than this. */
export const BACK_SECONDS = 2

type MeasuredSecond = Omit<Tick, 'untold'>

export class Seconds {
  /** Figures of the last second that is over; undefined before the first. Written by close, as are all fields below. */
  latest: MeasuredSecond | undefined
  #closed = -Infinity
  /** Sums of seconds that are not over, by their beginning. Written by add, too. */
  readonly #open = new Map<number, Second>()
  /** The latest KEPT_SECONDS with reports by their beginning, oldest first. */
  readonly #kept = new Map<number, MeasuredSecond>()
  /** The last MEASURED_SECONDS. */
  #recent: Omit<Second, 'rows' | 'decisions'>[] = []

  /** A report that comes too late counts in the next second. */
  add(second: Second): void {
    const at = Math.max(second.at, this.#closed + 1)
    const open = this.#open.get(at)
    this.#open.set(at, open === undefined ? { ...second, at } : plus(open, second))
  }

  /** Ends all seconds up to this one, and returns those with reports. */
  close(upTo: number): Second[] {
    if (upTo < this.#closed - BACK_SECONDS) this.#forget(upTo)
    const due = [...this.#open.values()].filter(({ at }) => at <= upTo)
    due.sort((one, other) => one.at - other.at)
    for (const second of due) {
      this.#open.delete(second.at)
      this.#keep(second)
    }
    this.#closed = Math.max(this.#closed, upTo)
    return due
  }

  /** Ticks as columns, with one value a second from `from` on up to the second that was closed last; null: not measured. now: Unix time in seconds. */
  columns(now: number) {
    const [first = Infinity] = this.#kept.keys()
    const from = Math.max(first, this.#closed - KEPT_SECONDS + 1)
    const length = Number.isFinite(from) ? Math.max(0, this.#closed - from + 1) : 0
    const column = (read: (measured: MeasuredSecond) => number | null): (number | null)[] =>
      Array.from({ length }, (_, at) => {
        const kept = this.#kept.get(from + at)
        return kept === undefined ? null : read(kept)
      })
    const latency = (of: 'gatewayMs' | 'backendMs') => ({
      p50: column((measured) => measured[of].p50),
      p99: column((measured) => measured[of].p99),
    })
    return {
      from: isoSecond(length === 0 ? now : from),
      requests: column(({ requests }) => requests),
      refused: byCause((cause) => column(({ refused }) => refused[cause])),
      gatewayMs: latency('gatewayMs'),
      backendMs: latency('backendMs'),
    }
  }

  /** Traffic of a backend: rates per second. p99Ms is null where there was no attempt. */
  backend(name: string) {
    const own = this.#recent.flatMap(({ backends }) => backends.filter((one) => one.name === name))
    const [first, last] = [this.#recent[0], this.#recent.at(-1)]
    const seconds = first === undefined || last === undefined ? 1 : last.at - first.at + 1
    const attempts = own.map((one) => one.attempts)
    const perSecond = (count: (of: BackendSecond) => number): number =>
      Math.round((own.reduce((sum, one) => sum + count(one), 0) / seconds) * 10) / 10
    return {
      requestsPerSecond: perSecond(({ requests }) => requests),
      failuresPerSecond: perSecond(({ failures }) => failures),
      p99Ms: quantileMs(attempts, attemptBounds, 0.99),
    }
  }

  get storeP99Ms(): number | null {
    const calls = this.#recent.map(({ store }) => store)
    return quantileMs(calls, storeBounds, 0.99)
  }

  #keep(second: Second): void {
    const { at, requests, refused, inFlight } = second
    const { rows: _, decisions: __, ...measured } = second
    this.#recent = [...this.#recent.filter((one) => one.at > at - MEASURED_SECONDS), measured]
    const gatewayMs = this.#latency('gateway', gatewayBounds)
    const backendMs = this.#latency('backend', backendBounds)
    this.latest = { at: isoSecond(at), requests, refused, gatewayMs, backendMs, inFlight }
    this.#kept.set(at, this.latest)
    const [oldest = at] = this.#kept.keys()
    if (this.#kept.size > KEPT_SECONDS) this.#kept.delete(oldest)
  }

  #latency(of: 'gateway' | 'backend', bounds: readonly number[]): Latency {
    const counts = this.#recent.map((one) => one[of])
    return { p50: quantileMs(counts, bounds, 0.5), p99: quantileMs(counts, bounds, 0.99) }
  }

  #forget(upTo: number): void {
    this.#closed = -Infinity
    this.#kept.clear()
    this.#recent = []
    const open = [...this.#open.values()]
    this.#open.clear()
    for (const second of open) this.add({ ...second, at: upTo })
  }
}

const isoSecond = (at: number): string => new Date(at * 1000).toISOString()

export const sums = (one: readonly number[], other: readonly number[]): number[] =>
  Array.from(
    { length: Math.max(one.length, other.length) },
    (_, at) => (one[at] ?? 0) + (other[at] ?? 0),
  )

export const byCause = <Value>(valueOf: (cause: keyof Refused) => Value) => ({
  ...perWindow(({ name }) => valueOf(name)),
  ban: valueOf('ban'),
  other: valueOf('other'),
})

const plus = (one: Second, other: Second): Second => ({
  at: one.at,
  requests: one.requests + other.requests,
  refused: byCause((cause) => one.refused[cause] + other.refused[cause]),
  gateway: sums(one.gateway, other.gateway),
  backend: sums(one.backend, other.backend),
  inFlight: one.inFlight + other.inFlight,
  store: sums(one.store, other.store),
  backends: [...one.backends, ...other.backends],
  rows: [...one.rows, ...other.rows],
  decisions: [...one.decisions, ...other.decisions],
})

/** Quantile of the sum of histograms in ms, with two digits; null: it is empty. Values count as spread evenly within a bucket, and as the last bound beyond it. */
export function quantileMs(
  histograms: readonly (readonly number[])[],
  bounds: readonly number[],
  share: number,
): number | null {
  const counts = histograms.reduce(sums, [])
  const all = sum(counts)
  if (all === 0) return null
  let left = share * all
  for (const [slot, count] of counts.entries()) {
    const from = bounds[slot - 1] ?? 0
    const to = bounds[slot] ?? from
    if (left <= count && count > 0) return twoDigits((from + ((to - from) * left) / count) * 1000)
    left -= count
  }
  return twoDigits((bounds.at(-1) ?? 0) * 1000)
}

const twoDigits = (value: number): number => Number(value.toPrecision(2))
