/** One point of a series: closed-loop load on a fleet, and the figures every series has in common. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { RedisServer } from '../../test/support/redis-server.ts'
import type { LoadOrder, LoadOutcome } from './load.ts'
import { rssBytes } from './proc.ts'
import { spread, type Spread } from './statistics.ts'
import type { GrowthGateway, Workbench } from './workbench.ts'

export interface Timing {
  readonly warmUpSeconds: number
  readonly windowSeconds: number
  readonly windows: number
}

/** CPU in us per request, memory in bytes. */
export interface Figures {
  readonly requestsPerSecond: number
  readonly p50Ms: number
  readonly p99Ms: number
  /** Of all gateways together. */
  readonly gatewayMicroseconds: Spread
  readonly redisMicroseconds: Spread
  /** Store calls per request that was admitted. */
  readonly storeCalls: number
  /** Mean per gateway process: before any request, and the most while measured. */
  readonly rssIdleBytes: number
  readonly rssBytes: number
  readonly redisRssBytes: number
  /** Per request on the clients' side, heads and bodies, both ways. */
  readonly networkBytes: number
  /** Per request in the access log. */
  readonly logBytes: number
  /** The load generator's own cost, which is in none of the others. */
  readonly generatorMicroseconds: number
}

export const requestPath = '/v1/pets?limit=20'
export const answerBytes = 200

/** The order of one point; what it leaves out is small GETs spread evenly. */
export type PointLoad = Pick<LoadOrder, 'group' | 'clients'> &
  Partial<Pick<LoadOrder, 'hotShare' | 'method' | 'path' | 'uploadBytes' | 'bodyBytes'>> & {
    readonly connections?: number
  }

export interface Subject {
  readonly workbench: Workbench
  readonly fleet: readonly GrowthGateway[]
  readonly redis: RedisServer
}

/** Throws an Error with what was not as expected. */
export async function measurePoint(
  { workbench, fleet, redis }: Subject,
  load: PointLoad,
  timing: Timing,
): Promise<Figures> {
  for (const { truncateLog } of fleet) truncateLog()
  const idle = fleet.map(({ pid }) => rssBytes(pid))
  const outcome = await runLoad(workbench, {
    ...orderFor(fleet, load),
    length: timing,
    pids: [...fleet.map(({ pid }) => pid), redis.pid],
    admins: fleet.map(({ admin }) => admin),
  })
  // Lines are written a moment after their request.
  await sleep(200)
  const logBytes = sum(fleet.map((gateway) => gateway.logBytes()))
  for (const { truncateLog } of fleet) truncateLog()
  const { windows, counters } = outcome
  const perRequest = (cpu: (all: readonly number[]) => number): Spread =>
    spread(windows.map(({ requests, cpuMicroseconds }) => cpu(cpuMicroseconds) / requests))
  const requests = sum(windows.map((window) => window.requests))
  const seconds = sum(windows.map((window) => window.seconds))
  const [gatewayRss, redisRss] = [outcome.rssBytes.slice(0, -1), outcome.rssBytes.slice(-1)]
  return {
    requestsPerSecond: requests / seconds,
    p50Ms: outcome.p50Ms,
    p99Ms: outcome.p99Ms,
    gatewayMicroseconds: perRequest((all) => sum(all.slice(0, -1))),
    redisMicroseconds: perRequest((all) => all.at(-1) ?? NaN),
    storeCalls: counters.storeCalls / counters.admitted,
    rssIdleBytes: sum(idle) / fleet.length,
    rssBytes: sum(gatewayRss) / fleet.length,
    redisRssBytes: sum(redisRss),
    networkBytes: outcome.networkBytes / outcome.answers,
    logBytes: logBytes / outcome.answers,
    generatorMicroseconds: outcome.generatorMicroseconds / requests,
  }
}

/** One request of every client, so that the gateways and the store know them all. */
export async function touchEveryClient(
  { workbench, fleet }: Pick<Subject, 'workbench' | 'fleet'>,
  load: PointLoad,
): Promise<void> {
  const order = { ...orderFor(fleet, load), pids: [], admins: [] }
  const { answers } = await runLoad(workbench, { ...order, length: 'each-client-once' })
  if (answers !== load.clients)
    throw new Error(`${answers} answers to one request of each of ${load.clients} clients`)
}

function orderFor(fleet: readonly GrowthGateway[], load: PointLoad) {
  return {
    ports: fleet.map(({ port }) => port),
    connections: 64,
    hotShare: 0,
    method: 'GET' as const,
    path: requestPath,
    uploadBytes: 0,
    bodyBytes: answerBytes,
    ...load,
  }
}

async function runLoad(workbench: Workbench, order: LoadOrder): Promise<LoadOutcome> {
  const outcome = await workbench.generator('load.ts').ask(order)
  if (outcome.faults.length > 0) throw new Error(outcome.faults.join(', '))
  return outcome
}

export function sum(values: readonly number[]): number {
  return values.reduce((total, value) => total + value, 0)
}
