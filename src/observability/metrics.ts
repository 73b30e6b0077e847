/** Counts what happens, in plain numbers, and renders it through prom-client's registry. */
import { version as nodeVersion } from 'node:process'
import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  AggregatorRegistry,
  collectDefaultMetrics,
  Registry,
  type Metric,
  type MetricObjectWithValues,
  type MetricValue,
} from 'prom-client'
import type { UnavailableReason } from '../credentials/verdicts.ts'
import type { QuotaObserver } from '../quota/observer.ts'
import { refusalKinds, type RefusalCode } from '../rules/refusals.ts'
import type { BackendFailureKind } from '../rules/backend-failure.ts'
import { createHistogramSeries, storeBounds } from './histogram-series.ts'
import {
  metricFamilies,
  workerFamilies,
  type Family,
  type MetricsState,
} from './metric-families.ts'
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
  readonly backendSeconds: number | undefined
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
  backendFailed(kind: BackendFailureKind): void
  readonly quota: QuotaObserver
  /** The key set of the token issuer was fetched, or could not be. */
  keySetFetched(isGood: boolean): void
  /** Nobody could tell whether a credential is valid. */
  credentialUnavailable(reason: UnavailableReason): void
  banned(): void
  strike(): void
  /** How many keys are banned now, as far as this process knows. */
  bannedKeys(count: number): void
  /** The page for a scrape. Rejects only if one of the Node.js collectors fails. */
  render(): Promise<MetricsPage>
  /** All values, for renderSnapshots in another process. Rejects as render does. */
  snapshot(): Promise<MetricsSnapshot>
}

export interface MetricsPage {
  readonly contentType: string
  readonly body: string
}

/** The values of one process at one moment; plain data. */
export type MetricsSnapshot = readonly MetricObjectWithValues<MetricValue<string>>[]

/** `version` is the gateway's own. `takenAtMs`: when the configuration was taken, Unix time. */
export function createMetrics(
  options: ConfigNames & {
    readonly version: string
    readonly takenAtMs?: number
    /** This process is one of several; the page of all says how many there are. */
    readonly isWorker?: boolean
  },
): Metrics {
  const { version, takenAtMs = Date.now(), isWorker = false, revision, ...names } = options
  const state = newState(version)
  const alone = isWorker ? [] : workerFamilies({ listening: () => 1, restarts: () => 0 })
  const registry = createRegistry([...metricFamilies(state), ...alone])
  state.requests.extend(names)
  Object.assign(state.config, { revision, takenAtMs })

  return {
    requestStarted: () => void state.inFlight++,
    requestDone(record) {
      state.inFlight--
      const route = state.requests.route(record.route)
      const plan = state.requests.plan(route, record.plan)
      countRequest(plan, record.method, record.status)
      route.gateway.observe(record.gatewaySeconds)
      if (record.backendSeconds !== undefined) route.backend.observe(record.backendSeconds)
      if (record.refusal !== undefined) state.refusals[record.refusal]++
      if (record.deprecated) plan.deprecated++
    },
    refusedUnparsed: (code) => void state.refusals[code]++,
    backendFailed: (kind) => void state.backendFailures[kind]++,
    quota: quotaObserver(state),
    keySetFetched(isGood) {
      if (isGood) state.keySet.fetchedAtMs = Date.now()
      else state.keySet.failures++
    },
    credentialUnavailable: (reason) => void state.unavailable[reason]++,
    banned: () => void state.bans++,
    strike: () => void state.strikes++,
    bannedKeys: (count) => void (state.bannedKeys = count),
    render: () => render(registry),
    snapshot: () => snapshot(registry),
  }
}

function createRegistry(families: readonly Family[]): Registry {
  const registry = new Registry()
  for (const family of families) registry.registerMetric(asMetric(family))
  // 20 ms shows a stalled event loop as well as 10 ms does, for half the wake-ups of an idle process.
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 20 })
  return registry
}

const render = async (registry: Registry): Promise<MetricsPage> => ({
  contentType: registry.contentType,
  body: await registry.metrics(),
})

/** The library leaves some of Node's values out, or averages them, where several processes meet: there the oldest start and the worst lag tell more. */
const betterAggregator: ReadonlyMap<string, string> = new Map([
  ['omit', 'min'],
  ['average', 'max'],
])

async function snapshot(registry: Registry): Promise<MetricsSnapshot> {
  const metrics = await registry.getMetricsAsJSON()
  return metrics.map((metric) => {
    const { aggregator } = metric
    return { ...metric, aggregator: betterAggregator.get(aggregator) ?? aggregator }
  }) as unknown as MetricsSnapshot
}

/** What a supervisor adds to the values of its workers: how many there are, and its own Node.js values. */
export function createSupervisorMetrics(workers: Parameters<typeof workerFamilies>[0]): {
  snapshot(): Promise<MetricsSnapshot>
} {
  const registry = createRegistry(workerFamilies(workers))
  return { snapshot: () => snapshot(registry) }
}

const merge = (snapshots: readonly MetricsSnapshot[]): Registry =>
  AggregatorRegistry.aggregate(snapshots.map((one) => [...one])) as Registry

/** Family by family, each in a turn of its own: all at once would hold up the answers that workers wait for. */
async function* mergedFamilies(snapshots: readonly MetricsSnapshot[]): AsyncGenerator<Registry> {
  const families = Map.groupBy(snapshots.flat(), ({ name }) => name)
  for (const values of families.values()) {
    await nextTurn()
    yield merge(values.map((one) => [one]))
  }
}

/** One page for several processes: counters and histograms are summed, gauges by their meaning. */
export async function renderSnapshots(snapshots: readonly MetricsSnapshot[]): Promise<MetricsPage> {
  const pages: string[] = []
  for await (const family of mergedFamilies(snapshots)) pages.push(await family.metrics())
  return { contentType: new Registry().contentType, body: pages.join('\n') }
}

/** Several as one, by the same rules. */
export async function sumSnapshots(
  snapshots: readonly MetricsSnapshot[],
): Promise<MetricsSnapshot> {
  const summed: MetricsSnapshot[number][] = []
  for await (const family of mergedFamilies(snapshots)) summed.push(...(await snapshot(family)))
  return summed
}

/** Without the gauges. */
export const countersOf = (all: MetricsSnapshot): MetricsSnapshot =>
  all.filter(({ type }) => ['counter', 'histogram'].includes(String(type)))

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
    backendFailures: zeros(
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
    keySet: { failures: 0, fetchedAtMs: undefined },
    unavailable: zeros('no_key_set', 'busy'),
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
function asMetric({ read, ...family }: Family): Metric {
  const get = () => Promise.resolve({ ...family, values: read() })
  return { ...family, get } as unknown as Metric
}
