/** Counts events in plain numbers and renders them through prom-client's registry. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  AggregatorRegistry,
  collectDefaultMetrics,
  Registry,
  type Metric,
  type MetricObjectWithValues,
  type MetricValue,
} from 'prom-client'
import type { Http2Abuse } from '../rules/http2-abuse.ts'
import type { UnavailableReason } from '../credentials/verdicts.ts'
import type { ConnectionBound, ConnectionRefusal } from '../http/connection-limits.ts'
import type { HandshakeFault } from '../http/tls-server.ts'
import type { RefusalCode } from '../rules/refusals.ts'
import type { BackendFailureKind } from '../rules/backend-failure.ts'
import type { TunnelEnd } from '../rules/websocket.ts'
import type { BackendsView } from './backend-families.ts'
import type { Family } from './family.ts'
import { liveCounters } from './live-counters.ts'
import { metricFamilies, newState, type ConfigNames } from './metric-families.ts'
import { quotaObserver } from './quota-observer.ts'
import { countRefusal, countRequest, type RefusedWindow } from './request-series.ts'
import { lossFamilies, type Losses, wholeFamilies, type WholeGateway } from './whole-families.ts'

export type { ConfigNames }

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
  /** The window whose limit refused the request; undefined: it was refused for another reason, if at all. */
  readonly refusedWindow?: RefusedWindow | undefined
  /** The route is deprecated. */
  readonly deprecated: boolean
}

export type Metrics = ReturnType<typeof createMetrics>

export interface MetricsPage {
  readonly contentType: string
  readonly body: string
}

/** The values of one process at one moment; plain data. */
export type MetricsSnapshot = readonly MetricObjectWithValues<MetricValue<string>>[]

/** version: of the gateway. */
export function createMetrics(
  options: ConfigNames & {
    readonly version: string
    /** undefined: this process is one of several, and the page of all has the figures of the whole gateway. */
    readonly whole?: WholeGateway
  },
) {
  const { version, whole } = options
  const state = newState(options, version)
  const registry = createRegistry([
    ...metricFamilies(state),
    ...(whole === undefined ? [] : wholeFamilies(whole)),
  ])
  return {
    requestStarted: () => void state.inFlight++,
    /** Called once for every requestStarted. */
    requestDone(record: RequestRecord): void {
      state.inFlight--
      const route = state.requests.route(record.route)
      const plan = state.requests.plan(route, record.plan)
      countRequest(plan, record.method, record.status)
      route.gateway.observe(record.gatewaySeconds)
      if (record.backendSeconds !== undefined) route.backend.observe(record.backendSeconds)
      if (record.refusal !== undefined)
        countRefusal(state.refusals, plan, record.refusal, record.refusedWindow)
      if (record.deprecated) plan.deprecated++
    },
    /** Counts the refusal of something that never became a request. */
    refusedUnparsed: (code: RefusalCode) =>
      countRefusal(state.refusals, state.requests.unparsed, code),
    /** Takes the names of a new configuration. */
    use(names: ConfigNames): void {
      state.requests.use(names)
      for (const plan of state.shadowRefusals.keys())
        if (!names.plans.includes(plan)) state.shadowRefusals.delete(plan)
    },
    ...backendWriters(state),
    ...connectionWriters(state),
    quota: quotaObserver(state),
    ...credentialWriters(state),
    live: () => liveCounters(state),
    ...lossWriters(state),
    /** Renders the page for a scrape. Rejects only if one of the Node.js collectors fails. */
    render: async (): Promise<MetricsPage> => ({
      contentType: registry.contentType,
      body: await registry.metrics(),
    }),
    /** Returns all values, for renderSnapshots in another process. Rejects as render does. */
    snapshot: () => snapshot(registry),
  }
}

/** A scrape reads what a watch method was given. */
const lossWriters = (state: ReturnType<typeof newState>) => ({
  /** Adds a source of requests that are missing from the totals of days. */
  watchUsage: (dropped: () => number) => void state.usageDropped.push(dropped),
  /** Sets the source of lines that are missing from the log. */
  watchLog: (dropped: () => number) => void (state.logLinesDropped = dropped),
})

const backendWriters = (state: ReturnType<typeof newState>) => ({
  watchBackends: (backends: BackendsView) => void (state.backends = backends),
  backendFailed: (kind: BackendFailureKind) => void state.backendFailures[kind]++,
  spans: (outcome: 'exported' | 'dropped', count: number) => void (state.spans[outcome] += count),
})

const credentialWriters = (state: ReturnType<typeof newState>) => ({
  /** The key set of the token issuer was fetched, or could not be. */
  keySetFetched(isGood: boolean): void {
    if (isGood) state.keySet.fetchedAtMs = Date.now()
    else state.keySet.failures++
  },
  /** The validity of a credential could not be determined. */
  credentialUnavailable: (reason: UnavailableReason) => void state.unavailable[reason]++,
  banned: () => void state.bans++,
  strike: () => void state.strikes++,
  /** keys: returns how many keys are banned now, as far as this process knows. */
  watchBans: (keys: () => number) => void (state.bannedKeys = keys),
})

