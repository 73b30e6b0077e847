/** Draws scripts, plays them many at a time, and shrinks the first that breaks a property to what it takes. */
import * as fc from 'fast-check'
import type { Step } from './grammar.ts'
import { Explored, Violation } from './explored.ts'
import { shrink } from './shrink.ts'

/** What both fuzzers play: one side of a connection. */
export interface Playable {
  readonly steps: readonly Step[]
}

export interface World<Script extends Playable> {
  /** Throws a Violation, after which the world is of no more use. */
  play(batch: readonly Script[], explored: Explored): Promise<void>
  close(): Promise<void>
}

export interface Fuzzed<Script> {
  readonly explored: Explored
  readonly found: { readonly what: string; readonly script: Script } | undefined
}

/** Scripts at a time. */
const BATCH = 32

export async function fuzz<Script extends Playable>(
  start: () => Promise<World<Script>>,
  scripts: fc.Arbitrary<Script>,
  { seed, isEnough }: { seed: number; isEnough: (explored: Explored) => boolean },
): Promise<Fuzzed<Script>> {
  const explored = new Explored()
  const world = await start()
  try {
    for (let round = 0; !isEnough(explored); round++) {
      // fast-check would shrink a batch as a whole, which takes long, and play by play, which is not what went wrong.
      const batch = fc.sample(scripts, { seed: seed * 100_003 + round, numRuns: BATCH })
      try {
        await world.play(batch, explored)
      } catch (error) {
        if (!(error instanceof Violation)) throw error
        return { explored, found: await shortest(start, batch, error) }
      }
    }
    return { explored, found: undefined }
  } finally {
    await world.close()
  }
}

async function shortest<Script extends Playable>(
  start: () => Promise<World<Script>>,
  batch: readonly Script[],
  { guilty, message }: Violation,
): Promise<{ what: string; script: Script }> {
  const suspects = guilty === undefined ? batch : batch.slice(guilty, guilty + 1)
  for (const script of suspects) {
    let what = ''
    const fails = async (steps: readonly Step[]): Promise<boolean> => {
      const found = await violationOf(start, { ...script, steps })
      what = found ?? what
      return found !== undefined
    }
    if (await fails(script.steps))
      return { script: { ...script, steps: await shrink(script.steps, fails) }, what }
  }
  return { what: `${message}\n(once, and not again)`, script: suspects[0] as Script }
}

/** What goes wrong with this script, played in a world of its own. */
async function violationOf<Script extends Playable>(
  start: () => Promise<World<Script>>,
  script: Script,
): Promise<string | undefined> {
  return (await violationsOf(start, { script }, { copies: BATCH, times: 3 }))['script']
}

/** What goes wrong with each of these, by name: played one after the other in one world, until it is of no more use. */
export async function violationsOf<Script extends Playable>(
  start: () => Promise<World<Script>>,
  scripts: Readonly<Record<string, Script>>,
  { copies, times }: { copies: number; times: number },
): Promise<Record<string, string>> {
  const violations: Record<string, string> = {}
  let world = await start()
  try {
    for (const [name, script] of Object.entries(scripts))
      try {
        // Many at once, since some things happen only to those who have to wait.
        const batch = Array.from({ length: copies }, () => script)
        for (let time = 0; time < times; time++) await world.play(batch, new Explored())
      } catch (error) {
        if (!(error instanceof Violation)) throw error
        violations[name] = error.message
        await world.close()
        world = await start()
      }
    return violations
  } finally {
    await world.close()
  }
}
