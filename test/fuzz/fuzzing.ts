/** Draws scripts and plays them many at a time, up to the first that breaks a property: its seed draws it again. */
import * as fc from 'fast-check'
import type { Step } from './grammar.ts'

/** What a run ends with when a property does not hold. */
export class Violation extends Error {
  /** Place in the batch of the script in which it showed. */
  readonly guilty: number | undefined

  constructor(problems: readonly string[], guilty?: number) {
    const shown = problems.slice(0, 6).map((problem) => problem.slice(0, 600))
    super(shown.join('\n'))
    this.guilty = guilty
  }
}

/** What a run has tried. */
export class Explored {
  readonly #counts = new Map<string, number>()

  add(what: string, count = 1): void {
    this.#counts.set(what, this.count(what) + count)
  }
  count(what: string): number {
    return this.#counts.get(what) ?? 0
  }
  /** One line per kind; a kind is the first word of what was added. */
  lines(): string[] {
    const sorted = [...this.#counts].toSorted(([one], [other]) => (one < other ? -1 : 1))
    const kinds = Map.groupBy(sorted, ([what]) => what.split(' ')[0] ?? '')
    return Array.from(kinds.values(), (entries) =>
      entries.map(([what, count]) => `${what}: ${count}`).join(', '),
    )
  }
}

/** What both fuzzers play: one side of a connection. */
export interface Playable {
  readonly steps: readonly Step[]
}

export interface World<Script extends Playable> {
  /** Throws a Violation, after which the world is of no more use. */
  play(batch: readonly Script[], explored: Explored): Promise<void>
}

/** One that may send a gateway what it likes. */
export interface Side<Script extends Playable = Playable> {
  /** What is counted. */
  readonly unit: 'requests' | 'answers'
  start(engine: string): Promise<World<Script>>
  readonly scripts: fc.Arbitrary<Script>
  /** What the fuzzer has found, by name. */
  readonly cases: Readonly<Record<string, Script>>
  /** It would prove little if hardly anything came through, or all did: at least such a part of the units each. */
  readonly shows: Readonly<Record<string, number>>
}

/** Scripts at a time. */
const BATCH = 32

/** Plays so many, or all up to the first that breaks a property; found: what it is, and the script in which it showed. */
export async function fuzz(
  { start, scripts, unit }: Side,
  { engine, count, seed }: { engine: string; count: number; seed: number },
): Promise<{ explored: Explored; found: string | undefined }> {
  const explored = new Explored()
  const world = await start(engine)
  for (let round = 0; explored.count(unit) < count; round++) {
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

/** What goes wrong with what was found once, by name: played one after the other in one world, until it is of no more use. */
export async function foundAgain(
  { start, cases }: Side,
  engine: string,
  copies: number,
): Promise<Record<string, string>> {
  const violations: Record<string, string> = {}
  let world = await start(engine)
  for (const [name, script] of Object.entries(cases))
    try {
      // Many at once, since some things happen only to those who have to wait.
      await world.play(Array<Playable>(copies).fill(script), new Explored())
    } catch (error) {
      if (!(error instanceof Violation)) throw error
      violations[name] = error.message
      world = await start(engine)
    }
  return violations
}

export const randomSeed = (): number =>
  Number(process.env['TOLLGATE_FUZZ_SEED'] ?? Math.floor(Math.random() * 1e9))
