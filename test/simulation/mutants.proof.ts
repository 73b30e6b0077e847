/**
 * The simulation finds what it is there to find: each mutant is the quota with one rule broken, and must be caught by an
 * invariant. The schedules are the same in every run, and the quota as it is passes all of them.
 */
import { afterAll, describe, expect, it } from 'vitest'
import { sharedRedis } from '../support/redis-server.ts'
import { loaded } from './copies.ts'
import { answeredAlike, drawnFrom, found, hunt, recorded } from './hunting.ts'
import { mutants, scriptMutants } from './mutants.ts'
import type { PropertyName } from './properties.ts'

const table = ['| mutant | caught by | in | after so many schedules or states |']
afterAll(() => console.log(table.join('\n')))

describe('the simulation', () => {
  it('finds nothing in the quota as it is', async () => {
    expect(await hunt(loaded([]), Object.keys(drawnFrom) as PropertyName[])).toBeUndefined()
  }, 300_000)

  it.each(mutants)('finds: $name', async (mutant) => {
    const caught = await found(mutant)
    expect(caught, 'no invariant was broken').toBeDefined()
    table.push(`| ${[mutant.name, ...Object.values(caught ?? {})].join(' | ')} |`)
  })
})

describe('the calls of a simulation, made to Redis', async () => {
  const calls = await recorded(['faults', 'data loss'], 30)

  it('are answered by the script as by its twin', async () => {
    expect(await answeredAlike(calls, sharedRedis())).toBe(calls.length)
  })

  it.each(scriptMutants)('show: $name', async (mutant) => {
    const alike = await answeredAlike(calls, sharedRedis(), mutant)
    expect(alike).toBeLessThan(calls.length)
    table.push(
      `| take.lua: ${mutant.name} | answers as its twin does | recorded calls | ${alike} |`,
    )
  })
})
