/** What a run has measured, as results.json keeps it; the tables and the capacity page are made from that file. */
import { readFileSync, writeFileSync } from 'node:fs'
import { script } from '../processes.ts'
import type { Point, series } from './series.ts'

export type SeriesName = keyof typeof series

export interface SeriesResult {
  /** Day of the measurement, UTC. */
  readonly date: string
  readonly machine: string
  readonly versions: string
  readonly points: readonly Point[]
}

export type Results = Partial<Record<SeriesName, SeriesResult>>

const file = script('growth/results.json')

export const readResults = (): Results => JSON.parse(readFileSync(file, 'utf8')) as Results

/** Six digits are more than any of these figures is good for. */
export function writeResults(results: Results): void {
  const rounded = (_key: string, value: unknown): unknown =>
    typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(6)) : value
  writeFileSync(file, `${JSON.stringify(results, rounded, 2)}\n`)
}

/** Points that count, in ascending order of what grows. */
export function validPoints(result: SeriesResult | undefined) {
  return (result?.points ?? []).flatMap((point) =>
    point.figures ? [{ ...point, figures: point.figures }] : [],
  )
}
