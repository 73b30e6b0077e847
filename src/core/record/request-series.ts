/** The per-request metrics, pre-bound by route and plan: a request finds its slot with two Map look-ups and an index. */
import { windowNames, type WindowName } from '../../config/time.ts'
import { backendBounds, gatewayBounds, HistogramSeries } from '../backends/histogram-series.ts'
import type { Exchange } from '../pipeline/exchange.ts'
import { refusalKinds, type RefusalCode } from '../rules/refusals.ts'
import type { RequestTimes } from './access-record.ts'
import { sample, zeros, type MetricRegistry, type Sample } from './metric-registry.ts'

/** The names allowed as labels; anything else is counted as unmatched or other. */
export interface ConfigNames {
  readonly plans: readonly string[]
  readonly routes: readonly string[]
}

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

class PlanSeries {
  /** Refusals by code and window; undefined before the first one. */
  refusals: Float64Array | undefined
  /** Requests by method and status class. */
  readonly requests = new Float64Array(methods.length * statuses.length)
  deprecated = 0
}

class RouteSeries {
  readonly gateway = new HistogramSeries(gatewayBounds)
  readonly backend = new HistogramSeries(backendBounds)
  readonly plans = new Map<string, PlanSeries>()
}

export class RequestSeries {
  /** Refusals of all routes and plans, by cause. */
  readonly refused = zeros([...windowNames, 'ban', 'other'])
  #routes: ReadonlyMap<string, RouteSeries> = new Map()
  readonly #unmatched = new RouteSeries()
  #plans: ReadonlySet<string> = new Set()
  /** What limits that are only tried said of requests, by plan. */
  readonly #shadow = new Map<string, Record<WindowName | 'unjudged', number>>()

  constructor(registry: MetricRegistry, names: ConfigNames) {
    this.use(names)
    registry.counter('tollgate_requests_total', 'Requests, by the answer they got.', () =>
      this.#series().flatMap(([labels, { requests }]) =>
        Array.from(requests).flatMap((count, slot) => {
          const method = methods[Math.floor(slot / statuses.length)] ?? ''
          const status = statuses[slot % statuses.length] ?? ''
          return count > 0 ? [sample(count, { ...labels, method, status })] : []
        }),
      ),
    )
    registry.counter('tollgate_deprecated_requests_total', 'Requests to deprecated routes.', () =>
      this.#series().flatMap(([labels, { deprecated }]) =>
        deprecated > 0 ? [sample(deprecated, labels)] : [],
      ),
    )
    registry.histogram(
      'tollgate_request_duration_seconds',
      "The gateway's own time per request.",
      () => Array.from(this.#routes, ([route, { gateway }]) => [{ route }, gateway]),
    )
    registry.histogram('tollgate_backend_duration_seconds', "The backends' time per request.", () =>
      Array.from(this.#routes, ([route, { backend }]) => [{ route }, backend]),
    )
    registry.counter('tollgate_refusals_total', 'Requests the gateway answered itself.', () =>
      this.#readRefusals(),
    )
    registry.counter(
      'tollgate_shadow_refusals_total',
      'Requests that limits which are only tried would have refused.',
      () =>
        [...this.#shadow].flatMap(([plan, counts]) =>
          windowNames.map((window) => sample(counts[window], { plan, window })),
        ),
    )
    registry.counter(
      'tollgate_shadow_unjudged_total',
      'Requests of which limits that are only tried cannot say whether they would have refused them.',
      () => Array.from(this.#shadow, ([plan, { unjudged }]) => sample(unjudged, { plan })),
    )
  }

  /** Takes new names and drops the series of those that are gone, as names may come and go for ever. */
  use({ routes, plans }: ConfigNames): void {
    const named = routes.map((name) => [name, this.#routes.get(name) ?? new RouteSeries()] as const)
    this.#routes = new Map([...named, [UNMATCHED_ROUTE, this.#unmatched]])
    this.#plans = new Set([NO_PLAN, UNKNOWN_PLAN, ...plans])
    for (const byPlan of [this.#shadow, ...this.routes.map(({ plans }) => plans)])
      for (const name of byPlan.keys()) if (!this.#plans.has(name)) byPlan.delete(name)
  }

  get routes(): readonly RouteSeries[] {
    return [...this.#routes.values()]
  }

  /** one: a finished request. */
  done(one: Exchange, { gatewayMs, backendMs }: RequestTimes): void {
    const { status, refusal } = one
    const route = this.#routes.get(one.route?.name ?? UNMATCHED_ROUTE) ?? this.#unmatched
    const plan = this.#plan(route, one.caller?.plan)
    const statusClass = Math.floor(status / 100)
    const statusSlot = statusClass >= 1 && statusClass < statuses.length ? statusClass : 0
    const methodSlot = methodSlots.get(one.request.method ?? '') ?? otherMethod
    const slot = methodSlot * statuses.length + statusSlot
    plan.requests[slot] = (plan.requests[slot] ?? 0) + 1
    route.gateway.observe(gatewayMs / 1000)
    // The lifetime of a tunnel is no answer time.
    if (backendMs !== undefined && status !== 101) route.backend.observe(backendMs / 1000)
    if (refusal !== undefined) this.#countRefusal(plan, refusal.code, refusal.window ?? 'none')
    if (one.route?.deprecated === true) plan.deprecated++
  }

  /** Counts the refusal of something that never became a request. */
  refusedUnparsed(code: RefusalCode): void {
    this.#countRefusal(this.#plan(this.#unmatched, undefined), code, 'none')
  }

  /** Counts a request that shadow limits would have refused, or could not judge. */
  shadowRefused(plan: string, reason: WindowName | 'unjudged'): void {
    const label = this.#plans.has(plan) ? plan : UNKNOWN_PLAN
    const counts = this.#shadow.get(label) ?? zeros([...windowNames, 'unjudged'])
    counts[reason]++
    this.#shadow.set(label, counts)
  }

  #plan(route: RouteSeries, name: string | undefined): PlanSeries {
    const label = name === undefined || name === '' ? NO_PLAN : name
    const known = route.plans.get(label)
    if (known !== undefined) return known
    // Only configured plans get a series of their own, so that no token claim can add one.
    const bounded = this.#plans.has(label) ? label : UNKNOWN_PLAN
    let series = route.plans.get(bounded)
    if (series === undefined) route.plans.set(bounded, (series = new PlanSeries()))
    return series
  }

  #countRefusal(series: PlanSeries, code: RefusalCode, window: WindowName | 'none'): void {
    const cause = window !== 'none' ? window : code === 'api_key_banned' ? 'ban' : 'other'
    this.refused[cause]++
    const counts = (series.refusals ??= new Float64Array(codes.length * windows.length))
    const slot = codes.indexOf(code) * windows.length + windows.indexOf(window)
    counts[slot] = (counts[slot] ?? 0) + 1
  }

  #series() {
    return [...this.#routes].flatMap(([route, { plans }]) =>
      Array.from(plans, ([plan, series]) => [{ route, plan }, series] as const),
    )
  }

  /** Likely refusals are there from the start, at 0, so that the first one shows as an increase; others once there was one. */
  #readRefusals(): Sample[] {
    const byPlan = new Map<string, number[]>(Array.from(this.#plans, (plan) => [plan, []]))
    for (const [{ plan }, { refusals }] of this.#series()) {
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
}
