/** The series of the growth run: what grows, by how much, and what is measured beside the common figures. */
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RedisServer } from '../../test/support/redis-server.ts'
import { portOf, type MeasuredLength } from '../load-order.ts'
import { grouped } from '../markdown.ts'
import { openFilesLimit, peakRssBytes, rssBytes } from '../proc.ts'
import { isStopping, withProcesses, type Processes } from '../processes.ts'
import { sum } from '../statistics.ts'
import { inLanes, openAsker, requestHead, type Asker } from '../wire.ts'
import { benchClients, boundlessLimits, requestPath, type BenchClient } from '../workload.ts'
import {
  addClients,
  loadOn,
  measurePoint,
  settledHeap,
  startFleet,
  type Figures,
  type Fleet,
  type PointLoad,
} from './measure.ts'

export interface Pace {
  readonly timing: MeasuredLength
  /** Whole minutes that the limits series is measured. */
  readonly minutes: number
  /** The largest points are left out. */
  readonly quick: boolean
  /** The clients series has this point alone. */
  readonly clients: number | undefined
}

export interface Point {
  /** The size of what grows. */
  readonly x: number
  readonly label: string
  /** Why the point does not count; undefined for a valid one. */
  readonly invalid?: string
  readonly figures?: Figures
  /** What only this series measures; units are in the names. */
  readonly more: Readonly<Record<string, number>>
}

type Measured = Pick<Point, 'figures' | 'more'>

/** Runs a point with processes of its own; one that fails is marked and the others go on. */
async function point(
  x: number,
  label: string,
  run: (processes: Processes) => Promise<Measured>,
): Promise<Point> {
  try {
    return { x, label, ...(await withProcesses(run)) }
  } catch (error) {
    if (isStopping()) throw error
    const { message } = error as Error
    return { x, label, invalid: message.replaceAll(/\s+/g, ' ').slice(0, 300), more: {} }
  }
}

const keysOf = (clients: readonly BenchClient[]): string[] => clients.map(({ key }) => key)

const large = { perMinute: 60_000, perDay: 1_000_000_000 }

/** One gateway, and clients that it knows and serves; every one of them sends. */
async function* clients({ quick, timing, clients: only }: Pace): AsyncGenerator<Point> {
  const usual = quick ? [10, 1000, 10_000] : [10, 1000, 10_000, 100_000]
  for (const count of only === undefined ? usual : [only])
    yield await point(count, `${grouped(count)} clients`, (processes) =>
      clientsPoint(processes, count, timing),
    )
}

async function clientsPoint(
  processes: Processes,
  count: number,
  timing: MeasuredLength,
): Promise<Measured> {
  const all = benchClients('even', count)
  // Requests of these few warm the process up without meeting a client of the other group.
  const warm = benchClients('warm', 10)
  const limits = { perMinute: 1_000_000, perDay: 1_000_000_000 }
  const groups = [
    { clients: all, limits },
    { clients: warm, limits: boundlessLimits },
  ]
  const fleet = await startFleet(processes, { groups, probe: true })
  const { first } = fleet
  const short = { warmUpSeconds: 1, windowSeconds: 0.5, windows: 1 }
  await measurePoint(fleet, { keys: keysOf(warm) }, short)
  const heapKnowingClientsBytes = await settledHeap(first)
  const load = { keys: keysOf(all) }
  // One request of every client, so that the gateway and the store know them all.
  await loadOn(fleet, { ...load, pick: 'turn' }, { requests: count })
  const figures = await measurePoint(fleet, load, timing)
  return {
    figures,
    more: {
      startSeconds: first.startSeconds,
      heapKnowingClientsBytes,
      /** What the clients' quota state has added to it. */
      heapStateLoadedBytes: (await settledHeap(first)) - heapKnowingClientsBytes,
      reloadMs: await waitWhileReloading(fleet, load),
      peakRssBytes: peakRssBytes(first.pid),
    },
  }
}

/** The longest wait for one of 200 requests a second while the gateway takes a file with a client more. */
async function waitWhileReloading(fleet: Fleet, load: PointLoad): Promise<number> {
  const { first, processes: started } = fleet
  const windowSeconds = 3 + 2 * first.startSeconds
  const length = { warmUpSeconds: 2, windowSeconds, windows: 1 }
  const loaded = loadOn(fleet, { ...load, requestsPerSecond: 200 }, length)
  await sleep(3_000)
  addClients(join(started.directory, 'clients.jsonl'), benchClients('new', 1), 'plan-0')
  process.kill(first.pid, 'SIGHUP')
  return (await loaded).longestMs
}

const spreadClients = benchClients('even', 1000)

