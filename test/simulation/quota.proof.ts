/**
 * The invariants of the quota protocol as properties: real lessees and a real authority, on virtual time, behind a network
 * that loses, delays and repeats, with processes that crash, stop and restart and clocks that jump.
 *
 * Each run of the usual number plays the same schedules; TOLLGATE_SIMULATION_RUNS=<factor> draws new ones, so many times as many (such
 * as 20 for some minutes). A schedule that breaks an invariant is shrunk, and printed with the seed and the path that
 * play it again: TOLLGATE_SIMULATION_SEED=<seed> TOLLGATE_SIMULATION_PATH=<path> with `-t <name of the test>`.
 */
import * as fc from 'fast-check'
import { afterAll, describe, it } from 'vitest'
import { properties, type Property, type PropertyName } from './properties.ts'
import { shipped } from './shipped.ts'

const { env } = process
const factor = Number(env['TOLLGATE_SIMULATION_RUNS'] ?? 1)
const seed = env['TOLLGATE_SIMULATION_SEED'] ?? (factor === 1 ? '2026' : undefined)
const path = env['TOLLGATE_SIMULATION_PATH']
const schedules: Record<PropertyName, number> = {
  faults: 105,
  crashes: 42,
  late: 60,
  'late workers': 20,
  resets: 50,
  'changed limits': 150,
  'one process': 42,
  'load above the limit': 16,
  storms: 35,
  outages: 50,
  'store lost': 56,
  'data loss': 63,
  remaining: 60,
  workers: 42,
  'worker resets': 18,
}

const lines: string[] = []
afterAll(() => console.log(lines.join('\n')))

describe('quota, simulated', () => {
  it.each(Object.entries(schedules))(
    '%s',
    async (name, usual) => {
      const { schedule, run } = properties[name as PropertyName] as Property<unknown>
      const all: Record<string, number> = {}
      const one = fc.asyncProperty(schedule, async (drawn) => {
        const { totals, faults } = await run(shipped, drawn)
        for (const [what, count] of [...Object.entries({ schedules: 1, ...totals }), ...faults])
          all[what] = (all[what] ?? 0) + count
      })
      await fc.assert(one, {
        numRuns: Math.ceil(usual * factor),
        ...(seed === undefined ? {} : { seed: Number(seed) }),
        ...(path === undefined ? {} : { path, endOnFailure: true }),
      })
      lines.push(`${name}: ${JSON.stringify(all)}`)
    },
    300_000 * Math.max(1, factor),
  )
})
