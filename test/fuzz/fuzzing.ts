/** Draws scripts and plays them many at a time, up to the first that breaks a property: its seed draws it again. */
import * as fc from 'fast-check'
import type { Step } from './grammar.ts'
import { Explored, Violation } from './explored.ts'

/** What both fuzzers play: one side of a connection. */
export interface Playable {
  readonly steps: readonly Step[]
}

export interface World<Script extends Playable> {
  /** Throws a Violation, after which the world is of no more use. */
  play(batch: readonly Script[], explored: Explored): Promise<void>
}

export interface Fuzzed {
  readonly explored: Explored
  /** What was found, and the script in which it showed; undefined: nothing was. */
  readonly found: string | undefined
}

/** Scripts at a time. */
const BATCH = 32

export async function fuzz<Script extends Playable>(
  start: () => Promise<World<Script>>,
  scripts: fc.Arbitrary<Script>,
  { seed, isEnough }: { seed: number; isEnough: (explored: Explored) => boolean },
): Promise<Fuzzed> {
  const explored = new Explored()
  const world = await start()
  for (let round = 0; !isEnough(explored); round++) {
    const batch = fc.sample(scripts, { seed: seed * 100_003 + round, numRuns: BATCH })
    try {
      await world.play(batch, explored)
    } catch (error) {
      if (!(error instanceof Violation)) throw error
      const script = JSON.stringify(batch[error.guilty ?? -1], undefined, 2)
      return { explored, found: `${error.message}\nseed ${seed}, round ${round}: ${script}` }
    }
  }
  return { explored, found: undefined }
}

/** What goes wrong with each of these, by name: played one after the other in one world, until it is of no more use. */
export async function violationsOf<Script extends Playable>(
  start: () => Promise<World<Script>>,
  scripts: Readonly<Record<string, Script>>,
  copies: number,
): Promise<Record<string, string>> {
  const violations: Record<string, string> = {}
  let world = await start()
  for (const [name, script] of Object.entries(scripts))
    try {
      // Many at once, since some things happen only to those who have to wait.
      await world.play(Array<Script>(copies).fill(script), new Explored())
    } catch (error) {
      if (!(error instanceof Violation)) throw error
      violations[name] = error.message
      world = await start()
    }
  return violations
}
