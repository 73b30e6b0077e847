/** The metrics of one process, each with a function that reads its values at a scrape; prom-client renders and merges them. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  AggregatorRegistry,
  collectDefaultMetrics,
  Registry,
  type Metric,
  type MetricObjectWithValues,
  type MetricValue,
} from 'prom-client'
import type { HistogramSeries } from '../backends/histogram-series.ts'

type Labels = Readonly<Record<string, string | number>>
export interface Sample {
  readonly labels: Labels
  readonly value: number
  /** The name, where it differs from the metric's: _bucket, _sum or _count of a histogram. */
  readonly metricName?: string
}
/** Returns a number where the metric has no labels. */
type Read = () => number | Sample[]
/** How the values of several workers are merged. */
type Aggregator = 'sum' | 'min' | 'max' | 'first'

/** The values of one process at one moment; plain data. */
export type MetricsSnapshot = readonly MetricObjectWithValues<MetricValue<string>>[]

export class MetricRegistry {
  readonly #registry = new Registry()

  constructor() {
    // 20 ms shows a stalled event loop as well as 10 ms does, for half the wake-ups of an idle process.
    collectDefaultMetrics({ register: this.#registry, eventLoopMonitoringPrecision: 20 })
  }

  counter(name: string, help: string, read: Read): void {
    this.#add({ type: 'counter', aggregator: 'sum', name, help }, read)
  }

  gauge(aggregator: Aggregator, name: string, help: string, read: Read): void {
    this.#add({ type: 'gauge', aggregator, name, help }, read)
  }

  histogram(name: string, help: string, read: () => (readonly [Labels, HistogramSeries])[]): void {
    this.#add({ type: 'histogram', aggregator: 'sum', name, help }, () =>
      read().flatMap(([labels, series]) => histogramSamples(name, labels, series)),
    )
  }

  /** Adds a counter without labels, and returns its writer. */
  count(name: string, help: string): () => void {
    let count = 0
    this.counter(name, help, () => count)
    return () => void count++
  }

  /** Adds a counter with one label, which has one of these values, and returns its writer. */
  countBy<Value extends string>(
    name: string,
    help: string,
    label: string,
    values: readonly Value[],
  ): (value: Value, more?: number) => void {
    const counts = zeros(values)
    this.counter(name, help, () => by(label, counts))
    return (value, more = 1) => void (counts[value] += more)
  }

  /** Adds a metric without labels, and returns what sets the function that each scrape reads; it is 0 before. */
  watched(kind: 'counter' | Aggregator, name: string, help: string): (read: () => number) => void {
    let current = () => 0
    const read = (): number => current()
    if (kind === 'counter') this.counter(name, help, read)
    else this.gauge(kind, name, help, read)
    return (next) => void (current = next)
  }

  /** Returns all values. Rejects only if one of the Node.js collectors fails. */
  snapshot(): Promise<MetricsSnapshot> {
    return snapshot(this.#registry)
  }

  /**
   * prom-client asks a metric for nothing but its name and get() (its own AggregatorRegistry registers
   * such plain objects); its classes would hash the labels again on every request.
   */
  #add(about: Record<'type' | 'aggregator' | 'name' | 'help', string>, read: Read): void {
    const get = () => {
      const values = read()
      return Promise.resolve({
        ...about,
        values: typeof values === 'number' ? [sample(values, {})] : values,
      })
    }
    this.#registry.registerMetric({ ...about, get } as unknown as Metric)
  }
}

export const sample = (value: number, labels: Labels): Sample => ({ labels, value })

export const by = (
  label: string,
  counts: Readonly<Record<string, number>>,
  more: Labels = {},
): Sample[] =>
  Object.entries(counts).map(([name, count]) => sample(count, { ...more, [label]: name }))

export const zeros = <const Name extends string>(names: readonly Name[]): Record<Name, number> =>
  Object.fromEntries(names.map((name) => [name, 0])) as Record<Name, number>

function histogramSamples(name: string, labels: Labels, series: HistogramSeries): Sample[] {
  const { cumulative, sumSeconds } = series.read()
  const buckets = cumulative.map((value, slot) => ({
    metricName: `${name}_bucket`,
    labels: { ...labels, le: series.bounds[slot] ?? '+Inf' },
    value,
  }))
  return [
    ...buckets,
    { metricName: `${name}_sum`, labels, value: sumSeconds },
    { metricName: `${name}_count`, labels, value: cumulative.at(-1) ?? 0 },
  ]
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

/** Merges one family in each turn of the event loop: all at once would delay the answers that workers wait for. */
async function* mergedFamilies(snapshots: readonly MetricsSnapshot[]): AsyncGenerator<Registry> {
  const families = Map.groupBy(snapshots.flat(), ({ name }) => name)
  for (const values of families.values()) {
    await nextTurn()
    yield AggregatorRegistry.aggregate(values.map((one) => [one]))
  }
}

export const METRICS_TYPE = Registry.PROMETHEUS_CONTENT_TYPE

/** The page of one process or of several: counters and histograms are summed, gauges by their meaning. */
export async function renderSnapshots(snapshots: readonly MetricsSnapshot[]): Promise<string> {
  const pages: string[] = []
  for await (const family of mergedFamilies(snapshots)) pages.push(await family.metrics())
  return pages.join('\n')
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
