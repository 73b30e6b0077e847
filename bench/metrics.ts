/** Reads what gateways tell of themselves: counters from their admin listeners, allocations from their probes. */
import type { ProbeAnswer } from './probe.ts'
import { sum } from './statistics.ts'

export interface Counters {
  readonly storeCalls: number
  /** Requests answered, whatever the status. */
  readonly requests: number
  readonly strikes: number
}

/** Sums over the admin listeners given: scheme, host and port of each. */
export async function readCounters(admins: readonly string[]): Promise<Counters> {
  const pages = await Promise.all(admins.map(metricsPage))
  const total = (name: string): number => sum(pages.map((page) => sumOf(page, name)))
  return {
    storeCalls: total('tollgate_store_calls_total'),
    requests: total('tollgate_requests_total'),
    strikes: total('tollgate_strikes_total'),
  }
}

async function metricsPage(admin: string): Promise<string> {
  const response = await fetch(`${admin}/metrics`)
  if (!response.ok) throw new Error(`${admin}/metrics answered ${response.status}`)
  return response.text()
}

/** The sum of all samples of a counter, 0 where there is none. */
function sumOf(page: string, name: string): number {
  const samples = page.matchAll(new RegExp(`^${name}(?:\\{.*\\})? (\\S+)$`, 'gm'))
  return sum(Array.from(samples, ([, value]) => Number(value)))
}

export async function askProbe(probe: string, path: '/' | '/heap' = '/'): Promise<ProbeAnswer> {
  return (await (await fetch(`${probe}${path}`)).json()) as ProbeAnswer
}

/** Bytes of live objects, buffers included, after a full collection. */
export const heapBytes = async (probe: string): Promise<number> =>
  (await askProbe(probe, '/heap')).heapBytes ?? NaN
