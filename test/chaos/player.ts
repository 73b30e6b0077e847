/** One run, in a process whose group is all that it starts: `node player.ts MINUTES SEED`. Prints the report; exit 1: differences. */
import { argv, exit, kill, pid } from 'node:process'
import { endAll } from '../support/ending.ts'
import { dayWithAtLeast } from '../support/utc-windows.ts'
import type { Caller } from './callers.ts'
import { compare } from './ledger.ts'
import { felt, latencies } from './latency.ts'
import { play } from './play.ts'
import * as words from './report.ts'
import { planFaults } from './schedule.ts'
import { startWorld, type World } from './world.ts'

// Who started this has gone: nobody else would end the rest.
process.once('disconnect', () => kill(-pid, 'SIGKILL'))

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

const [, , minutesText, seedText] = argv
const [minutes, seed] = [Number(minutesText), Number(seedText)]

async function report(world: World): Promise<0 | 1> {
  const forMs = minutes * 60_000
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
    words.describeLatencies(latency),
    `ledger differences: ${differences.length}`,
    words.describeDifferences(differences, run, { startMs, logLines: world.logLines() }),
    ...failures.map((failure) => `failed: ${failure}`),
  ]
  console.log(parts.filter((part) => part !== '').join('\n\n'))
  return differences.length + failures.length === 0 ? 0 : 1
}

await dayWithAtLeast((minutes + 1) * 60_000)
const world = await startWorld(callers, minutes > 1 ? [...gateways, ...others] : gateways)
const code = await report(world)
await endAll()
await world.close()
exit(code)
