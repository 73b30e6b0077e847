/** What the load generator is asked for, and what it reports. */
import type { Counters } from './metrics.ts'
import type { Processes } from './processes.ts'

export interface LoadOrder {
  /** Shared evenly by the connections. */
  readonly ports: readonly number[]
  readonly connections: number
  readonly path: string
  /** POST with such a body. Default: GET. */
  readonly uploadBytes?: number
  /** tls: HTTP/1.1, whatever the certificate. http2: by h2load, which sends the first key alone. Default: no TLS. */
  readonly over?: 'tls' | 'http2'
  /** Bearer tokens; requests take them in turn, or at random. */
  readonly keys: readonly string[]
  readonly pick: 'turn' | 'random'
  readonly expect: Expectation
  /** requests: so many, each answered, and no measurement. */
  readonly length: { readonly requests: number } | MeasuredLength
  /** They are due evenly spaced, whatever the answers. Default: each connection asks again as soon as it is answered. */
  readonly requestsPerSecond?: number
  /** Processes whose CPU time, wait for a processor and memory are read. */
  readonly pids?: readonly number[]
  /** Admin listeners whose counters are read at the edges of the measurement. */
  readonly admins?: readonly string[]
  /** The probe of a process whose allocations are read there. */
  readonly probe?: string | undefined
}

export interface MeasuredLength {
  readonly warmUpSeconds: number
  readonly windowSeconds: number
  readonly windows: number
}

export interface Expectation {
  readonly status: number
  /** The whole body, a part of it, or its size. */
  readonly body?: string
  readonly partOfBody?: string
  readonly bodyBytes?: number
}

export interface LoadWindow {
  readonly requests: number
  readonly seconds: number
  /** Used within the window, in the order of `pids`. */
  readonly cpuMicroseconds: readonly number[]
  /** Ready to run and without a processor, in the order of `pids`. */
  readonly waitMicroseconds: readonly number[]
  /** The part of the machine's time that its host gave to other machines. */
  readonly stolenShare: number
}

export interface LoadOutcome {
  readonly windows: readonly LoadWindow[]
  readonly p50Ms: number
  readonly p99Ms: number
  readonly longestMs: number
  /** The most seen during the windows, in the order of `pids`. */
  readonly rssBytes: readonly number[]
  /** Growth from the first window's start to the last one's end. */
  readonly counters: Pick<Counters, 'storeCalls' | 'requests'>
  /** NaN without a probe. */
  readonly allocatedBytesPerRequest: number
  /** Answers in all, warm-up included. */
  readonly answers: number
  /** Sent and received, heads and bodies, warm-up included. */
  readonly networkBytes: number
  /** What was not as expected, from the first request on; empty for a valid run. */
  readonly faults: readonly string[]
}

/** Runs a load in a process of its own. Throws an Error with what was not as expected. */
export async function runLoad(processes: Processes, order: LoadOrder): Promise<LoadOutcome> {
  const load = await processes.worker<LoadOrder, LoadOutcome>('load.ts')
  const outcome = await load.ask(order)
  await load.end()
  if (outcome.faults.length > 0) throw new Error(outcome.faults.join(', '))
  return outcome
}

export const portOf = (origin: string): number => Number(new URL(origin).port)
