/** The arithmetic of the capacity page: measured unit costs in, sizes out. */
import type { Figures } from './measure.ts'
import type { Results } from './results.ts'
import type { Point } from './series.ts'

/** What the page assumes; none of it is measured. */
export const traffic = {
  utilisation: 0.6,
  coresPerHost: 16,
  hostGigabits: 25,
  /** Limit of the average client, and how much of it is used. */
  perMinute: 1000,
  usedShare: 0.8,
  clientRate: (1000 * 0.8) / 60,
  /** A client reaches every process there is, but no more than these: the load balancer keeps it to one host. */
  processesPerClient: 16,
  answerBytes: 200,
  hostsPerCell: 8,
} as const

/** CPU in us, memory and network in bytes. */
export interface UnitCosts {
  /** Per request without a store call, and for each store call on top. */
  readonly gateway: number
  readonly gatewayPerCall: number
  readonly redisPerCall: number
  /** Store calls per request of the average client, of one with 300 a minute and of one with 30,000. */
  readonly kappa: number
  readonly smallKappa: number
  readonly largeClientKappa: number
  readonly networkPerCall: number
  readonly networkPerRequest: number
  readonly logPerRequest: number
  readonly processBytes: number
  /** Of a client's quota state in a process that serves it. */
  readonly clientBytes: number
  /** Of a client that the configuration names. */
  readonly configuredBytes: number
  /** Per 100,000 configured clients. */
  readonly startSeconds: number
  readonly redisBytes: number
  readonly redisBytesPerProcess: number
  readonly connectionBytes: number
  /** Tokens of the average client that one process holds: at most, and at its rate. */
  readonly leaseAtMost: number
  readonly leaseAtRate: number
  /** Requests a second that a full host serves. */
  readonly hostRate: number
  readonly callsPerMaster: number
  readonly largeClientCalls: number
}

export interface Sizing {
  readonly rate: number
  readonly clients: number
  readonly clientsPerProcess: number
  readonly gatewayCores: number
  readonly processes: number
  readonly hosts: number
  readonly processBytes: number
  readonly calls: number
  readonly redisCores: number
  readonly masters: number
  readonly redisBytes: number
  readonly storeBits: number
  readonly networkBits: number
  readonly hostBits: number
  readonly logBytes: number
  readonly cells: number
  readonly cellRate: number
  readonly cellClients: number
  readonly cellCalls: number
  readonly cellMasters: number
  readonly processesPerClient: number
  /** Store calls per request. */
  readonly kappa: number
}

const second = 1e6
/** A lease is sized to last so long, and holds at most this part of the minute; src/core/quota/lease-size.ts. */
const leaseSeconds = 10
const leasePart = 1 / 16
/** Each client of the limits series reaches so many. */
export const measuredProcesses = 4

type Valid = Point & { readonly figures: Figures }