const connectionWriters = (state: ReturnType<typeof newState>) => ({
  watchConnections: (connections: () => number) => void (state.connections = connections),
  /** lagMs: the smallest of the latest measurements. */
  eventLoopLag: (lagMs: number) => void (state.eventLoopLagMs = lagMs),
  connectionRefused: (reason: ConnectionRefusal) => void state.connectionRefusals[reason]++,
  connectionDisplaced: (reason: ConnectionBound) => void state.connectionsDisplaced[reason]++,
  http2Abuse: (kind: Http2Abuse) => void state.http2Abuses[kind]++,
  /** connections: returns how many speak HTTP/2. */
  watchHttp2: (connections: () => number) => void (state.http2Connections = connections),
  handshakeFailed: (reason: HandshakeFault) => void state.handshakeFaults[reason]++,
  tunnelOpened: () => void state.tunnels++,
  /** Called once for every tunnelOpened, as is tunnelClosed. */
  tunnelEnded: (end: TunnelEnd) => void state.tunnelEnds[end]++,
  tunnelClosed: () => void state.tunnels--,
})

function createRegistry(families: readonly Family[]): Registry {
  const registry = new Registry()
  for (const family of families) registry.registerMetric(asMetric(family))
  // 20 ms shows a stalled event loop as well as 10 ms does, for half the wake-ups of an idle process.
  collectDefaultMetrics({ register: registry, eventLoopMonitoringPrecision: 20 })
  return registry
}

/** prom-client omits or averages some of Node's values over several processes; the oldest start and the worst lag say more. */
const betterAggregator: Readonly<Record<string, string>> = { omit: 'min', average: 'max' }

async function snapshot(registry: Registry): Promise<MetricsSnapshot> {
  const metrics = await registry.getMetricsAsJSON()
  return metrics.map((metric) => {
    const { aggregator } = metric
    const values = isCounted(metric) ? metric.values.map(exact) : metric.values
    return { ...metric, values, aggregator: betterAggregator[aggregator] ?? aggregator }
  }) as unknown as MetricsSnapshot
}

const isCounted = ({ type }: { readonly type: unknown }): boolean =>
  ['counter', 'histogram'].includes(String(type))

/**
 * Rounds to about a microsecond, so that sums are exact in any order of processes. Otherwise the sum of a family falls by a
 * last digit when a worker is replaced, which Prometheus takes for a restart.
 */
const exact = <One extends { readonly value: number }>(one: One): One => ({
  ...one,
  value: Math.round(one.value * PARTS_OF_A_SECOND) / PARTS_OF_A_SECOND,
})
const PARTS_OF_A_SECOND = 2 ** 20

/** The values that a supervisor adds to those of its workers: their number, what it counts for them, and its own Node.js values. */
export function createSupervisorMetrics(whole: WholeGateway, losses: Losses) {
  const registry = createRegistry([...wholeFamilies(whole), ...lossFamilies(losses)])
  return { snapshot: () => snapshot(registry) }
}

/** Merges one family in each turn of the event loop: all at once would delay the answers that workers wait for. */
async function* mergedFamilies(snapshots: readonly MetricsSnapshot[]): AsyncGenerator<Registry> {
  const families = Map.groupBy(snapshots.flat(), ({ name }) => name)
  for (const values of families.values()) {
    await nextTurn()
    yield AggregatorRegistry.aggregate(values.map((one) => [one]))
  }
}

/** One page for several processes: counters and histograms are summed, gauges by their meaning. */
export async function renderSnapshots(snapshots: readonly MetricsSnapshot[]): Promise<MetricsPage> {
  const pages: string[] = []
  for await (const family of mergedFamilies(snapshots)) pages.push(await family.metrics())
  return { contentType: new Registry().contentType, body: pages.join('\n') }
}

/** Merges several snapshots into one, by the same rules. */
export async function sumSnapshots(
  snapshots: readonly MetricsSnapshot[],
): Promise<MetricsSnapshot> {
  const summed: MetricsSnapshot[number][] = []
  for await (const family of mergedFamilies(snapshots)) summed.push(...(await snapshot(family)))
  return summed
}

/** Leaves out the gauges. */
export const countersOf = (all: MetricsSnapshot): MetricsSnapshot => all.filter(isCounted)

/**
 * prom-client asks a metric for nothing but its name and get() (its own AggregatorRegistry registers
 * such plain objects); its classes would hash the labels again on every request.
 */
function asMetric({ read, ...family }: Family): Metric {
  const get = () => {
    const values = read()
    return Promise.resolve({
      ...family,
      values: typeof values === 'number' ? [{ labels: {}, value: values }] : values,
    })
  }
  return { ...family, get } as unknown as Metric
}
