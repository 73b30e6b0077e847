/** The tables of docs/capacity.md: measured unit costs, and what to deploy by the formulas that stand beside them there. */
import { grouped, table, three } from '../markdown.ts'
import { limitsFleet, type Point, type series } from './series.ts'

export type SeriesName = keyof typeof series

/** What runs have measured, as results.json keeps it. */
export type Results = Partial<Record<SeriesName, SeriesResult>>

interface SeriesResult {
  /** Day of the measurement, UTC. */
  readonly date: string
  readonly machine: string
  readonly versions: string
  readonly points: readonly Point[]
}

/** What the page assumes; none of it is measured. */
const assumed = {
  utilisation: 0.6,
  coresPerHost: 16,
  /** Limit of the average client, and how much of it is used a second. */
  perMinute: 1000,
  clientRate: (1000 * limitsFleet.usedShare) / 60,
  /** A client reaches every process there is, but no more than these: the load balancer keeps it to one host. */
  processesPerClient: 16,
} as const

const rates = [1_000, 100_000, 10_000_000]
const second = 1e6
const MiB = 2 ** 20

type UnitCosts = NonNullable<ReturnType<typeof unitCosts>>

/** Both tables; undefined while a series that they need has not been measured. */
export function capacityTables(results: Results) {
  const costs = unitCosts(results)
  return costs && { measured: measuredTable(results, costs), sizes: sizesTable(costs) }
}

/** Under the letters of the first table, CPU in us, memory and network in bytes; undefined while a series is missing. */
function unitCosts(results: Results) {
  /** Points that count, in ascending order of what grows. */
  const valid = (name: SeriesName) =>
    (results[name]?.points ?? []).flatMap((point) =>
      point.figures ? [{ ...point, figures: point.figures }] : [],
    )
  const [clients, processes] = [valid('clients'), valid('processes')]
  const [few, many] = [clients[0], clients.at(-1)]
  const [one, all] = [processes[0], processes.at(-1)]
  const idle = valid('connections').at(-1)
  const kappa = results.limits?.points.find(({ x }) => x === assumed.perMinute)?.more['storeCalls']
  if (!few || !many || !one || !all || !idle || kappa === undefined) return undefined
  const more = (point: Point, name: string): number => point.more[name] ?? NaN
  const slope = (from: Point, to: Point, name: string): number =>
    (more(to, name) - more(from, name)) / (to.x - from.x)
  const s =
    (many.figures.gatewayMicroseconds - few.figures.gatewayMicroseconds) /
    (many.figures.storeCalls - few.figures.storeCalls)
  return {
    g: few.figures.gatewayMicroseconds - s * few.figures.storeCalls,
    s,
    r: many.figures.redisMicroseconds / many.figures.storeCalls,
    kappa,
    b: more(all, 'redisNetworkBytesPerCall'),
    n: few.figures.networkBytes,
    l: few.figures.logBytes,
    m: Math.max(...processes.map(({ figures }) => figures.rssBytes)),
    h: more(many, 'heapStateLoadedBytes') / many.x,
    f: slope(few, many, 'heapKnowingClientsBytes'),
    t: slope(few, many, 'startSeconds') * 100_000,
    q: more(one, 'redisStateBytesPerClient'),
    p: slope(one, all, 'redisStateBytesPerClient'),
    c: (more(idle, 'idleRssBytes') - more(idle, 'quietRssBytes')) / idle.x,
  }
}

function measuredTable(results: Results, costs: UnitCosts): string {
  const rows: [letter: string, what: string, value: number, series: SeriesName][] = [
    ['g', 'gateway CPU per request that needs no store call, µs', costs.g, 'clients'],
    ['s', 'gateway CPU per store call, µs', costs.s, 'clients'],
    ['r', 'Redis CPU per store call, µs', costs.r, 'clients'],
    ['κ', 'store calls per request, 1,000 a minute at 80 %', costs.kappa, 'limits'],
    ['b', 'network per store call, bytes, both ways', costs.b, 'processes'],
    ['n', 'network per request at the client, bytes, both ways', costs.n, 'clients'],
    ['l', 'access log per request, bytes', costs.l, 'clients'],
    ['m', 'memory of a gateway process under load, MiB', costs.m / MiB, 'processes'],
    ['h', "a client's state in a process that serves it, bytes", costs.h, 'clients'],
    ['f', 'a client in the configuration, bytes in every process', costs.f, 'clients'],
    ['t', 'start of a process, per 100,000 configured clients, s', costs.t, 'clients'],
    ['q', "a client's state in Redis, one process, bytes", costs.q, 'processes'],
    ['p', 'more of it with each further process, bytes', costs.p, 'processes'],
    ['c', 'an idle connection at a gateway, bytes', costs.c, 'connections'],
  ]
  const lines = rows.map(([letter, what, value, series]) => [
    `${letter}: ${what}`,
    three(value),
    `${series} ${results[series]?.date ?? ''}`,
  ])
  const { machine = '', versions = '' } = results.clients ?? {}
  return `${table(['what', 'measured', 'series'], lines)}\n\nOn ${machine}; ${versions}.`
}

