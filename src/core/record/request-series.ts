/** The per-request counters, pre-bound by route and plan: a request finds its slot with two Map look-ups and an index. */
import { windowNames, type WindowName } from '../../config/time.ts'
import { refusalKinds, type RefusalCode } from '../rules/refusals.ts'
import { sample, type Sample } from './family.ts'
import { HistogramSeries, backendBounds, gatewayBounds } from '../backends/histogram-series.ts'

const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'other'] as const
const otherMethod = methods.length - 1
const methodSlots = new Map<string, number>(methods.map((method, slot) => [method, slot]))

/** none: the connection ended before any status was sent. */
const statuses = ['none', '1xx', '2xx', '3xx', '4xx', '5xx'] as const

/** Labels for what no configured name covers. */
const UNMATCHED_ROUTE = 'unmatched'
const NO_PLAN = 'none'
const UNKNOWN_PLAN = 'other'

const codes = Object.keys(refusalKinds) as RefusalCode[]
/** The window whose limit refused the request, if one did. */
const windows = ['none', ...windowNames] as const
export type RefusedWindow = WindowName

export interface PlanSeries {
  /** Refusals by code and window; undefined before the first one. */
  refusals: Float64Array | undefined
  /** Requests by method and status class. */
  readonly requests: Float64Array
  deprecated: number
}

class RouteSeries {
  readonly gateway = new HistogramSeries(gatewayBounds)
  readonly backend = new HistogramSeries(backendBounds)
  readonly plans = new Map<string, PlanSeries>()
}

interface Names {
  readonly routes: readonly string[]
  readonly plans: readonly string[]
}

export class RequestSeries {
  routes: ReadonlyMap<string, RouteSeries> = new Map()
  readonly #unmatched = new RouteSeries()
  plans: ReadonlySet<string> = new Set()

  constructor(names: Names) {
    this.use(names)
  }

  /** Takes new names and drops the series of those that are gone, as names may come and go for ever. */
  use({ routes, plans }: Names): void {
    const named = routes.map((name) => [name, this.routes.get(name) ?? new RouteSeries()] as const)
    this.routes = new Map([...named, [UNMATCHED_ROUTE, this.#unmatched]])
    this.plans = new Set([NO_PLAN, UNKNOWN_PLAN, ...plans])
    for (const route of this.routes.values())
      for (const name of route.plans.keys()) if (!this.plans.has(name)) route.plans.delete(name)
  }

  route(name: string | undefined): RouteSeries {
    return name === undefined ? this.#unmatched : (this.routes.get(name) ?? this.#unmatched)
  }

  /** The series of what never became a request. */
  get unparsed(): PlanSeries {
    return this.plan(this.#unmatched, undefined)
  }

  plan(route: RouteSeries, name: string | undefined): PlanSeries {
    const label = name === undefined || name === '' ? NO_PLAN : name
    const known = route.plans.get(label)
    if (known !== undefined) return known
    // Only configured plans get a series of their own, so that no token claim can add one.
    const bounded = this.plans.has(label) ? label : UNKNOWN_PLAN
    let series = route.plans.get(bounded)
    if (series === undefined) route.plans.set(bounded, (series = newPlan()))
    return series
  }
}

/** Counts one request; status 0 means that none was sent. */
export function countRequest(series: PlanSeries, method: string, status: number): void {
  const methodSlot = methodSlots.get(method) ?? otherMethod
  const statusClass = Math.floor(status / 100)
  const statusSlot = statusClass >= 1 && statusClass < statuses.length ? statusClass : 0
  const slot = methodSlot * statuses.length + statusSlot
  series.requests[slot] = (series.requests[slot] ?? 0) + 1
}

/** Yields the counts above 0 with their labels. */
export function* readRequests(
  series: PlanSeries,
): Generator<{ method: string; status: string; count: number }> {
  for (const [methodSlot, method] of methods.entries()) {
    for (const [statusSlot, status] of statuses.entries()) {
      const count = series.requests[methodSlot * statuses.length + statusSlot] ?? 0
      if (count > 0) yield { method, status, count }
    }
  }
}

/** totals: counts over all plans. */
export function countRefusal(
  totals: Record<RefusalCode, number>,
  series: PlanSeries,
  code: RefusalCode,
  window: RefusedWindow | 'none' = 'none',
): void {
  totals[code]++
  const counts = (series.refusals ??= new Float64Array(codes.length * windows.length))
  const slot = codes.indexOf(code) * windows.length + windows.indexOf(window)
  counts[slot] = (counts[slot] ?? 0) + 1
}

/** Likely refusals are there from the start, at 0, so that the first one shows as an increase; others once there was one. */
export function readRefusals({ routes, plans }: RequestSeries): Sample[] {
  const byPlan = new Map<string, number[]>(Array.from(plans, (plan) => [plan, []]))
  for (const [plan, { refusals }] of [...routes.values()].flatMap((route) => [...route.plans])) {
    const sums = byPlan.get(plan)
    refusals?.forEach((count, slot) => sums && (sums[slot] = (sums[slot] ?? 0) + count))
  }
  return [...byPlan].flatMap(([plan, sums]) =>
    codes.flatMap((code, at) =>
      windows.flatMap((window, slot) => {
        const count = sums[at * windows.length + slot] ?? 0
        const isOfQuota = code === 'rate_limit_exceeded' && window !== 'none'
        const isLikely = plan === NO_PLAN ? window === 'none' : isOfQuota
        return count > 0 || isLikely ? [sample(count, { code, plan, window })] : []
      }),
    ),
  )
}

const newPlan = (): PlanSeries => ({
  refusals: undefined,
  requests: new Float64Array(methods.length * statuses.length),
  deprecated: 0,
})
