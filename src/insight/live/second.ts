/** Activity of one process in one second, as differences of its counters. */
import type { Refused } from '../api/live.ts'
import { backendFailureKinds } from '../../core/rules/backend-failure.ts'
import type { HistogramSeries } from '../../core/backends/histogram-series.ts'
import type { LiveCounters } from '../../core/record/metrics.ts'
import type { DeprecatedCalls } from '../../core/record/deprecated-callers.ts'
import type { ShadowSecond } from '../../core/record/shadow-counts.ts'
import type { Tally, TallyRow } from '../../core/record/tally.ts'

/** Outcomes of requests to one backend; plain data. */
export interface BackendSecond {
  readonly name: string
  readonly requests: number
  readonly failures: number
  /** Histogram of attempt times: one count for each of attemptBounds, and one for longer ones. */
  readonly attempts: readonly number[]
}

/** Current load of one process; plain data. */
export interface ProcessNow {
  readonly pid: number
  readonly inFlight: number
  readonly connections: number
  readonly loopLagMs: number
  readonly rssBytes: number
}

export function processNow(metrics: { live(): LiveCounters }): ProcessNow {
  const { inFlight, connections, eventLoopLagMs: loopLagMs } = metrics.live()
  return { pid: process.pid, inFlight, connections, loopLagMs, rssBytes: process.memoryUsage.rss() }
}

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
  /** Calls of deprecated routes; undefined: none. */
  readonly deprecated?: DeprecatedCalls | undefined
  /** Verdicts of shadow limits; undefined: nothing was judged. */
  readonly shadow?: readonly ShadowSecond[] | undefined
}

/** Takes what happened since the last call. at: the second it is reported as. */
export function createSecondSampler(
  metrics: { live(): LiveCounters },
  tally: Pick<Tally, 'take' | 'deprecated' | 'shadow'>,
): (at: number) => Second {
  const gatewayBefore = new WeakMap<HistogramSeries, Float64Array>()
  const backendBefore = new WeakMap<HistogramSeries, Float64Array>()
  const storeBefore = new WeakMap<HistogramSeries, Float64Array>()
  const backendsBefore = new WeakMap<object, BackendCounts>()
  let refusedBefore = refusedOf(metrics.live())
  return (at) => {
    const now = metrics.live()
    const gateway = difference(now.gateway, gatewayBefore)
    const refusedNow = refusedOf(now)
    const refused = less(refusedNow, refusedBefore)
    // A quota decision is counted before its refusal, so `other` may drop for a second; its return is no refusal.
    refusedBefore = { ...refusedNow, other: refusedBefore.other + refused.other }
    return {
      at,
      requests: gateway.reduce((sum, count) => sum + count, 0),
      refused,
      gateway,
      backend: difference(now.backend, backendBefore),
      inFlight: now.inFlight,
      store: difference([now.storeSeconds], storeBefore),
      backends: now.backends.flatMap((backend) => backendSecond(backend, backendsBefore)),
      rows: tally.take(),
      deprecated: tally.deprecated.take(),
      shadow: tally.shadow.take(),
    }
  }
}

interface BackendCounts {
  readonly requests: number
  readonly failures: number
  readonly attempts: Float64Array
}

/** Difference since the last call; empty if the backend was sent nothing. Writes `before`, keyed by outcomes, which outlive a reload. */
function backendSecond(
  { name, outcomes, attemptSeconds }: LiveCounters['backends'][number],
  before: WeakMap<object, BackendCounts>,
): BackendSecond[] {
  const requests = Object.values(outcomes).reduce((sum, count) => sum + count, 0)
  const failures = failedOutcomes.reduce((sum, outcome) => sum + outcomes[outcome], 0)
  const last = before.get(outcomes)
  const { counts } = attemptSeconds
  before.set(outcomes, { requests, failures, attempts: counts.slice() })
  if (requests === (last?.requests ?? 0)) return []
  const attempts = Array.from(counts, (count, slot) => count - (last?.attempts[slot] ?? 0))
  return [
    {
      name,
      requests: requests - (last?.requests ?? 0),
      failures: failures - (last?.failures ?? 0),
      attempts,
    },
  ]
}

const failedOutcomes = ['5xx', ...backendFailureKinds] as const

function refusedOf({ refusals, decisions }: LiveCounters): Refused {
  const [minute, day, ban] = [
    decisions.minute.refused,
    decisions.day.refused,
    refusals.api_key_banned,
  ]
  const all = Object.values(refusals).reduce((sum, count) => sum + count, 0)
  return { minute, day, ban, other: all - minute - day - ban }
}

const less = (now: Refused, before: Refused): Refused => ({
  minute: now.minute - before.minute,
  day: now.day - before.day,
  ban: now.ban - before.ban,
  other: Math.max(0, now.other - before.other),
})

/** Difference since the last call with the same `before`, which this writes; a new series counts in full. */
function difference(
  series: Iterable<HistogramSeries>,
  before: WeakMap<HistogramSeries, Float64Array>,
): number[] {
  const sum: number[] = []
  for (const one of series) {
    const last = before.get(one)
    for (const [slot, count] of one.counts.entries())
      sum[slot] = (sum[slot] ?? 0) + count - (last?.[slot] ?? 0)
    before.set(one, one.counts.slice())
  }
  return sum
}
