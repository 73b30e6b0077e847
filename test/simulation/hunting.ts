/** Mutants are hunted with the schedules and in the small worlds that show them. */
import * as fc from 'fast-check'
import { loaded } from './copies.ts'
import { explore } from './exploration.ts'
import { Violation } from './ledger.ts'
import type { Mutant } from './mutants.ts'
import { properties, type Property, type PropertyName } from './properties.ts'
import { scaled, smallWorlds } from './small-worlds.ts'
import type { Quota } from './shipped.ts'

const SEED = 20_260_101
const MOST_STATES = 20_000
/** So many schedules of each property as its mutants need, and some more; where they are rare, from a seed that has them early. */
export const drawnFrom: Record<PropertyName, { readonly numRuns: number; readonly seed?: number }> =
  {
    faults: { numRuns: 28, seed: 11 },
    crashes: { numRuns: 10, seed: 89 },
    late: { numRuns: 20, seed: 3 },
    'late workers': { numRuns: 16, seed: 4 },
    resets: { numRuns: 24 },
    'changed limits': { numRuns: 60, seed: 8 },
    'one process': { numRuns: 10, seed: 11 },
    'load above the limit': { numRuns: 8 },
    storms: { numRuns: 26 },
    outages: { numRuns: 15 },
    'store lost': { numRuns: 22, seed: 2 },
    'data loss': { numRuns: 33 },
    remaining: { numRuns: 12, seed: 9 },
    workers: { numRuns: 38, seed: 7 },
    'worker resets': { numRuns: 15 },
  }

export interface Caught {
  readonly invariant: string
  /** A property, or a small world. */
  readonly where: string
  /** So many schedules, or states. */
  readonly after: number
}

/** Plays the schedules until one breaks an invariant. */
export async function hunt(
  quota: Quota,
  names: readonly PropertyName[],
): Promise<Caught | undefined> {
  let schedules = 0
  for (const name of names) {
    const { schedule, run } = properties[name] as Property<unknown>
    for (const drawn of fc.sample(schedule, { seed: SEED, ...drawnFrom[name] })) {
      schedules += 1
      const outcome = await run(quota, drawn).catch((error: unknown) => {
        if (error instanceof Violation) return error
        throw error
      })
      if (outcome instanceof Violation)
        return { invariant: outcome.invariant, where: name, after: schedules }
    }
  }
  return undefined
}

/** Explores a small world until an invariant is broken. */
async function exploredTo(mutant: Mutant, title: string): Promise<Caught | undefined> {
  const world = smallWorlds.find((one) => one.title === title)
  if (world === undefined) throw new Error(`no small world is called "${title}"`)
  const quota = loaded([...scaled, mutant], { isOpen: true })
  const { violation, states } = await explore(quota, world, (states) => states >= MOST_STATES)
  return violation && { invariant: violation.invariant, where: title, after: states }
}

export const found = (mutant: Mutant): Promise<Caught | undefined> => {
  const { breaks } = mutant
  if (typeof breaks === 'object') return exploredTo(mutant, breaks.world)
  return hunt(loaded([mutant]), [breaks])
}
