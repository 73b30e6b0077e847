/** What a run has measured, as results.json keeps it; the plots, the tables and the capacity page are made from that file. */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { cpus, release, totalmem } from 'node:os'
import { join } from 'node:path'
import type { LimitPoint } from './limits-series.ts'
import type { Point } from './series.ts'

export const seriesNames = ['clients', 'processes', 'hot-key', 'bodies', 'connections'] as const
export type SeriesName = (typeof seriesNames)[number]

export interface SeriesResult {
  /** Day of the measurement, UTC. */
  readonly date: string
  readonly machine: string
  readonly versions: string
  readonly method: string
}

export interface Results {
  readonly series: Partial<Record<SeriesName, SeriesResult & { readonly points: readonly Point[] }>>
  readonly limits?: SeriesResult & { readonly points: readonly LimitPoint[] }
  readonly soak?: SeriesResult & SoakResult
}

export interface SoakSample {
  readonly seconds: number
  /** Mean of the gateways. */
  readonly gatewayRssBytes: number
  readonly gatewayHeapBytes: number
  /** Most of the gateways. */
  readonly gatewayHandles: number
  readonly loopLagP99Ms: number
  readonly redisRssBytes: number
  readonly requests: number
}

export interface SoakResult {
  readonly minutes: number
  readonly samples: readonly SoakSample[]
  /** Answers by what they were. */
  readonly answers: Readonly<Record<string, number>>
  /** Of live objects in the gateways, from the start of the second minute to that of the last; 0.01 is one per cent. */
  readonly heapGrowth: number
  /** From the second minute to the last, medians. */
  readonly rssGrowth: number
  readonly redisRssGrowth: number
  readonly invalid?: string
}

const file = join(import.meta.dirname, 'results.json')

/** What the file holds; nothing if there is none. */
export function readResults(): Results {
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Results
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return { series: {} }
    throw error
  }
}

export function writeResults(results: Results): void {
  writeFileSync(file, `${JSON.stringify(results, roundNumbers, 2)}\n`)
}

/** Six digits are more than any of these figures is good for. */
function roundNumbers(_key: string, value: unknown): unknown {
  return typeof value === 'number' && !Number.isInteger(value)
    ? Number(value.toPrecision(6))
    : value
}

export function describeRun(method: string): SeriesResult {
  const [first] = cpus()
  const redis = /v=(\S+)/.exec(execFileSync('redis-server', ['--version'], { encoding: 'utf8' }))
  return {
    date: new Date().toISOString().slice(0, 10),
    machine: `${cpus().length} cores, ${first?.model.trim() ?? 'unknown CPU'}, ${(totalmem() / 2 ** 30).toFixed(0)} GiB, ${process.platform} ${release().split('.').slice(0, 2).join('.')}`,
    versions: `Node.js ${process.versions.node}, Redis ${redis?.[1] ?? 'unknown'}`,
    method,
  }
}
