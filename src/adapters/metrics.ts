/** Counts what happens, in plain numbers, and renders it through prom-client's registry. */
import { version as nodeVersion } from 'node:process'
import { collectDefaultMetrics, Registry, type Metric } from 'prom-client'
import type { QuotaObserver } from '../quota/observer.ts'
import { refusalKinds, type RefusalCode } from '../refusals.ts'
import type { UpstreamFailureKind } from './forwarder.ts'
import { createHistogramSeries, storeBounds } from './histogram-series.ts'
import { metricFamilies, type Family, type MetricsState } from './metric-families.ts'
import { countRequest, createRequestSeries } from './request-series.ts'

export interface RequestRecord {
  /** Name of the configured route; undefined when none matched. */
  readonly route: string | undefined
  /** undefined or empty for a request without a valid credential. */
  readonly plan: string | undefined
  readonly method: string
  /** 0 when the connection ended before a status was sent. */
  readonly status: number
  /** Time spent in the gateway itself, without waiting for the backend. */
  readonly gatewaySeconds: number
  /** undefined when no backend was asked. */
  readonly upstreamSeconds: number | undefined
  readonly refusal: RefusalCode | undefined
  /** The route is deprecated. */
  readonly deprecated: boolean
}

/** The names that bound the labels; anything else is counted as unmatched or other. */
export interface ConfigNames {
  readonly revision: string
  readonly plans: readonly string[]
  readonly routes: readonly string[]
}

export interface Metrics {
  requestStarted(): void
  /** Once for every requestStarted. */
  requestDone(record: RequestRecord): void
  /** Something that never became a request was refused. */
  refusedUnparsed(code: RefusalCode): void
  upstreamFailed(kind: UpstreamFailureKind): void
  readonly quota: QuotaObserver
  banned(): void
  strike(): void
  /** How many keys are banned now, as far as this process knows. */
  bannedKeys(count: number): void
  /** The page for a scrape. Rejects only if one of the Node.js collectors fails. */
  render(): Promise<{ contentType: string; body: string }>
}

/** `version` is the gateway's own. */
export function createMetrics(options: ConfigNames & { readonly version: string }): Metrics {
  const state = newState(options.version)
  const registry = new Registry()
  for (const family of metricFamilies(state)) registry.registerMetric(asMetric(family))
  // 20 ms shows a stalled event loop as well as 10 ms does, for half the wake-ups of an idle process.
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 20 })

  const { revision, ...names } = options
  state.requests.extend(names)
  Object.assign(state.config, { revision, takenAtMs: Date.now() })

  return {
    requestStarted: () => void state.inFlight++,
    requestDone(record) {
      state.inFlight--
      const route = state.requests.route(record.route)
      const plan = state.requests.plan(route, record.plan)
      countRequest(plan, record.method, record.status)
      route.gateway.observe(record.gatewaySeconds)
      if (record.upstreamSeconds !== undefined) route.upstream.observe(record.upstreamSeconds)
      if (record.refusal !== undefined) state.refusals[record.refusal]++
      if (record.deprecated) plan.deprecated++
    },
    refusedUnparsed: (code) => void state.refusals[code]++,
    upstreamFailed: (kind) => void state.upstreamFailures[kind]++,
    quota: quotaObserver(state),
    banned: () => void state.bans++,
    strike: () => void state.strikes++,
    bannedKeys: (count) => void (state.bannedKeys = count),
    render: async () => ({ contentType: registry.contentType, body: await registry.metrics() }),
  }
}

function quotaObserver(state: MetricsState): QuotaObserver {
  return {
    decision: (window, outcome) => void state.decisions[window][outcome]++,
    storeCall(outcome, seconds) {
      state.storeCalls[outcome]++
      state.storeSeconds.observe(seconds)
    },
    outage(available) {
      state.storeUp = available ? 1 : 0
      if (!available) state.storeOutages++
    },
    degraded: (mode) => void state.degraded[mode]++,
  }
}

function newState(version: string): MetricsState {
  const outcomes = () => zeros('admitted', 'refused', 'unavailable')
  return {
    requests: createRequestSeries(),
    inFlight: 0,
    refusals: zeros(...(Object.keys(refusalKinds) as RefusalCode[])),
    upstreamFailures: zeros(
      'unreachable',
      'connect_timeout',
      'response_timeout',
      'broken',
      'body_too_large',
      'client_gone',
    ),
    decisions: { minute: outcomes(), day: outcomes(), none: outcomes() },
    storeCalls: zeros('ok', 'timeout', 'error'),
    storeSeconds: createHistogramSeries(storeBounds),
    storeUp: 1,
    storeOutages: 0,
    degraded: zeros('local', 'open', 'closed'),
    strikes: 0,
    bans: 0,
    bannedKeys: 0,
    config: { revision: '', takenAtMs: 0 },
    build: { version, node: nodeVersion },
  }
}

const zeros = <Name extends string>(...names: Name[]): Record<Name, number> =>
  Object.fromEntries(names.map((name) => [name, 0])) as Record<Name, number>

/**
 * prom-client asks a metric for nothing but its name and get() (its own AggregatorRegistry registers
 * such plain objects); its classes would hash the labels again on every request.
 */
function asMetric({ name, help, type, read }: Family): Metric {
  const get = () => Promise.resolve({ name, help, type, aggregator: 'sum', values: read() })
  return { name, help, type, aggregator: 'sum', get } as unknown as Metric
}
