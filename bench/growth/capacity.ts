/** docs/capacity.md: what to deploy, computed from the measured figures, with every formula beside its number. */
import { join } from 'node:path'
import { table } from '../markdown.ts'
import { grouped, three, writeFormatted } from './markdown.ts'
import {
  measuredProcesses,
  sizeFor,
  traffic,
  unitCosts,
  type Sizing,
  type UnitCosts,
} from './capacity-model.ts'
import type { Results } from './results.ts'

const page = join(import.meta.dirname, '../../docs/capacity.md')

/** Leaves the page alone, and says so, while a series it needs has not been measured. */
export async function writeCapacityPage(results: Results): Promise<void> {
  const costs = unitCosts(results)
  if (typeof costs === 'string') {
    process.stderr.write(`docs/capacity.md stays as it is: ${costs}\n`)
    return
  }
  await writeFormatted(page, capacityPage(results, costs))
}

const rates = [1_000, 100_000, 10_000_000]

function capacityPage(results: Results, costs: UnitCosts): string {
  const sizes = rates.map((rate) => sizeFor(rate, costs))
  return `# Capacity

What to deploy for 1,000, 100,000 and 10 million requests a second, and what gives way first. Every number below follows from a measured one by the formula beside it;
this page is made by \`npm run bench:growth -- --write\`, from \`bench/growth/results.json\`. Measure on your own machines before you buy: a core there is not a core here.

## What was measured

${measured(results, costs)}

The store calls were measured with ${measuredProcesses} processes per client. A process that serves a client holds a lease of its own, which lasts about 10 s whatever the rate, so calls grow with the number of
processes that a client reaches, P: \`κ(P) = κ × P / ${measuredProcesses}\`, at most 1 and at least \`16 / limit\`, as a lease is a sixteenth of the minute's limit at most.

## What is assumed

- Cores are used to ${traffic.utilisation * 100} %: the rest is for peaks, for a host that fails and for restarts.
- A host has ${traffic.coresPerHost} cores and runs one gateway process on each (\`server.workers: auto\`); its network is ${traffic.hostGigabits} Gbit/s.
- The average client has ${grouped(traffic.perMinute)} requests a minute and uses ${traffic.usedShare * 100} % of them, ${three(traffic.clientRate)} a second. Answers are small (${grouped(traffic.answerBytes)} bytes);
  larger ones cost what the table of bodies in [bench/README.md](../bench/README.md) says, and the network what they weigh.
- A client reaches every process, while they all fit on one host; beyond, the load balancer keeps it to one host by a consistent hash of the \`Authorization\` header, so it reaches the ${traffic.processesPerClient} processes there.

## What to deploy

${deployment(sizes)}

${formulas()}

## What breaks first, and what to do then

${breakages(sizes, costs)}

## Who gets a backend's connections

A process keeps \`upstream.connections\` to each backend, C, 128 by default. They carry at most \`C / time of an answer\` requests a second: with answers of 25 s that is 5, with answers of 10 ms 12,800.
One client has \`plans.NAME.concurrent\` of them at most, a quarter by default. The last eighth, 16 of 128, goes only to clients that hold few, requests and WebSockets of all backends together: fewer than a quarter of what is free. Whoever holds more waits in line, clients by turns.

- Four clients with slow answers that ask for a quarter each hold 112. A fifth has 4 at once, and any number one after the other.
- It takes 13 clients that hold all they get, for as long as their answers take, until one that holds none has to wait for a permit: 8 where C is 32, 10 where it is 64, 16 where it is 256. Raise \`connections\`, or lower \`concurrent\`, where accounts cost nothing.
- The price: clients that together ask for more than 7/8 of C get 7/8. Set \`connections\` to 8/7 of what a backend is to carry at once.
- Below 8 connections nothing is kept free, and with 8 to 31 one client alone may hold all but the last eighth.

## Quota that a crash strands

Tokens are deducted before they are spent, so a crash never lets too many through; it can only strand what the process held. A process asks for what it would spend of one client in
10 s, at most a sixteenth of the minute's limit, and asks again when a quarter is left:

    stranded ≤ processes lost × 5/4 × min(limit / 16, client's rate at that process × 10 s)     per client, never more than the limit

- Minute tokens come back when the minute ends: at most 60 s. Day tokens stay deducted until the UTC day ends.
- At ${grouped(traffic.perMinute)} a minute that is at most ${grouped(costs.leaseAtMost)} tokens per process lost, and at ${three(traffic.clientRate)} requests a second over ${measuredProcesses} processes
  ${three(costs.leaseAtRate)} of them: ${three((100 * costs.leaseAtRate) / traffic.perMinute)} % of one minute, and of a day of 100,000 requests ${three((100 * costs.leaseAtRate) / 100_000)} %.
- A host with ${traffic.coresPerHost} processes that dies strands, over all its clients, at most
  \`5/4 × rate of the host × 10 s\`: 1.25 × ${three(costs.hostRate)} × 10 = ${three(costs.hostRate * 12.5)} tokens, out of the ${three(costs.hostRate * 60)} that pass through it in a minute.
- A drain (SIGTERM) hands everything back; nothing is stranded by a deployment.

## One client that is larger than the rest

All calls of one client go to one Redis master, since its counters are one hash in one slot. A master used to ${traffic.utilisation * 100} % answers ${grouped(costs.callsPerMaster)} calls a second
(\`1,000,000 µs × ${traffic.utilisation} / r\`). A client of 30,000 requests a minute makes ${three(costs.largeClientCalls)} calls a second over four processes (\`30,000 / 60 × 0.8 × κ\`, κ = ${three(costs.largeClientKappa)});
since a lease lasts about 10 s, more requests do not make more calls, and more processes do: a client that reaches 1,000 processes makes some 100 calls a second.
`
}

