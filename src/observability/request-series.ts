/** The per-request counters, pre-bound by route and plan: a request finds its slot with two Map look-ups and an index. */
import { HistogramSeries, backendBounds, gatewayBounds } from './histogram-series.ts'

const methods = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'other'] as const
const otherMethod = methods.length - 1
const methodSlots = new Map<string, number>(methods.map((method, slot) => [method, slot]))

/** none: the connection ended before any status was sent. */
const statuses = ['none', '1xx', '2xx', '3xx', '4xx', '5xx'] as const

/** Labels for what no configured name covers. */
const UNMATCHED_ROUTE = 'unmatched'
const NO_PLAN = 'none'
const UNKNOWN_PLAN = 'other'

export interface PlanSeries {
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
  #plans: ReadonlySet<string> = new Set()

  constructor(names: Names) {
    this.use(names)
  }

  /** What has no name any more is counted no more: names may come and go for ever. */
  use({ routes, plans }: Names): void {
    const named = routes.map((name) => [name, this.routes.get(name) ?? new RouteSeries()] as const)
    this.routes = new Map([...named, [UNMATCHED_ROUTE, this.#unmatched]])
    this.#plans = new Set([NO_PLAN, UNKNOWN_PLAN, ...plans])
    for (const route of this.routes.values())
      for (const name of route.plans.keys()) if (!this.#plans.has(name)) route.plans.delete(name)
  }

  route(name: string | undefined): RouteSeries {
    return name === undefined ? this.#unmatched : (this.routes.get(name) ?? this.#unmatched)
  }

  plan(route: RouteSeries, name: string | undefined): PlanSeries {
    const label = name === undefined || name === '' ? NO_PLAN : name
    const known = route.plans.get(label)
    if (known !== undefined) return known
    // Only configured plans get a series of their own, so that no token claim can add one.
    const bounded = this.#plans.has(label) ? label : UNKNOWN_PLAN
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

/** The slots that were ever used, with their labels. */
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

const newPlan = (): PlanSeries => ({
  requests: new Float64Array(methods.length * statuses.length),
  deprecated: 0,
})
