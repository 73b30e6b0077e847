/** The series of the growth run: what grows, by how much, and what is measured beside the common figures. */
import type { RedisServer } from '../../test/support/redis-server.ts'
import { ample } from './clients.ts'
import {
  measurePoint,
  requestPath,
  touchEveryClient,
  type Figures,
  type PointLoad,
  type Timing,
} from './measure.ts'
import { grouped } from './markdown.ts'
import { openFilesLimit, rssBytes } from './proc.ts'
import { cpuMicroseconds } from '../cpu.ts'
import { createWorkbench, type FleetOrder, type Workbench } from './workbench.ts'
import { setTimeout as sleep } from 'node:timers/promises'

export interface Pace {
  readonly timing: Timing
  /** For points whose store calls matter: the measured time is longer than a lease lasts, 10 s. */
  readonly leaseTiming: Timing
  /** The largest points are left out. */
  readonly quick: boolean
}

export interface Point {
  /** Position on the axis of what grows. */
  readonly x: number
  readonly label: string
  /** Why the point does not count; undefined for a valid one. */
  readonly invalid?: string
  readonly figures?: Figures
  /** What only this series measures; units are in the names. */
  readonly more: Readonly<Record<string, number>>
}

type Progress = (point: Point) => void

/** Runs a point with processes of its own; one that fails is marked and the others go on. */
async function point(
  { x, label }: Pick<Point, 'x' | 'label'>,
  run: (workbench: Workbench) => Promise<Pick<Point, 'figures' | 'more'>>,
): Promise<Point> {
  const workbench = createWorkbench()
  try {
    return { x, label, ...(await run(workbench)) }
  } catch (error) {
    if (workbench.stopping()) throw error
    const { message } = error as Error
    return { x, label, invalid: message.replaceAll(/\s+/g, ' ').slice(0, 300), more: {} }
  } finally {
    await workbench.end()
  }
}

async function startSubject(
  workbench: Workbench,
  fleetOrder: Omit<FleetOrder, 'name' | 'backend' | 'redis'>,
) {
  const backend = await workbench.backend()
  const redis = await workbench.redis()
  const order = { name: 'growth', backend: backend.origin, redis: redis.url, ...fleetOrder }
  return { workbench, backend, redis, fleet: await workbench.fleet(order) }
}

/** Clients that one gateway knows and serves; every one of them sends. */
export async function clientsSeries(pace: Pace, onPoint: Progress): Promise<Point[]> {
  const points: Point[] = []
  for (const clients of pace.quick ? [10, 1000, 10_000] : [10, 1000, 10_000, 100_000]) {
    const measured = await point({ x: clients, label: `${grouped(clients)} clients` }, (bench) =>
      clientsPoint(bench, clients, pace),
    )
    onPoint(measured)
    points.push(measured)
  }
  return points
}

async function clientsPoint(workbench: Workbench, clients: number, { leaseTiming }: Pace) {
  const limits = { perMinute: 1_000_000, perDay: 1_000_000_000 }
  const group = { name: 'even', count: clients, limits }
  // Requests of these few warm the process up without meeting a client of the other group.
  const warm = { name: 'warm', count: 10, limits: ample }
  const subject = await startSubject(workbench, { size: 1, groups: [group, warm], probe: true })
  const [gateway] = subject.fleet
  const rssAtStartBytes = rssBytes(gateway.pid)
  const short = { warmUpSeconds: 1, windowSeconds: 0.5, windows: 1 }
  await measurePoint(subject, { group: 'warm', clients: 10 }, short)
  const before = await settledHeap(gateway)
  const redisBefore = redisMemoryBytes(subject.redis)
  const load = { group: 'even', clients }
  await touchEveryClient(subject, load)
  const after = await settledHeap(gateway)
  const redisAfter = redisMemoryBytes(subject.redis)
  const figures = await measurePoint(subject, load, leaseTiming)
  const loaded = await settledHeap(gateway)
  return {
    figures: { ...figures, rssIdleBytes: rssAtStartBytes },
    more: {
      startSeconds: gateway.startSeconds,
      heapKnowingClientsBytes: before,
      /** What the clients' quota state adds to the heap once each has sent a request. */
      heapStateBytes: after - before,
      heapStateLoadedBytes: loaded - before,
      redisStateBytes: redisAfter - redisBefore,
    },
  }
}

