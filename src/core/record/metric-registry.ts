/** The metrics of one process, each with a function that reads its values at a scrape; prom-client renders and merges them. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { AggregatorRegistry, collectDefaultMetrics, Registry } from 'prom-client'
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

/** A metric with its values, as prom-client has it. */
interface Family {
  readonly type: string
  readonly aggregator: string
  readonly name: string
  readonly help: string
  readonly values: readonly Sample[]
}

/** The values of one process at one moment; plain data. */
export type MetricsSnapshot = readonly Family[]

/** The gateway's own metrics are read as plain values: the classes of prom-client would hash labels on every request. */
export class MetricRegistry {
  readonly #node = new Registry()
  readonly #own: (() => Family)[] = []

  constructor() {
    // 20 ms shows a stalled event loop as well as 10 ms does, for half the wake-ups of an idle process.
    collectDefaultMetrics({ register: this.#node, eventLoopMonitoringPrecision: 20 })
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
    [label, values]: readonly [label: string, values: readonly Value[]],
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
  async snapshot(): Promise<MetricsSnapshot> {
    const own = this.#own.map((read) => read())
    return [...(await familiesOf(this.#node)), ...own].map(mergeable)
  }

  #add(about: Omit<Family, 'values'>, read: Read): void {
    this.#own.push(() => {
      const values = read()
      return { ...about, values: typeof values === 'number' ? [sample(values, {})] : values }
    })
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
  let count = 0
  const buckets = Array.from(series.counts, (more, slot) => ({
    metricName: `${name}_bucket`,
    labels: { ...labels, le: series.bounds[slot] ?? '+Inf' },
    value: (count += more),
  }))
  return [
    ...buckets,
    { metricName: `${name}_sum`, labels, value: series.sumSeconds },
    { metricName: `${name}_count`, labels, value: count },
  ]
}

/** prom-client omits or averages some of Node's values over several processes; the oldest start and the worst lag say more. */
const betterAggregator: Readonly<Record<string, string>> = { omit: 'min', average: 'max' }

const familiesOf = async (registry: Registry): Promise<readonly Family[]> =>
  (await registry.getMetricsAsJSON()) as unknown as readonly Family[]

const mergeable = (family: Family): Family => ({
  ...family,
  values: isCounted(family) ? family.values.map(exact) : family.values,
  aggregator: betterAggregator[family.aggregator] ?? family.aggregator,
})

const isCounted = ({ type }: Family): boolean => type === 'counter' || type === 'histogram'

/**
 * Rounds to about a microsecond, so that sums are exact in any order of processes. Otherwise the sum of a family falls by a
 * last digit when a worker is replaced, which Prometheus takes for a restart.
 */
const exact = (one: Sample): Sample => ({
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

export async function sumSnapshots(
  snapshots: readonly MetricsSnapshot[],
): Promise<MetricsSnapshot> {
  const summed: Family[] = []
  for await (const family of mergedFamilies(snapshots)) summed.push(...(await familiesOf(family)))
  return summed.map(mergeable)
}

/** Leaves out the gauges. */
export const countersOf = (all: MetricsSnapshot): MetricsSnapshot => all.filter(isCounted)
