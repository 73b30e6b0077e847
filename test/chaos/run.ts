/** `npm run chaos`: one run with all faults, and its report. What ends it ends all that it has started. */
import { randomInt } from 'node:crypto'
import { exit } from 'node:process'
import { parseArgs } from 'node:util'
import { endAll } from '../support/ending.ts'
import { dayWithAtLeast } from '../support/utc-windows.ts'
import type { Caller } from './callers.ts'
import { compare } from './ledger.ts'
import { felt, latencies } from './latency.ts'
import { play } from './play.ts'
import * as words from './report.ts'
import { planFaults } from './schedule.ts'
import { startWorld } from './world.ts'

const plain = { obeys: true, isBystander: false, meetsNoKill: false }
const bystander = { ...plain, isBystander: true }
const callers: readonly Caller[] = [
  { ...bystander, id: 'bystander', perMinute: 6_000, perSecond: 20 },
  { ...bystander, id: 'neighbour', perMinute: 3_000, perSecond: 12, meetsNoKill: true },
  { ...plain, id: 'small', perMinute: 60, perSecond: 3 },
  { ...plain, id: 'middle', perMinute: 300, perSecond: 12, meetsNoKill: true },
  { ...plain, id: 'greedy', perMinute: 120, perSecond: 12, obeys: false },
  { ...plain, id: 'talker', perMinute: 300, perSecond: 1, talks: true },
  { ...plain, id: 'crowd', perMinute: 3_000, perSecond: 0 },
]
const gateways = [
  { workers: 1, engine: 'direct', isNeverKilled: false },
  { workers: 2, engine: 'direct', isNeverKilled: false },
  { workers: 1, engine: 'direct', isNeverKilled: true },
] as const
/** In runs of more than a minute. */
const others = [{ workers: 1, engine: 'http-proxy-3', isNeverKilled: true }] as const
/** Latency is judged in runs that are long enough to tell. */
const JUDGES_LATENCY_FROM_MINUTES = 3
const CALM_SHARE = 0.12

/** What faults and clients do follows from the seed; when each comes about is the machine's. */
export async function playChaos({ minutes, seed }: { minutes: number; seed: number }) {
  const forMs = minutes * 60_000
  await dayWithAtLeast(forMs + 60_000)
  const world = await startWorld(callers, minutes > 1 ? [...gateways, ...others] : gateways)
  const { run, startMs, calmUntilMs, flooded } = await play(world, callers, {
    seed,
    calmMs: CALM_SHARE * forMs,
    forMs,
    lines: (leftMs) => planFaults(seed, leftMs),
  })
  const differences = compare(run)
  const latency = latencies(run, calmUntilMs)
  const isShort = minutes < JUDGES_LATENCY_FROM_MINUTES
  const failures = [...(isShort ? [] : felt(latency)), ...words.notShown(run, isShort)]
  const parts = [
    `chaos: ${minutes} min, seed ${seed}; ${run.requests.length} requests, ${run.sightings.length} seen by backends`,
    words.describeFaults(run.faults, startMs),
    words.describeOutcomes(run),
    `flood: ${JSON.stringify(Object.fromEntries(flooded))}`,
    latency.map((one) => JSON.stringify(one)).join('\n'),
    `ledger differences: ${differences.length}`,
    words.describeDifferences(differences, run, { startMs, logLines: world.logLines() }),
    ...failures.map((failure) => `failed: ${failure}`),
  ]
  return {
    faults: differences.length + failures.length,
    report: parts.filter((part) => part !== '').join('\n\n'),
  }
}

function parseOptions(): Parameters<typeof playChaos>[0] {
  const { values } = parseArgs({
    options: {
      minutes: { type: 'string', default: '10' },
      seed: { type: 'string', default: String(randomInt(1_000_000)) },
    },
  })
  const [minutes, seed] = [Number(values.minutes), Number(values.seed)]
  const usage = 'usage: npm run chaos -- [--minutes 10] [--seed N]'
  if (!(minutes >= 1 && minutes <= 600)) throw new Error(`--minutes takes 1 to 600; ${usage}`)
  if (!Number.isSafeInteger(seed)) throw new Error(`--seed takes a whole number; ${usage}`)
  return { minutes, seed }
}

if (import.meta.main) {
  const options = parseOptions()
  for (const signal of ['SIGINT', 'SIGTERM'] as const)
    process.once(signal, () => {
      // What is under way fails now.
      process.on('uncaughtException', () => undefined)
      void endAll().finally(() => exit(1))
    })
  try {
    const { faults, report } = await playChaos(options)
    console.log(report)
    process.exitCode = faults === 0 ? 0 : 1
  } finally {
    await endAll()
  }
  exit()
}
