/** Composes the metrics of a process and renders them through prom-client's registry. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  AggregatorRegistry,
  collectDefaultMetrics,
  Registry,
  type Metric,
  type MetricObjectWithValues,
  type MetricValue,
} from 'prom-client'
import type { Family } from './family.ts'
import {
  backendMetrics,
  connectionMetrics,
  credentialMetrics,
  processMetrics,
  quotaMetrics,
  requestMetrics,
  type ConfigNames,
  type RequestRecord,
} from './metric-families.ts'
import {
  lossFamilies,
  ownLosses,
  wholeFamilies,
  type Losses,
  type WholeGateway,
} from './whole-families.ts'

export type { ConfigNames, RequestRecord }

export type Metrics = ReturnType<typeof createMetrics>

/** A snapshot of the counters for the live view, where each second is the difference of two snapshots. */
export type LiveCounters = ReturnType<Metrics['live']>

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
  const [requests, connections, backends] = [
    requestMetrics(options),
    connectionMetrics(),
    backendMetrics(),
  ]
  const [quota, credentials, own] = [quotaMetrics(), credentialMetrics(), processMetrics(version)]
  const lost = ownLosses()
  const groups = [requests, connections, backends, quota, credentials, own]
  const registry = createRegistry([
    ...groups.flatMap(({ families }) => families),
    ...lossFamilies(lost.losses),
    ...(whole === undefined ? [] : wholeFamilies(whole)),
  ])
  return {
    ...requests.write,
    ...connections.write,
    ...backends.write,
    ...quota.write,
    ...credentials.write,
    ...own.write,
    ...lost.write,
    /** Takes the names of a new configuration. */
    use(names: ConfigNames): void {
      requests.use(names)
      quota.use(names)
    },
    live: () => ({
      ...requests.live(),
      ...connections.live(),
      ...backends.live(),
      ...quota.live(),
      ...own.live(),
    }),
    /** Renders the page for a scrape. Rejects only if one of the Node.js collectors fails. */
    render: async (): Promise<MetricsPage> => ({
      contentType: registry.contentType,
      body: await registry.metrics(),
    }),
    /** Returns all values, for renderSnapshots in another process. Rejects as render does. */
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
