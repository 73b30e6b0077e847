/** A sample of what `npm run proof` searches whole: the same in each run, and enough to catch a mutant of each kind. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { found, mutants, mutated } from './mutants.ts'
import { properties, type Property } from './properties.ts'
import { shipped } from './shipped.ts'

describe('the quota, simulated', () => {
  const { faults, ...others } = properties
  it.each([
    { ...faults, numRuns: 8 },
    ...(Object.values(others) as Property<unknown>[]).map((one) => ({ ...one, numRuns: 2 })),
  ])('$title', async ({ schedule, run, numRuns }: Property<unknown> & { numRuns: number }) => {
    for (const drawn of fc.sample(schedule, { numRuns, seed: 2026 })) await run(shipped, drawn)
  })
})

describe('what is broken is found:', () => {
  const sampled = mutants.filter(({ isSampled }) => isSampled)

  it.each(sampled)('$name', async (mutant) => {
    expect(await found(mutant), 'no invariant was broken').toBeDefined()
  })

  it('in the code as it is today', () => {
    for (const mutant of mutants) expect(mutated(mutant)).toContain(mutant.to)
  })

  it('of each kind that there is', () => {
    const kinds = (of: typeof mutants) => new Set(of.map(({ breaks }) => breaks))
    expect(kinds(sampled)).toEqual(kinds(mutants))
  })
})