function measured(results: Results, costs: UnitCosts): string {
  const { series, limits } = results
  const day = (result: { readonly date: string } | undefined): string => result?.date ?? ''
  const rows: [string, string, string, string][] = [
    [
      'g',
      'gateway CPU per request that needs no store call, µs',
      three(costs.gateway),
      `clients ${day(series.clients)}`,
    ],
    [
      's',
      'gateway CPU per store call, µs',
      three(costs.gatewayPerCall),
      `clients ${day(series.clients)}`,
    ],
    [
      'r',
      'Redis CPU per store call, µs',
      three(costs.redisPerCall),
      `clients ${day(series.clients)}`,
    ],
    [
      'κ',
      `store calls per request, ${grouped(traffic.perMinute)} a minute at ${traffic.usedShare * 100} %`,
      three(costs.kappa),
      `limits ${day(limits)}`,
    ],
    [
      'b',
      'network per store call, bytes, both ways',
      three(costs.networkPerCall),
      `processes ${day(series.processes)}`,
    ],
    [
      'n',
      'network per request at the client, bytes, both ways',
      three(costs.networkPerRequest),
      `clients ${day(series.clients)}`,
    ],
    [
      'l',
      'access log per request, bytes',
      three(costs.logPerRequest),
      `clients ${day(series.clients)}`,
    ],
    [
      'm',
      'memory of a gateway process under load, MiB',
      three(costs.processBytes / 2 ** 20),
      `processes ${day(series.processes)}`,
    ],
    [
      'h',
      "a client's state in a process that serves it, bytes",
      three(costs.clientBytes),
      `clients ${day(series.clients)}`,
    ],
    [
      'f',
      'a client in the configuration, bytes in every process',
      three(costs.configuredBytes),
      `clients ${day(series.clients)}`,
    ],
    [
      't',
      'start of a process, per 100,000 configured clients, s',
      three(costs.startSeconds),
      `clients ${day(series.clients)}`,
    ],
    [
      'q',
      "a client's state in Redis, one process, bytes",
      three(costs.redisBytes),
      `processes ${day(series.processes)}`,
    ],
    [
      'p',
      'more of it with each further process, bytes',
      three(costs.redisBytesPerProcess),
      `processes ${day(series.processes)}`,
    ],
    [
      'c',
      'an idle connection at a gateway, bytes',
      three(costs.connectionBytes),
      `connections ${day(series.connections)}`,
    ],
  ]
  const machine =
    series.clients === undefined
      ? ''
      : `\n\nOn ${series.clients.machine}; ${series.clients.versions}.`
  return `${textTable(['', 'what', 'measured', 'series'], rows)}${machine}`
}

