/** A sample of what `npm run proof` searches whole: the same in each run, and enough to catch a mutant of each kind. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { loaded } from './copies.ts'
import { explore } from './exploration.ts'
import { found } from './hunting.ts'
import { mutants } from './mutants.ts'
import { properties, type Property } from './properties.ts'
import { shipped } from './shipped.ts'
import { scaled, smallWorlds } from './small-worlds.ts'

const ENOUGH_STATES = 100
const isEnough = (states: number): boolean => states >= ENOUGH_STATES

describe('the quota, simulated', () => {
  const { faults, ...others } = properties
  it.each([
    { ...faults, numRuns: 8 },
    ...(Object.values(others) as Property<unknown>[]).map((one) => ({ ...one, numRuns: 2 })),
  ])('$title', async ({ schedule, run, numRuns }: Property<unknown> & { numRuns: number }) => {
    for (const drawn of fc.sample(schedule, { numRuns, seed: 2026 })) await run(shipped, drawn)
  })
})

describe('in the first orders of events', () => {
  const quota = loaded(scaled, { isOpen: true })

  it.each(smallWorlds)('the quota holds when $title', async (world) => {
    const { violation, schedule, states } = await explore(quota, world, isEnough)
    expect(violation, schedule.join('\n')).toBeUndefined()
    expect(states).toBeGreaterThanOrEqual(ENOUGH_STATES)
  })

  it('the same is found each time', async () => {
    const [world = {} as never] = smallWorlds
    const explored = () => explore(quota, world, isEnough)
    expect(await explored()).toEqual(await explored())
  })
})

describe('what is broken is found:', () => {
  const sampled = mutants.filter(({ isSampled }) => isSampled)

  it.each(sampled)('$name', async (mutant) => {
    expect(await found(mutant), 'no invariant was broken').toBeDefined()
  })

  it('of each kind that there is', () => {
    const kinds = (of: typeof mutants) =>
      new Set(of.map(({ breaks }) => (typeof breaks === 'object' ? 'small world' : breaks)))
    expect(kinds(sampled)).toEqual(kinds(mutants))
  })
})
