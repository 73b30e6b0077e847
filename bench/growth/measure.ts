/** One point of a series: gateways on one Redis, a load on them, and the figures every series has in common. */
import { appendFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RedisServer } from '../../test/support/redis-server.ts'
import {
  clientEntries,
  loadedFromHere,
  openPolicy,
  startGateway,
  type Gateway,
} from '../gateway.ts'
import { portOf, runLoad, type LoadOrder, type MeasuredLength } from '../load-order.ts'
import { heapBytes } from '../metrics.ts'
import type { Processes } from '../processes.ts'
import { median, sum } from '../statistics.ts'
import { startBackend } from '../subjects.ts'
import { backendBody, connections, requestPath, type BenchClient } from '../workload.ts'

/** Medians of the windows; CPU in us per request, memory in bytes. */
export interface Figures {
  readonly requestsPerSecond: number
  /** Of all gateways together. */
  readonly gatewayMicroseconds: number
  readonly redisMicroseconds: number
  /** Store calls per request. */
  readonly storeCalls: number
  /** Mean per gateway process, the most while measured. */
  readonly rssBytes: number
  /** Per request on the clients' side, heads and bodies, both ways. */
  readonly networkBytes: number
  /** Per request in the access log. */
  readonly logBytes: number
}

export interface Fleet {
  readonly processes: Processes
  readonly gateways: readonly Gateway[]
  readonly first: Gateway
  readonly redis: RedisServer
}

/** Clients with equal limits. */
interface ClientGroup {
  readonly clients: readonly BenchClient[]
  readonly limits: { readonly perMinute: number; readonly perDay: number }
}

export interface FleetOrder {
  /** Default: 1. */
  readonly size?: number
  readonly groups: readonly ClientGroup[]
  /** The gateways can tell their heap after a collection. */
  readonly probe?: boolean
}

/** Starts gateways with one configuration on one Redis. */
export async function startFleet(processes: Processes, order: FleetOrder): Promise<Fleet> {
  const { size = 1, groups, probe = false } = order
  const backend = await startBackend(processes)
  const redis = await processes.redis()
  const file = join(processes.directory, 'clients.jsonl')
  writeFileSync(file, '')
  groups.forEach(({ clients }, at) => addClients(file, clients, `plan-${at}`))
  const start = (nth: number): Promise<Gateway> =>
    startGateway(processes, {
      name: `gateway-${nth}`,
      probe,
      config: {
        ...openPolicy,
        // Connections that are seldom needed stay open all the same.
        server: { ...loadedFromHere, timeouts: { idle: '1h' } },
        upstream: { urls: [backend.origin], timeouts: { connect: '10s' } },
        store: { redis: redis.url },
        // One client may be all of the load.
        plans: Object.fromEntries(
          groups.map(({ limits }, at) => [`plan-${at}`, { ...limits, concurrent: 1_000 }]),
        ),
        clientFiles: ['clients.jsonl'],
      },
    })
  const first = await start(0)
  const gateways = [first]
  for (let nth = 1; nth < size; nth++) gateways.push(await start(nth))
  return { processes, gateways, first, redis }
}

const CLIENTS_AT_ONCE = 10_000

/** Appends clients to a file that gateways read. */
export function addClients(file: string, clients: readonly BenchClient[], plan: string): void {
  for (let from = 0; from < clients.length; from += CLIENTS_AT_ONCE) {
    const entries = clientEntries(clients.slice(from, from + CLIENTS_AT_ONCE), { plan })
    appendFileSync(file, entries.map((entry) => `${JSON.stringify(entry)}\n`).join(''))
  }
}

export type PointLoad = Pick<LoadOrder, 'keys'> & Partial<LoadOrder>

export const loadOn = (
  { processes, gateways }: Fleet,
  load: PointLoad,
  length: LoadOrder['length'],
) =>
  runLoad(processes, {
    ports: gateways.map(({ origin }) => portOf(origin)),
    connections,
    path: requestPath,
    pick: 'random',
    expect: { status: 200, body: backendBody },
    length,
    ...load,
  })

/** Throws an Error with what was not as expected. */
export async function measurePoint(
  fleet: Fleet,
  load: PointLoad,
  length: MeasuredLength,
): Promise<Figures> {
  const { gateways, redis } = fleet
  for (const { truncateLog } of gateways) truncateLog()
  const read = {
    pids: [...gateways.map(({ pid }) => pid), redis.pid],
    admins: gateways.map(({ admin }) => admin),
  }
  const outcome = await loadOn(fleet, { ...load, ...read }, length)
  // Lines are written a moment after their request.
  await sleep(200)
  const logBytes = sum(gateways.map((gateway) => gateway.logBytes()))
  for (const { truncateLog } of gateways) truncateLog()
  const { windows, counters, answers } = outcome
  const perRequest = (cpu: (all: readonly number[]) => number): number =>
    median(windows.map(({ requests, cpuMicroseconds }) => cpu(cpuMicroseconds) / requests))
  return {
    requestsPerSecond: median(windows.map(({ requests, seconds }) => requests / seconds)),
    gatewayMicroseconds: perRequest((all) => sum(all.slice(0, -1))),
    redisMicroseconds: perRequest((all) => all.at(-1) ?? NaN),
    storeCalls: counters.storeCalls / counters.requests,
    rssBytes: sum(outcome.rssBytes.slice(0, -1)) / gateways.length,
    networkBytes: outcome.networkBytes / answers,
    logBytes: logBytes / answers,
  }
}

/** Live bytes of a gateway once idle holds have gone back and the log is written. */
export async function settledHeap({ probe }: Gateway): Promise<number> {
  if (probe === undefined) throw new Error('the gateway was started without a probe')
  await sleep(1000)
  return heapBytes(probe)
}