/** All columns but the third are text. */
function textTable(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const widths = head.map((title, column) =>
    Math.max(4, title.length, ...rows.map((row) => row[column]?.length ?? 0)),
  )
  const line = (cells: readonly string[]): string =>
    `| ${widths.map((width, column) => (column === 2 ? (cells[column] ?? '').padStart(width) : (cells[column] ?? '').padEnd(width))).join(' | ')} |`
  const rule = widths.map((width, column) =>
    column === 2 ? `${'-'.repeat(width - 1)}:` : '-'.repeat(width),
  )
  return [line(head), line(rule), ...rows.map(line)].join('\n')
}

function deployment(sizes: readonly Sizing[]): string {
  const row = (what: string, value: (size: Sizing) => string): string[] => [
    what,
    ...sizes.map(value),
  ]
  return table(
    ['requests a second (R)', ...sizes.map(({ rate }) => grouped(rate))],
    [
      row('clients at work (C)', ({ clients }) => grouped(clients)),
      row('cores busy with gateways', ({ gatewayCores }) => three(gatewayCores)),
      row('gateway processes (G)', ({ processes }) => grouped(processes)),
      row('hosts, one to spare (H)', ({ hosts }) => grouped(hosts)),
      row('memory per process: m + h × C × P / G, MiB', ({ processBytes }) =>
        three(processBytes / 2 ** 20),
      ),
      row('processes a client reaches (P)', ({ processesPerClient }) =>
        grouped(processesPerClient),
      ),
      row('store calls per request: κ(P)', ({ kappa }) => three(kappa)),
      row('store calls a second (S)', ({ calls }) => three(calls)),
      row('cores busy with Redis: S × r', ({ redisCores }) => three(redisCores)),
      row('Redis masters (M), each with a replica', ({ masters }) => grouped(masters)),
      row('Redis memory: C × (q + (P − 1) × p), MiB', ({ redisBytes }) =>
        three(redisBytes / 2 ** 20),
      ),
      row('store network: S × b, Mbit/s', ({ storeBits }) => three(storeBits / 1e6)),
      row('network of all hosts (N), Gbit/s', ({ networkBits }) => three(networkBits / 1e9)),
      row('of one host, Gbit/s', ({ hostBits }) => three(hostBits / 1e9)),
      row('access log: R × l, MB/s', ({ logBytes }) => three(logBytes / 1e6)),
    ],
  )
}

function formulas(): string {
  const available = `(1,000,000 µs × ${traffic.utilisation})`
  const rows: [string, string][] = [
    ['R', 'requests a second'],
    ['C', `clients at work: \`R / ${three(traffic.clientRate)}\``],
    ['G', `gateway processes: \`R × (g + κ(P) × s) / ${available}\`, rounded up, at least 2`],
    ['H', `hosts: \`G / ${traffic.coresPerHost}\`, rounded up, and one more, as one may fail`],
    ['S', 'store calls a second: `R × κ(P)`'],
    ['M', `Redis masters: \`S × r / ${available}\`, rounded up, as scripts run on one core`],
    ['N', 'network of all hosts: `2 × R × n × 8 bit`, to the clients and to the backends'],
  ]
  return textTable(['', 'formula'], rows)
}