/** Gateway processes on one Redis; 1,000 clients reach all of them. */
async function* processes({ timing }: Pace): AsyncGenerator<Point> {
  for (const size of [1, 4, 8])
    yield await point(size, `${size} process${size === 1 ? '' : 'es'}`, async (started) => {
      const groups = [{ clients: spreadClients, limits: large }]
      const fleet = await startFleet(started, { size, groups })
      const before = redisFigures(fleet.redis)
      const figures = await measurePoint(fleet, { keys: keysOf(spreadClients) }, timing)
      const after = redisFigures(fleet.redis)
      return {
        figures,
        more: {
          redisStateBytesPerClient: (after.memory - before.memory) / spreadClients.length,
          redisNetworkBytesPerCall: (after.network - before.network) / (after.calls - before.calls),
        },
      }
    })
}

/** Bytes of memory and network, and how often the script has run. */
function redisFigures(redis: RedisServer) {
  const stats = redis.cli('INFO', 'all')
  const read = (name: string): number =>
    Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(stats)?.[1] ?? NaN)
  const calls = stats.matchAll(/^cmdstat_eval(?:sha)?:calls=(\d+)/gm)
  return {
    memory: read('used_memory'),
    network: read('total_net_input_bytes') + read('total_net_output_bytes'),
    calls: sum(Array.from(calls, ([, one]) => Number(one))),
  }
}

/** Each client of the limits series reaches so many processes and uses so much of its limit. */
export const limitsFleet = { processes: 4, usedShare: 0.8 }
/** Fewer clients where each has a large limit: the whole load is about 500 requests a second. */
const limitSteps = [
  { perMinute: 300, count: 10 },
  { perMinute: 1000, count: 4 },
  { perMinute: 30_000, count: 1 },
]

/** Store calls at different limits, in real minutes, at a constant rate; all points run at once, each on a Redis of its own. */
async function* limits({ minutes }: Pace): AsyncGenerator<Point> {
  yield* await Promise.all(
    limitSteps.map(({ perMinute, count }) =>
      point(perMinute, `${grouped(perMinute)} a minute`, async (started) => {
        const known = benchClients('even', count)
        const fleet = await startFleet(started, {
          size: limitsFleet.processes,
          groups: [{ clients: known, limits: { perMinute, perDay: perMinute * 1440 } }],
        })
        const load: PointLoad = {
          keys: keysOf(known),
          pick: 'turn',
          requestsPerSecond: (count * perMinute * limitsFleet.usedShare) / 60,
        }
        const timing = { warmUpSeconds: 15, windowSeconds: 60, windows: minutes }
        const { requestsPerSecond, storeCalls } = await measurePoint(fleet, load, timing)
        return { more: { requestsPerSecond, storeCalls } }
      }),
    ),
  )
}

/** Requests under way at once over idle connections: fewer than the listener's backlog. */
const lanes = 200

/** Keep-alive connections that have had their request answered and then say nothing. */
async function* connections({ quick, timing }: Pace): AsyncGenerator<Point> {
  const count = quick ? 2000 : 10_000
  yield await point(count, `${grouped(count)} idle connections`, async (started) => {
    if (openFilesLimit() < count + 500)
      throw new Error(`raise the limit of open files: ulimit -n ${count + 500}`)
    const known = benchClients('even', 200)
    const fleet = await startFleet(started, {
      probe: true,
      groups: [{ clients: known, limits: boundlessLimits }],
    })
    return connectionsPoint(fleet, { keys: keysOf(known), count }, timing)
  })
}

async function connectionsPoint(
  fleet: Fleet,
  { keys, count }: { readonly keys: readonly string[]; readonly count: number },
  timing: MeasuredLength,
): Promise<Measured> {
  const { first } = fleet
  await measurePoint(fleet, { keys }, { ...timing, windows: 1 })
  const askers: Asker[] = []
  /** Each connection, which is opened if need be, has a request answered. */
  const askAll = async (): Promise<void> => {
    let [served, next] = [0, 0]
    await inLanes(lanes, async () => {
      for (let nth = next++; nth < count; nth = next++) {
        const asker = (askers[nth] ??= openAsker(portOf(first.origin)))
        const answer = await asker.ask(requestHead(requestPath, { key: keys[nth % keys.length] }))
        if (typeof answer === 'object' && answer.status === 200) served += 1
      }
    })
    const open = askers.filter((asker) => asker.isOpen()).length
    if (open !== count || served !== count)
      throw new Error(`${open} of ${count} connections are open, ${served} were served`)
  }
  await settledHeap(first)
  const quietRssBytes = rssBytes(first.pid)
  await askAll()
  await settledHeap(first)
  const idleRssBytes = rssBytes(first.pid)
  const figures = await measurePoint(fleet, { keys }, { ...timing, warmUpSeconds: 1 })
  // Every connection is still open, and is served when it asks again.
  await askAll()
  return { figures, more: { quietRssBytes, idleRssBytes } }
}

export const series = { clients, processes, limits, connections }