/** Live bytes, buffers included, once idle holds have gone back and the log is written. */
async function settledHeap(gateway: {
  heap(): Promise<{ heapBytes: number; externalBytes: number }>
}): Promise<number> {
  await sleep(1000)
  const { heapBytes, externalBytes } = await gateway.heap()
  return heapBytes + externalBytes
}

function redisMemoryBytes(redis: RedisServer): number {
  return Number(/^used_memory:(\d+)/m.exec(redis.cli('INFO', 'memory'))?.[1] ?? NaN)
}

function redisNetworkBytes(redis: RedisServer): number {
  const stats = redis.cli('INFO', 'stats')
  const read = (name: string): number =>
    Number(new RegExp(`^${name}:(\\d+)`, 'm').exec(stats)?.[1] ?? NaN)
  return read('total_net_input_bytes') + read('total_net_output_bytes')
}

const spreadClients = 1000

/** Gateway processes on one Redis; 1,000 clients reach all of them. */
export async function processesSeries(pace: Pace, onPoint: Progress): Promise<Point[]> {
  const points: Point[] = []
  for (const size of [1, 4, 8]) {
    const label = size === 1 ? '1 process' : `${size} processes`
    const measured = await point({ x: size, label }, (bench) => processesPoint(bench, size, pace))
    onPoint(measured)
    points.push(measured)
  }
  return points
}

async function processesPoint(workbench: Workbench, size: number, { leaseTiming }: Pace) {
  const group = { name: 'even', count: spreadClients, limits: { perMinute: 60_000, perDay: 1e9 } }
  const subject = await startSubject(workbench, { size, groups: [group] })
  const redisBefore = redisMemoryBytes(subject.redis)
  const load = { group: 'even', clients: spreadClients }
  const networkBefore = redisNetworkBytes(subject.redis)
  const figures = await measurePoint(subject, load, leaseTiming)
  const calls = redisCalls(subject.redis)
  return {
    figures,
    more: {
      redisStateBytesPerClient: (redisMemoryBytes(subject.redis) - redisBefore) / spreadClients,
      redisNetworkBytesPerCall: (redisNetworkBytes(subject.redis) - networkBefore) / calls,
    },
  }
}

/** How often the script has run since Redis started. */
function redisCalls(redis: RedisServer): number {
  const text = redis.cli('INFO', 'commandstats')
  return [...text.matchAll(/^cmdstat_eval(?:sha)?:calls=(\d+)/gm)].reduce(
    (total, [, calls]) => total + Number(calls),
    0,
  )
}

/** Four processes; the share of the requests that one client of 1,000 sends. */
export async function hotKeySeries(pace: Pace, onPoint: Progress): Promise<Point[]> {
  const points: Point[] = []
  for (const hotShare of [0, 0.5, 1]) {
    const label =
      hotShare === 0 ? 'even' : hotShare === 1 ? 'all on one client' : 'half on one client'
    const measured = await point({ x: hotShare, label }, async (workbench) => {
      const group = { name: 'hot', count: spreadClients, limits: ample }
      const subject = await startSubject(workbench, { size: 4, groups: [group] })
      const load = { group: 'hot', clients: spreadClients, hotShare }
      return { figures: await measurePoint(subject, load, pace.leaseTiming), more: {} }
    })
    onPoint(measured)
    points.push(measured)
  }
  return points
}

const MiB = 1024 * 1024

/** Bodies of answers and of uploads, through one gateway. */
export async function bodiesSeries(pace: Pace, onPoint: Progress): Promise<Point[]> {
  const points: Point[] = []
  for (const direction of ['download', 'upload'] as const)
    for (const bytes of [1024, 100 * 1024, 10 * MiB]) {
      const label = `${direction} of ${bytes < MiB ? `${bytes / 1024} KiB` : `${bytes / MiB} MiB`}`
      const measured = await point({ x: bytes, label }, (workbench) =>
        bodiesPoint(workbench, { direction, bytes }, pace),
      )
      onPoint(measured)
      points.push(measured)
    }
  return points
}

