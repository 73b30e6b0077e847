/**
 * The invariants of the quota protocol as properties: real lessees and a real authority, on virtual time, behind a network
 * that loses, delays and repeats, with processes that crash, stop and restart and clocks that jump.
 *
 * Each run of the usual number plays the same schedules; TOLLGATE_SIMULATION_RUNS=<factor> draws new ones, so many times as many (such
 * as 20 for some minutes). A schedule that breaks an invariant is shrunk, and printed with the seed and the path that
 * play it again: TOLLGATE_SIMULATION_SEED=<seed> TOLLGATE_SIMULATION_PATH=<path> with `-t <name of the test>`.
 *
 * On a slow machine fewer are played: each class has a budget of processor time, which other processes do not use up, and a
 * number of schedules that are played in any case.
 */
import * as fc from 'fast-check'
import { afterAll, describe, it } from 'vitest'
import '../support/low-priority.ts'
import type { Totals } from './ledger.ts'
import { properties, type Property } from './properties.ts'
import { perfectNetwork, type Step } from './schedule.ts'
import { shipped } from './shipped.ts'

const { env } = process
const factor = Number(env['TOLLGATE_SIMULATION_RUNS'] ?? 1)
const seed = env['TOLLGATE_SIMULATION_SEED'] ?? (factor === 1 ? '2026' : undefined)
const path = env['TOLLGATE_SIMULATION_PATH']
const TIMEOUT_MS = 300_000 * Math.max(1, factor)
/** Of the whole file, for `factor` 1. */
const CPU_MS = 11_000
const CPU_MS_TO_SHRINK = 10_000
const AT_LEAST = 1 / 10
const cpuMs = (): number => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

interface Explored {
  schedules: number
  readonly counts: Map<string, number>
  readonly faults: Map<string, number>
  readonly worst: Map<string, number>
}
const explored = new Map<string, Explored>()

const add = (sums: Map<string, number>, key: string, count: number): void =>
  void sums.set(key, (sums.get(key) ?? 0) + count)
const keepMost = (sums: Map<string, number>, key: string, count: number): void =>
  void sums.set(key, Math.max(sums.get(key) ?? 0, count))

/** Plays so many schedules, fewer if cpuShare of the processor time is over, and adds up what happened in them. */
async function explore<Drawn>(
  name: string,
  { schedule, run }: Property<Drawn>,
  { numRuns, cpuShare }: { numRuns: number; cpuShare: number },
): Promise<void> {
  const sum: Explored = { schedules: 0, counts: new Map(), faults: new Map(), worst: new Map() }
  explored.set(name, sum)
  const isReplay = path !== undefined
  let endsAtCpuMs = cpuMs() + CPU_MS * cpuShare * factor
  let atLeast = Math.ceil(numRuns * factor * AT_LEAST)
  const shrinkFor = (error: unknown): never => {
    if (atLeast > 0) endsAtCpuMs = cpuMs() + CPU_MS_TO_SHRINK
    atLeast = 0
    throw error
  }
  await fc.assert(
    fc.asyncProperty(schedule, async (drawn) => {
      if (!isReplay && sum.schedules >= atLeast && cpuMs() > endsAtCpuMs) return
      const { totals, faults, worst = {} } = await run(shipped, drawn).catch(shrinkFor)
      sum.schedules += 1
      const { longestWaitMs, ...counts } = totals
      for (const [key, count] of Object.entries(counts)) add(sum.counts, key, count)
      for (const [fault, count] of faults) add(sum.faults, fault, count)
      for (const [what, much] of Object.entries(worst)) keepMost(sum.worst, what, much)
      keepMost(sum.worst, 'ms waited', longestWaitMs)
    }),
    {
      numRuns: Math.ceil(numRuns * factor),
      ...(seed === undefined ? {} : { seed: Number(seed) }),
      ...(path === undefined ? {} : { path, endOnFailure: true }),
    },
  )
}

afterAll(() => {
  const list = (sums: Map<string, number>): string =>
    Array.from(sums, ([what, count]) => `${what} ${Math.round(count * 1000) / 1000}`).join(', ')
  for (const [name, { schedules, counts, faults, worst }] of explored) {
    const calls = (counts.get('calls') ?? 0) / (counts.get('admitted' satisfies keyof Totals) ?? 1)
    console.log(
      [
        `${name}: schedules ${schedules}, ${list(counts)}, calls per admitted request ${calls.toFixed(3)}`,
        list(faults),
        `at most: ${list(worst)}`,
      ].join('\n  '),
    )
  }
})

describe('quota, simulated', () => {
  const playing = <Drawn>(
    name: string,
    property: Property<Drawn>,
    share: { numRuns: number; cpuShare: number },
  ): void => it(property.title, () => explore(name, property, share), TIMEOUT_MS)

  // Each of them once waited for all that was handed back to any of them, for seconds.
  it('answers in time those who wait while charges are handed back', async () => {
    const all = { client: 0, process: 0, perSecond: 0 }
    const step = (burst: number, ms: number): Step => {
      return { load: { ...all, burst }, lasts: { kind: 'ms', ms }, event: { kind: 'none' } }
    }
    for (let seed = 1; seed <= 6; seed++)
      await properties.faults.run(shipped, {
        seed,
        processes: 1,
        mode: 'closed',
        lease: 'auto',
        authority: 'remote',
        maxClients: 100,
        startsBefore: { window: 'minute', ms: 30_000 },
        clockErrorMs: 0,
        network: { ...perfectNetwork, latencyMs: { min: 1, max: 45 } },
        clients: [{ perMinute: 1000, perDay: 1000 }],
        refund: 345,
        steps: [step(300, 300), step(1400, 3000)],
      })
  })

  playing('faults', properties.faults, { numRuns: 105, cpuShare: 0.19 })
  playing('crashes', properties.crashes, { numRuns: 42, cpuShare: 0.07 })
  playing('late', properties.late, { numRuns: 60, cpuShare: 0.1 })
  playing('late workers', properties['late workers'], { numRuns: 20, cpuShare: 0.08 })
  playing('resets', properties.resets, { numRuns: 50, cpuShare: 0.09 })
  playing('changed limits', properties['changed limits'], { numRuns: 150, cpuShare: 0.05 })
  playing('one process', properties['one process'], { numRuns: 42, cpuShare: 0.06 })
  playing('load above the limit', properties['load above the limit'], {
    numRuns: 16,
    cpuShare: 0.1,
  })
  playing('storms', properties.storms, { numRuns: 35, cpuShare: 0.07 })
  playing('outages', properties.outages, { numRuns: 50, cpuShare: 0.09 })
  playing('store lost', properties['store lost'], { numRuns: 56, cpuShare: 0.08 })
  playing('data loss', properties['data loss'], { numRuns: 63, cpuShare: 0.05 })
  playing('remaining', properties.remaining, { numRuns: 60, cpuShare: 0.07 })
  playing('workers', properties.workers, { numRuns: 42, cpuShare: 0.1 })
  playing('worker resets', properties['worker resets'], { numRuns: 18, cpuShare: 0.05 })
})