/** The costs, or what is missing to tell them. */
export function unitCosts({ series, limits }: Results): UnitCosts | string {
  const valid = (name: keyof typeof series): Valid[] =>
    (series[name]?.points ?? []).flatMap((point) =>
      point.figures ? [{ ...point, figures: point.figures }] : [],
    )
  const ends = (name: keyof typeof series): [Valid, Valid] | undefined => {
    const points = valid(name)
    const [first, last] = [points[0], points.at(-1)]
    return first && last && first !== last ? [first, last] : undefined
  }
  const kappaOf = (perMinute: number): number | undefined =>
    limits?.points.find((point) => point.perMinute === perMinute && point.offered === 0.8)?.figures
      ?.storeCalls
  const [clients, processes, connections] = [
    ends('clients'),
    ends('processes'),
    ends('connections'),
  ]
  const [kappa, smallKappa, largeKappa] = [traffic.perMinute, 300, 30_000].map(kappaOf)
  if (!clients || !processes || !connections)
    return 'the series clients, processes and connections are not all there'
  if (kappa === undefined || smallKappa === undefined || largeKappa === undefined)
    return 'the series limits is not there'

  const more = (point: Point, name: string): number => point.more[name] ?? NaN
  const [few, many] = clients
  const [one, all] = processes
  const [none, idle] = connections
  const perCall =
    (many.figures.gatewayMicroseconds.median - few.figures.gatewayMicroseconds.median) /
    (many.figures.storeCalls - few.figures.storeCalls)
  const gateway = few.figures.gatewayMicroseconds.median - perCall * few.figures.storeCalls
  const redisPerCall = many.figures.redisMicroseconds.median / many.figures.storeCalls
  const slope = (from: Point, to: Point, name: string): number =>
    (more(to, name) - more(from, name)) / (to.x - from.x)
  const ratePerProcess = traffic.clientRate / measuredProcesses
  // Renewed when a quarter is left, so a little more than one lease can be in hand.
  const leaseAtMost = 1.25 * Math.floor(traffic.perMinute * leasePart)
  return {
    gateway,
    gatewayPerCall: perCall,
    redisPerCall,
    kappa,
    smallKappa,
    largeClientKappa: largeKappa,
    networkPerCall: more(all, 'redisNetworkBytesPerCall'),
    networkPerRequest: few.figures.networkBytes,
    logPerRequest: few.figures.logBytes,
    processBytes: Math.max(...processes.map(({ figures }) => figures.rssBytes)),
    clientBytes: more(many, 'heapStateLoadedBytes') / many.x,
    configuredBytes: slope(few, many, 'heapKnowingClientsBytes'),
    startSeconds: slope(few, many, 'startSeconds') * 100_000,
    redisBytes: more(one, 'redisStateBytesPerClient'),
    redisBytesPerProcess: slope(one, all, 'redisStateBytesPerClient'),
    connectionBytes: slope(none, idle, 'idleRssBytes'),
    leaseAtMost,
    leaseAtRate: Math.min(leaseAtMost, 1.25 * ratePerProcess * leaseSeconds),
    hostRate: (traffic.coresPerHost * traffic.utilisation * second) / (gateway + kappa * perCall),
    callsPerMaster: (traffic.utilisation * second) / redisPerCall,
    largeClientCalls: (30_000 / 60) * 0.8 * largeKappa,
  }
}

/** Store calls per request of a client that reaches so many processes: each renews a lease of its own as often. */
export function kappaAt(processes: number, kappa: number): number {
  const largestLease = traffic.perMinute * leasePart
  return Math.min(1, Math.max(1 / largestLease, (kappa * processes) / measuredProcesses))
}

/** Rounded up wherever one can only buy whole ones. reach: processes a client reaches at most. */
export function sizeFor(
  rate: number,
  costs: UnitCosts,
  reach: number = traffic.processesPerClient,
): Sizing {
  const { utilisation, coresPerHost, clientRate, hostsPerCell } = traffic
  const clients = rate / clientRate
  const gatewayCoresAt = (kappa: number): number =>
    (rate * (costs.gateway + kappa * costs.gatewayPerCall)) / second
  // More processes make more calls, and more calls take more processes: it settles at once.
  let processes = 2
  for (let round = 0; round < 20; round++) {
    const cores = gatewayCoresAt(kappaAt(Math.min(processes, reach), costs.kappa))
    processes = Math.max(2, Math.ceil(cores / utilisation))
  }
  const processesPerClient = Math.min(processes, reach)
  const kappa = kappaAt(processesPerClient, costs.kappa)
  const gatewayCores = gatewayCoresAt(kappa)
  const hosts = Math.ceil(processes / coresPerHost) + 1
  const calls = rate * kappa
  const redisCores = (calls * costs.redisPerCall) / second
  const networkBits = 2 * rate * costs.networkPerRequest * 8
  const cells = Math.ceil(hosts / hostsPerCell)
  const clientsPerProcess = (clients * processesPerClient) / processes
  const mastersFor = (load: number): number =>
    Math.max(1, Math.ceil((load * costs.redisPerCall) / second / utilisation))
  return {
    rate,
    clients,
    clientsPerProcess,
    gatewayCores,
    processes,
    hosts,
    processBytes: costs.processBytes + costs.clientBytes * clientsPerProcess,
    calls,
    redisCores,
    masters: mastersFor(calls),
    redisBytes:
      clients * (costs.redisBytes + (processesPerClient - 1) * costs.redisBytesPerProcess),
    storeBits: calls * costs.networkPerCall * 8,
    networkBits,
    hostBits: networkBits / Math.max(1, hosts - 1),
    logBytes: rate * costs.logPerRequest,
    cells,
    cellRate: rate / cells,
    cellClients: clients / cells,
    cellCalls: calls / cells,
    cellMasters: mastersFor(calls / cells),
    processesPerClient,
    kappa,
  }
}
