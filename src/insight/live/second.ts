/** Activity of one process in one second, as differences of its counters. */
import type { Refused } from '../api/live.ts'
import { backendFailureKinds } from '../../core/rules/backend-failure.ts'
import type { HistogramSeries } from '../../core/backends/histogram-series.ts'
import type { Metrics } from '../../core/record/metrics.ts'
import type { Decision, RecentDecisions } from '../../core/record/recent.ts'
import { newRow, rowNumbers, type Tally, type TallyRow } from '../../core/record/tally.ts'
import type { DeprecatedCallers, DeprecatedCalls } from './deprecated-callers.ts'
import { sum } from '../format.js'
import { byCause, sums } from './seconds.ts'

/** Outcomes of requests to one backend; plain data. */
export interface BackendSecond {
  readonly name: string
  readonly requests: number
  readonly failures: number
  /** Histogram of attempt times: one count for each of attemptBounds, and one for longer ones. */
  readonly attempts: readonly number[]
}

export type ProcessNow = ReturnType<typeof processNow>

/** Current load of one process; plain data. */
export const processNow = ({ inFlight, connections, eventLoopLagMs }: Metrics) => ({
  inFlight: inFlight(),
  connections: connections(),
  loopLagMs: eventLoopLagMs(),
  rssBytes: process.memoryUsage.rss(),
})

/** One second of one process, or the sum of several; plain data. */
export interface Second {
  /** Beginning of the second: Unix time in seconds. */
  readonly at: number
  /** Requests that have ended. */
  readonly requests: number
  readonly refused: Refused
  /** Histograms of request times: one count for each of gatewayBounds or backendBounds, and one for longer ones. */
  readonly gateway: readonly number[]
  readonly backend: readonly number[]
  readonly inFlight: number
  /** Histogram of calls to the store: one count for each of storeBounds, and one for longer ones. */
  readonly store: readonly number[]
  /** Backends that were sent requests; a sum of several processes has one entry for each process. */
  readonly backends: readonly BackendSecond[]
  readonly rows: readonly TallyRow[]
  /** The latest decisions, at most 50 of each process. */
  readonly decisions: readonly Decision[]
  /** Calls of deprecated routes; undefined: none. */
  readonly deprecated?: DeprecatedCalls | undefined
}

/** Timers may fire a little early. */
const MARGIN_MS = 2

/** Starts a timer that follows the wall clock and keeps no process alive. onSecond: called with the latest second (Unix time) that has been over for lateMs; a busy process may be late and skip some. */
export function everySecond(onSecond: (second: number) => void, lateMs = 0): () => void {
  let timer: NodeJS.Timeout
  const wait = (): void => {
    const intoMs = (Date.now() - lateMs) % 1000
    timer = setTimeout(report, 1000 - intoMs + MARGIN_MS).unref()
  }
  const report = (): void => {
    onSecond(Math.floor((Date.now() - lateMs) / 1000) - 1)
    wait()
  }
  wait()
  return () => clearTimeout(timer)
}

/** Takes what happened since the last call. at: the second it is reported as. */
export function createSecondSampler(
  metrics: Metrics,
  tally: Pick<Tally, 'take'>,
  recent: Pick<RecentDecisions, 'take'>,
  deprecated: Pick<DeprecatedCallers, 'take'>,
): (at: number) => Second {
  const grown = createGrowth()
  const grownSeries = (all: readonly HistogramSeries[]): number[] =>
    all.map((series) => grown(series, series.counts)).reduce(sums, [])
  const refused = (counts: Refused): Refused => {
    const more = grown(counts, Object.values(counts))
    return byCause((cause) => more[Object.keys(counts).indexOf(cause)] ?? 0)
  }
  return (at) => {
    const { routes } = metrics.requests
    const gateway = grownSeries(routes.map((route) => route.gateway))
    return {
      at,
      requests: sum(gateway),
      refused: refused(metrics.requests.refused),
      gateway,
      backend: grownSeries(routes.map((route) => route.backend)),
      inFlight: metrics.inFlight(),
      store: grownSeries([metrics.storeSeconds]),
      backends: metrics.backends().flatMap(({ name, outcomes, attemptSeconds }) => {
        const failed = failedOutcomes.map((outcome) => outcomes[outcome])
        const counts = [sum(outcomes), sum(failed), ...attemptSeconds.counts]
        // The outcomes of a backend outlive a reload, unlike the backend itself.
        const [requests = 0, failures = 0, ...attempts] = grown(outcomes, counts)
        return requests === 0 ? [] : [{ name, requests, failures, attempts }]
      }),
      rows: tally.take(),
      decisions: recent.take(),
      deprecated: deprecated.take(),
    }
  }
}

const failedOutcomes = ['5xx', ...backendFailureKinds] as const

/** Returns how much the counts of a thing have grown since the last call for it; those of a new one count in full. */
function createGrowth() {
  const before = new WeakMap<object, ArrayLike<number>>()
  return (thing: object, counts: Float64Array | readonly number[]): number[] => {
    const last = before.get(thing)
    before.set(thing, counts.slice())
    return Array.from(counts, (count, slot) => count - (last?.[slot] ?? 0))
  }
}

/** A second as it is sent between processes: separate arrays of strings and numbers cost a tenth of objects. */
export type PackedSecond = ReturnType<typeof packSecond>

const TEXTS = 3

/** Numbers are written by index, so that no row allocates an array. */
export function packSecond({ rows, ...second }: Second) {
  const texts: string[] = []
  const numbers = new Float64Array(rows.length * rowNumbers.length)
  let at = 0
  for (const row of rows) {
    texts.push(row.client, row.key, row.plan)
    for (const name of rowNumbers) numbers[at++] = row[name]
  }
  return { ...second, texts, numbers }
}

export function unpackSecond({ texts, numbers, ...second }: PackedSecond): Second {
  const rows: TallyRow[] = []
  let at = 0
  for (let text = 0; text < texts.length; text += TEXTS) {
    const clientId = texts[text] ?? ''
    const keyId = texts[text + 1] ?? ''
    const row = newRow({ clientId, keyId, plan: texts[text + 2] ?? '' }, 0)
    for (const name of rowNumbers) row[name] = numbers[at++] ?? NaN
    rows.push(row)
  }
  return { ...second, rows }
}
