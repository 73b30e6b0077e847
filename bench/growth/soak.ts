/** `node bench/growth/soak.ts`: minutes of everything at once, and whether memory still grows at their end. */
import { setTimeout as sleep } from 'node:timers/promises'
import { parseArgs } from 'node:util'
import { median } from '../markdown.ts'
import { metricsPage, sumOf } from './metrics.ts'
import { sum } from './measure.ts'
import { writePlots } from './plots.ts'
import { rssBytes } from './proc.ts'
import { render } from './render.ts'
import { report, soakGrowthTarget } from './report.ts'
import {
  describeRun,
  readResults,
  writeResults,
  type SoakResult,
  type SoakSample,
} from './results.ts'
import type { SoakReport } from './soak-load.ts'
import {
  createWorkbench,
  endAllWorkbenches,
  isStopping,
  type GrowthGateway,
  type Workbench,
} from './workbench.ts'
import type { RedisServer } from '../../test/support/redis-server.ts'

const usage = `usage: node bench/growth/soak.ts [--minutes 10] [--write]
  --minutes  how long it lasts, 1 to 1440
  --write    keep the result, and replace the figures in bench/README.md; the plot is written always`

const gateways = 2
const clients = 10_000
const exhaustedClients = 100

async function soak(minutes: number): Promise<SoakResult> {
  const workbench = createWorkbench()
  try {
    const backend = await workbench.backend('--errors', '0.1')
    const redis = await workbench.redis()
    const fleet = await workbench.fleet({
      name: 'soak',
      size: gateways,
      probe: true,
      backend: backend.origin,
      redis: redis.url,
      groups: [
        { name: 'churning', count: clients, limits: { perMinute: 60_000, perDay: 1e9 } },
        { name: 'exhausted', count: exhaustedClients, limits: { perMinute: 10, perDay: 100 } },
      ],
      // As in production: keys that go on after a 429 are banned.
      overrides: { bans: {} },
    })
    return await run({ workbench, fleet, redis, minutes })
  } finally {
    await workbench.end()
  }
}

interface Soak {
  readonly workbench: Workbench
  readonly fleet: readonly GrowthGateway[]
  readonly redis: RedisServer
  readonly minutes: number
}

async function run({ workbench, fleet, redis, minutes }: Soak): Promise<SoakResult> {
  const traffic = workbench.generator('soak-load.ts')
  await traffic.ask({
    start: {
      ports: fleet.map(({ port }) => port),
      busy: 56,
      slowReaders: 20,
      slowWriters: 20,
      group: 'churning',
      clients,
      exhaustedGroup: 'exhausted',
      exhaustedClients,
    },
  })
  const startedMs = performance.now()
  const lastsSeconds = minutes * 60
  const everySeconds = Math.max(1, Math.min(10, lastsSeconds / 60))
  const samples: SoakSample[] = []
  const liveBytes: number[] = []
  const unitSeconds = unitOf(minutes)
  let told: SoakReport = { answers: {}, faults: [] }
  for (let due = everySeconds; due <= lastsSeconds + 1e-9; due += everySeconds) {
    await sleep(Math.max(0, due * 1000 - (performance.now() - startedMs)))
    told = await traffic.ask('report')
    const sample = await takeSample({ fleet, redis }, due, told)
    samples.push(sample)
    progress(sample)
    for (const { truncateLog } of fleet) truncateLog()
    // Both minutes that are compared begin right after a collection: else the rubbish of the start would hide what grows.
    if (
      crosses(due, everySeconds, unitSeconds) ||
      crosses(due, everySeconds, lastsSeconds - unitSeconds)
    )
      liveBytes.push(await liveHeap(fleet))
  }
  told = await traffic.ask('stop')
  const invalid = told.faults.join(', ')
  return {
    minutes,
    samples,
    answers: told.answers,
    heapGrowth: (liveBytes.at(-1) ?? NaN) / (liveBytes[0] ?? NaN) - 1,
    rssGrowth: growth(samples, minutes, ({ gatewayRssBytes }) => gatewayRssBytes),
    redisRssGrowth: growth(samples, minutes, ({ redisRssBytes }) => redisRssBytes),
    ...(invalid === '' ? {} : { invalid }),
  }
}

