/**
 * Store calls per admitted request at different limits, in real minutes. Every limit and every offered load has four gateways of its
 * own, as a gateway counts its store calls over all clients; all run in the same minutes on one Redis.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { median } from '../markdown.ts'
import { sum } from './measure.ts'
import { scrapeCounters, type Counters } from './metrics.ts'
import type { PacedMinute } from './paced-load.ts'
import { createWorkbench, type GrowthGateway, type Workbench } from './workbench.ts'

export interface LimitPoint {
  readonly perMinute: number
  /** Offered load as a share of the limit. */
  readonly offered: number
  readonly clients: number
  readonly processes: number
  readonly invalid?: string
  readonly figures?: LimitFigures
}

export interface LimitFigures {
  readonly minutes: number
  /** Per admitted request; median of the minutes. */
  readonly storeCalls: number
  /** Requests admitted above the limit, over all clients and minutes. */
  readonly over: number
  /** Of what the limit allows and was offered: over all clients and minutes, and the least of one client in one minute. */
  readonly admittedShare: number
  readonly leastAdmittedShare: number
  readonly admitted: number
  readonly p50Ms: number
  readonly p99Ms: number
}

const processes = 4
const minuteMs = 60_000
const leadMs = 15_000
/** For the generator to start and draw its moments. */
const readyMs = 8_000
/** Later than that, and the load was another than the one described. */
const lateAtMostMs = 2_000

/** Fewer clients where each has a large limit: the whole load is about 1,700 requests a second. */
const limits = [
  { perMinute: 300, clients: 10 },
  { perMinute: 1000, clients: 4 },
  { perMinute: 30_000, clients: 1 },
]
const offeredShares = [0.8, 2]

/** Store calls per admitted request at 80 % of the limit and above it. */
export const storeCallTargets: ReadonlyMap<number, number> = new Map([
  [300, 0.15],
  [1000, 0.05],
  [30_000, 0.01],
])
export const admittedShareTarget = 0.995

interface Fleet {
  readonly name: string
  readonly point: LimitPoint
  readonly gateways: readonly GrowthGateway[]
  /** Growth of the counters in each whole minute. */
  readonly minutes: Counters[]
}

export async function limitsSeries(
  minutes: number,
  onPoint: (point: LimitPoint) => void,
): Promise<LimitPoint[]> {
  const workbench = createWorkbench()
  try {
    const points = await runMinutes(workbench, minutes)
    points.forEach(onPoint)
    return points
  } finally {
    await workbench.end()
  }
}

async function runMinutes(workbench: Workbench, minutes: number): Promise<LimitPoint[]> {
  const fleets = await startFleets(workbench)
  const startMs = Math.ceil((Date.now() + readyMs + leadMs) / minuteMs) * minuteMs
  const paced = workbench.generator('paced-load.ts').ask({
    groups: fleets.map(({ name, point, gateways }) => ({
      name,
      clients: point.clients,
      ports: gateways.map(({ port }) => port),
      requestsPerMinute: point.perMinute * point.offered,
    })),
    path: '/v1/pets?limit=20',
    startMs,
    leadMs,
    minutes,
  })
  const [outcome] = await Promise.all([paced, countMinutes(fleets, { startMs, minutes })])
  const trouble = [
    ...outcome.faults,
    ...(outcome.lateP99Ms > lateAtMostMs
      ? [`requests sent ${outcome.lateP99Ms.toFixed(0)} ms late (p99)`]
      : []),
  ]
  return fleets.map(({ name, point, minutes: counters }) => {
    if (trouble.length > 0) return { ...point, invalid: trouble.join(', ') }
    const mine = outcome.minutes.filter(({ group }) => group === name)
    const { p50Ms, p99Ms } = outcome
    return { ...point, figures: { ...figuresOf(point, mine, counters), p50Ms, p99Ms } }
  })
}

async function startFleets(workbench: Workbench): Promise<Fleet[]> {
  const backend = await workbench.backend()
  const redis = await workbench.redis()
  const fleets: Fleet[] = []
  for (const { perMinute, clients } of limits)
    for (const offered of offeredShares) {
      const name = `limit${perMinute}at${offered * 100}`
      const gateways = await workbench.fleet({
        name,
        size: processes,
        backend: backend.origin,
        redis: redis.url,
        groups: [{ name, count: clients, limits: { perMinute, perDay: perMinute * 1440 } }],
        overrides: {
          // Connections that are seldom needed stay open all the same.
          server: { listen: '127.0.0.1:0', basePath: '/v1', timeouts: { idle: '1h' } },
          // So many processes on few cores may have to wait for their turn, and that is not what is measured here.
          upstream: { urls: [backend.origin], timeouts: { connect: '10s' } },
        },
      })
      fleets.push({
        name,
        point: { perMinute, offered, clients, processes },
        gateways,
        minutes: [],
      })
    }
  return fleets
}

/** Reads every fleet's counters at each minute's end, and empties the access logs. */
async function countMinutes(
  fleets: readonly Fleet[],
  { startMs, minutes }: { startMs: number; minutes: number },
): Promise<void> {
  const read = async (minute: number): Promise<Counters[]> => {
    await sleep(Math.max(0, startMs + minute * minuteMs - Date.now()))
    return Promise.all(
      fleets.map(({ gateways }) => scrapeCounters(gateways.map(({ admin }) => admin))),
    )
  }
  let before = await read(0)
  for (let minute = 1; minute <= minutes; minute++) {
    const after = await read(minute)
    fleets.forEach((fleet, index) => {
      const [from, to] = [before[index], after[index]]
      if (!from || !to) return
      fleet.minutes.push({
        storeCalls: to.storeCalls - from.storeCalls,
        admitted: to.admitted - from.admitted,
        refused: to.refused - from.refused,
      })
      for (const { truncateLog } of fleet.gateways) truncateLog()
    })
    before = after
  }
}

function figuresOf(
  { perMinute }: LimitPoint,
  minutes: readonly PacedMinute[],
  counters: readonly Counters[],
): Omit<LimitFigures, 'p50Ms' | 'p99Ms'> {
  const possible = ({ offered }: PacedMinute): number => Math.min(offered, perMinute)
  const over = minutes.map(({ admitted, surelyAdmitted }) =>
    Math.max(0, admitted - perMinute, surelyAdmitted - perMinute),
  )
  const admitted = sum(minutes.map((minute) => minute.admitted))
  return {
    minutes: counters.length,
    storeCalls: median(counters.map((minute) => minute.storeCalls / minute.admitted)),
    over: sum(over),
    admittedShare: admitted / sum(minutes.map(possible)),
    leastAdmittedShare: Math.min(
      ...minutes.map((minute) => minute.admitted / Math.max(1, possible(minute))),
    ),
    admitted,
  }
}