async function bodiesPoint(
  workbench: Workbench,
  { direction, bytes }: { direction: 'download' | 'upload'; bytes: number },
  { timing }: Pace,
) {
  const group = { name: 'even', count: 200, limits: { perMinute: 60_000, perDay: 1e9 } }
  const subject = await startSubject(workbench, {
    size: 1,
    groups: [group],
    overrides: {
      server: { listen: '127.0.0.1:0', basePath: '/v1', limits: { bodyBytes: '16MiB' } },
    },
  })
  // Fewer connections with larger bodies, so that a window sees whole requests of each.
  const connections = bytes < MiB ? 64 : 16
  const load: PointLoad =
    direction === 'download'
      ? { group: 'even', clients: 200, path: `/v1/pets?bytes=${bytes}`, bodyBytes: bytes }
      : { group: 'even', clients: 200, path: '/v1/pets', method: 'POST', uploadBytes: bytes }
  const figures = await measurePoint(subject, { ...load, connections }, timing)
  return {
    figures,
    more: {
      connections,
      mebibytesPerSecond: (figures.requestsPerSecond * bytes) / MiB,
      gatewayMicrosecondsPerMebibyte: figures.gatewayMicroseconds.median / (bytes / MiB),
    },
  }
}

/** Keep-alive connections that have had their request answered and then say nothing. */
export async function connectionsSeries(pace: Pace, onPoint: Progress): Promise<Point[]> {
  const workbench = createWorkbench()
  const points: Point[] = []
  const steps = pace.quick ? [0, 1000, 2000] : [0, 2500, 5000, 7500, 10_000]
  let x = 0
  try {
    const most = steps.at(-1) ?? 0
    const needed = most + 500
    if (openFilesLimit() < needed)
      throw new Error(`raise the limit of open files: ulimit -n ${needed}`)
    const clients = 200
    const subject = await startSubject(workbench, {
      size: 1,
      probe: true,
      groups: [{ name: 'even', count: clients, limits: ample }],
      overrides: { server: { listen: '127.0.0.1:0', basePath: '/v1', timeouts: { idle: '10m' } } },
    })
    const [gateway] = subject.fleet
    const load = { group: 'even', clients }
    await measurePoint(subject, load, { ...pace.timing, windows: 1 })
    const holder = workbench.generator('idle.ts')
    const order = { port: gateway.port, group: 'even', clients, path: requestPath }
    for (x of steps) {
      const first = await holder.ask({ ...order, connections: x })
      if (first.faults.length > 0) throw new Error(first.faults.join(', '))
      const heapBytes = await settledHeap(gateway)
      const idleRssBytes = rssBytes(gateway.pid)
      const cpuBefore = cpuMicroseconds(gateway.pid)
      await sleep(pace.timing.windowSeconds * 1000)
      const idleCpuShare =
        (cpuMicroseconds(gateway.pid) - cpuBefore) / (pace.timing.windowSeconds * 1e6)
      const figures = await measurePoint(subject, load, { ...pace.timing, warmUpSeconds: 1 })
      const again = await holder.ask({ ...order, connections: x })
      if (again.faults.length > 0) throw new Error(again.faults.join(', '))
      if (again.open !== x || again.served !== x)
        throw new Error(`${again.open} of ${x} connections left, ${again.served} served`)
      const measured = {
        x,
        label: `${grouped(x)} idle connections`,
        figures,
        more: { heapBytes, idleRssBytes, idleCpuShare },
      }
      onPoint(measured)
      points.push(measured)
    }
  } catch (error) {
    if (workbench.stopping()) throw error
    const { message } = error as Error
    const invalid = message.replaceAll(/\s+/g, ' ').slice(0, 300)
    points.push({ x, label: `${grouped(x)} idle connections`, invalid, more: {} })
  } finally {
    await workbench.end()
  }
  return points
}