async function takeSample(
  { fleet, redis }: Pick<Soak, 'fleet' | 'redis'>,
  seconds: number,
  { answers }: SoakReport,
): Promise<SoakSample> {
  const pages = await Promise.all(fleet.map(({ admin }) => metricsPage(admin)))
  const each = (name: string): number[] => pages.map((page) => sumOf(page, new RegExp(`^${name} `)))
  const mean = (values: readonly number[]): number => sum(values) / values.length
  return {
    seconds,
    gatewayRssBytes: mean(fleet.map(({ pid }) => rssBytes(pid))),
    gatewayHeapBytes: mean(each('nodejs_heap_size_used_bytes')),
    gatewayHandles: Math.max(...each('nodejs_active_handles_total')),
    loopLagP99Ms: Math.max(...each('nodejs_eventloop_lag_p99_seconds')) * 1000,
    redisRssBytes: rssBytes(redis.pid),
    requests: sum(Object.values(answers)),
  }
}

/** Whether a sample is the first one at or after the moment. */
function crosses(due: number, everySeconds: number, atSeconds: number): boolean {
  return due >= atSeconds && due - everySeconds < atSeconds
}

/** Mean of the gateways, after a collection. */
async function liveHeap(fleet: readonly GrowthGateway[]): Promise<number> {
  const heaps = await Promise.all(fleet.map((gateway) => gateway.heap()))
  return sum(heaps.map(({ heapBytes, externalBytes }) => heapBytes + externalBytes)) / fleet.length
}

/** A minute; runs below three minutes compare their second fifth with their last. */
function unitOf(minutes: number): number {
  return minutes >= 3 ? 60 : minutes * 12
}

/** From the second minute to the last, medians. */
function growth(
  samples: readonly SoakSample[],
  minutes: number,
  value: (sample: SoakSample) => number,
): number {
  const unit = unitOf(minutes)
  const last = minutes * 60
  const between = (from: number, to: number): number =>
    median(samples.filter(({ seconds }) => seconds > from && seconds <= to).map(value))
  return between(last - unit, last) / between(unit, 2 * unit) - 1
}

function progress(sample: SoakSample): void {
  const MiB = 2 ** 20
  process.stderr.write(
    `${sample.seconds.toFixed(0)} s: ${sample.requests} answers, gateway ${(sample.gatewayRssBytes / MiB).toFixed(0)} MiB (heap ${(sample.gatewayHeapBytes / MiB).toFixed(0)}), ${sample.gatewayHandles} handles, lag ${sample.loopLagP99Ms.toFixed(0)} ms, Redis ${(sample.redisRssBytes / MiB).toFixed(1)} MiB\n`,
  )
}

async function main(): Promise<number> {
  let minutes: number
  let write: boolean
  try {
    const { values } = parseArgs({
      options: {
        minutes: { type: 'string', default: '10' },
        write: { type: 'boolean', default: false },
      },
    })
    minutes = Number(values.minutes)
    write = values.write
    if (!(minutes >= 1 && minutes <= 1440))
      throw new Error('--minutes takes a number from 1 to 1440')
  } catch (error) {
    process.stderr.write(`${(error as Error).message}\n${usage}\n`)
    return 2
  }
  for (const [signal, code] of [
    ['SIGINT', 130],
    ['SIGTERM', 143],
    ['SIGHUP', 129],
  ] as const)
    process.once(signal, () => {
      // What was under way fails now, and is of no interest.
      process.on('unhandledRejection', () => undefined)
      void endAllWorkbenches().finally(() => process.exit(code))
    })
  try {
    const result = { ...describeRun(`${minutes} minutes`), ...(await soak(minutes)) }
    process.stdout.write(`${report({ series: {}, soak: result })}\n`)
    if (write) {
      const all = { ...readResults(), soak: result }
      writeResults(all)
      await render(all)
    } else writePlots({ series: {}, soak: result })
    const steady = result.rssGrowth < soakGrowthTarget
    process.stderr.write(`memory ${steady ? 'is steady' : 'GROWS'}\n`)
    return result.invalid === undefined ? 0 : 1
  } catch (error) {
    if (isStopping()) return 1
    throw error
  } finally {
    await endAllWorkbenches()
  }
}

process.exitCode = await main()