/** Each process that serves a client renews a lease of its own, which is a sixteenth of the minute's limit at most. */
const kappaAt = (processes: number, kappa: number): number =>
  Math.min(1, Math.max(16 / assumed.perMinute, (kappa * processes) / limitsFleet.processes))

/** Rounded up wherever one can only buy whole ones. */
function sizeFor(rate: number, costs: UnitCosts) {
  const { utilisation, coresPerHost, clientRate, processesPerClient } = assumed
  const coresAt = (kappa: number): number => (rate * (costs.g + kappa * costs.s)) / second
  // More processes make more calls, and more calls take more processes: it settles at once.
  let processes = 2
  for (let round = 0; round < 20; round++) {
    const kappa = kappaAt(Math.min(processes, processesPerClient), costs.kappa)
    processes = Math.max(2, Math.ceil(coresAt(kappa) / utilisation))
  }
  const reached = Math.min(processes, processesPerClient)
  const kappa = kappaAt(reached, costs.kappa)
  const clients = rate / clientRate
  const hosts = Math.ceil(processes / coresPerHost) + 1
  const calls = rate * kappa
  const redisCores = (calls * costs.r) / second
  const networkBits = 2 * rate * costs.n * 8
  return {
    clients,
    gatewayCores: coresAt(kappa),
    processes,
    hosts,
    processBytes: costs.m + (costs.h * clients * reached) / processes,
    reached,
    kappa,
    calls,
    redisCores,
    masters: Math.max(1, Math.ceil(redisCores / utilisation)),
    redisBytes: clients * (costs.q + (reached - 1) * costs.p),
    storeBits: calls * costs.b * 8,
    networkBits,
    hostBits: networkBits / Math.max(1, hosts - 1),
    logBytes: rate * costs.l,
  }
}

function sizesTable(costs: UnitCosts): string {
  const sizes = rates.map((rate) => sizeFor(rate, costs))
  type Size = (typeof sizes)[number]
  const row = (what: string, value: (size: Size) => string): string[] => [what, ...sizes.map(value)]
  return table(
    ['requests a second (R)', ...rates.map((rate) => grouped(rate))],
    [
      row('clients at work (C)', ({ clients }) => grouped(clients)),
      row('cores busy with gateways', ({ gatewayCores }) => three(gatewayCores)),
      row('gateway processes (G)', ({ processes }) => grouped(processes)),
      row('hosts, one to spare (H)', ({ hosts }) => grouped(hosts)),
      row('memory per process: m + h × C × P / G, MiB', (size) => three(size.processBytes / MiB)),
      row('processes a client reaches (P)', ({ reached }) => grouped(reached)),
      row('store calls per request: κ(P)', ({ kappa }) => three(kappa)),
      row('store calls a second (S)', ({ calls }) => three(calls)),
      row('cores busy with Redis: S × r', ({ redisCores }) => three(redisCores)),
      row('Redis masters (M), each with a replica', ({ masters }) => grouped(masters)),
      row('Redis memory: C × (q + (P − 1) × p), MiB', (size) => three(size.redisBytes / MiB)),
      row('store network: S × b, Mbit/s', ({ storeBits }) => three(storeBits / 1e6)),
      row('network of all hosts (N), Gbit/s', ({ networkBits }) => three(networkBits / 1e9)),
      row('of one host, Gbit/s', ({ hostBits }) => three(hostBits / 1e9)),
      row('access log: R × l, MB/s', ({ logBytes }) => three(logBytes / 1e6)),
    ],
  )
}
