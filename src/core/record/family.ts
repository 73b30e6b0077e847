/** A metric family has a name and a function that reads its values at each scrape. */
import type { HistogramSeries } from '../backends/histogram-series.ts'

type Labels = Readonly<Record<string, string | number>>
export interface Sample {
  readonly labels: Labels
  readonly value: number
  /** The name, where it differs from the family's: _bucket, _sum or _count of a histogram. */
  readonly metricName?: string
}
export interface Family {
  readonly name: string
  readonly help: string
  readonly type: 'counter' | 'gauge' | 'histogram'
  /** How the values of several workers are merged. */
  readonly aggregator: 'sum' | 'min' | 'max' | 'first'
  /** Returns a number where the metric has no labels. */
  readonly read: () => number | Sample[]
}

export const sample = (value: number, labels: Labels): Sample => ({ labels, value })

export const by = (
  label: string,
  counts: Readonly<Record<string, number>>,
  more: Labels = {},
): Sample[] =>
  Object.entries(counts).map(([name, count]) => sample(count, { ...more, [label]: name }))

const family =
  (type: Family['type'], aggregator: Family['aggregator']) =>
  (name: string, help: string, read: Family['read']): Family => ({
    name,
    help,
    type,
    aggregator,
    read,
  })
export const counter = family('counter', 'sum')
/** Gauges, named after how the values of several workers are merged. */
export const gauge = {
  sum: family('gauge', 'sum'),
  min: family('gauge', 'min'),
  max: family('gauge', 'max'),
  first: family('gauge', 'first'),
}

export const histogram = (
  name: string,
  help: string,
  read: () => (readonly [Labels, HistogramSeries])[],
): Family =>
  family('histogram', 'sum')(name, help, () =>
    read().flatMap(([labels, series]) => histogramSamples(name, labels, series)),
  )

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