function breakages(sizes: readonly Sizing[], costs: UnitCosts): string {
  const [small, middle, large] = sizes
  if (!small || !middle || !large) return ''
  const smallKappa = Math.min(1, (costs.smallKappa * middle.processesPerClient) / measuredProcesses)
  const unrouted = sizeFor(large.rate, costs, Infinity)
  return `### 1,000 requests a second

Nothing is near a limit: ${three(small.gatewayCores * 100)} % of one core for the gateways, ${three(small.redisCores * 100)} % of one for Redis. What breaks first is whatever there is only one of.

- **A gateway process.** Run two, on two hosts, behind any load balancer that asks \`/readyz\`.
- **Redis.** Run it with a replica and three sentinels (\`store.redis: { sentinels: … }\`). While it is away, \`store.onOutage\` decides: \`local\` goes on with each process's share of the limits.
- On one host no Redis is needed: the embedded store keeps the counts of all workers, in memory and in a file.

### 100,000 requests a second

${grouped(middle.processes)} gateway processes; Redis has ${three(middle.calls)} calls a second to answer and one master is ${three(middle.redisCores * 100)} % busy. What breaks first:

- **Skew between gateways.** A process that gets half as much again as the others is full while they idle: balance by requests under way (least connections), not by turns, and spread long-lived connections.
- **The access log**: ${three(middle.logBytes / 1e6)} MB/s. Ship it from each host, or set \`log.access: false\` and live with the metrics.
- **Idle connections**: each costs ${three(costs.connectionBytes / 1024)} KiB at a gateway, 100,000 of them ${three((costs.connectionBytes * 1e5) / 2 ** 20)} MiB over all processes; raise \`ulimit -n\` above what one process may get.
- **Many small plans.** They lease little: at 300 a minute κ(${middle.processesPerClient}) is ${three(smallKappa)} rather than ${three(middle.kappa)}, and at 60 a minute every request is a call. If all clients had 300, Redis would have ${three(middle.rate * smallKappa)} calls a second, which is ${three((middle.rate * smallKappa * costs.redisPerCall) / 1e4)} % of a core.
  Above ${traffic.utilisation * 100} % go to a Redis Cluster: every client is one key, so calls spread over the slots by themselves.

### 10 million requests a second

${grouped(large.processes)} gateway processes on ${grouped(large.hosts)} hosts. What breaks first is leasing, long before CPU does:

- **Clients that reach every process.** If requests went to all ${grouped(large.processes)} processes at random, each would see ${three(traffic.clientRate / large.processes)} requests a second of a client, no lease would be used up before it has to go back, and almost every request would be a store call (κ = ${three(unrouted.kappa)}):
  ${three(unrouted.calls)} calls a second, ${grouped(unrouted.masters)} Redis masters and ${grouped(unrouted.processes)} gateway processes instead of ${grouped(large.masters)} and ${grouped(large.processes)}.
  Hence the hash of the \`Authorization\` header to one host, with a bound on the load of each. A client with several keys reaches as many hosts; tokens that are renewed want a hash of what stays, such as a claim.
- **The reclaim channel.** Every process hears every reclaim, and every node of a Redis Cluster hears every publish; with thousands of processes on one cluster that would be most of its work. So cut the whole into **cells** of ${traffic.hostsPerCell} hosts
  with a Redis of their own: ${grouped(large.cells)} cells, each of ${grouped(large.cellRate)} requests a second, ${grouped(large.cellClients)} clients and ${three(large.cellCalls)} store calls a second on ${counted(large.cellMasters, 'master')}. A client belongs to one cell; a cell that fails takes ${three(100 / large.cells)} % of the clients with it, and only those.
- **The configuration file.** ${grouped(large.clients)} clients in one file mean ${three((costs.startSeconds * large.clients) / 1e5)} s of start and ${three((costs.configuredBytes * large.clients) / 2 ** 20)} MiB in every process (t, f). Give each cell only its own clients, or issue JWTs, whose clients need no entry.
- **Clients known to one process.** A process remembers 100,000 clients; beyond that the least recent are forgotten and asked for anew, one store call each. A process above would have ${grouped(large.clientsPerProcess)}.
- **Network**: ${three(large.networkBits / 1e9)} Gbit/s over all hosts, ${three(large.hostBits / 1e9)} on each of ${traffic.hostGigabits}; and ${three(large.logBytes / 1e9)} GB/s of access log, which has to be sampled or left out.`
}

function counted(count: number, noun: string): string {
  return `${grouped(count)} ${noun}${count === 1 ? '' : 's'}`
}
