/**
 * The simulation finds what it is there to find: each mutant is the quota with one rule broken, and must be caught by an
 * invariant. The schedules are the same in every run, and the quota as it is passes all of them.
 */
import { afterAll, describe, expect, it } from 'vitest'
import { drawnFrom, found, hunt, loaded, mutants } from './mutants.ts'
import type { PropertyName } from './properties.ts'

const table = ['| mutant | caught by | in | after so many schedules |']
afterAll(() => console.log(table.join('\n')))

describe('the simulation', () => {
  it('finds nothing in the quota as it is', async () => {
    expect(await hunt(loaded(), Object.keys(drawnFrom) as PropertyName[])).toBeUndefined()
  }, 300_000)

  it.each(mutants)('finds: $name', async (mutant) => {
    const caught = await found(mutant)
    expect(caught, 'no invariant was broken').toBeDefined()
    table.push(`| ${[mutant.name, ...Object.values(caught ?? {})].join(' | ')} |`)
  })
})
