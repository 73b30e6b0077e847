/**
 * Tries everything that can happen in a small world, depth first. A world cannot be copied, as it is made of promises; so the
 * way to each branch is gone again from the start, and a state that was met before is not entered a second time.
 */
import { Violation } from './ledger.ts'
import {
  createSmallWorld,
  type Choice,
  type SmallWorld,
  type SmallWorldOptions,
} from './small-world.ts'
import type { Quota } from './shipped.ts'

export interface Exploration {
  readonly states: number
  /** Steps from a state to another. */
  readonly steps: number
  /** Different orders of events, from the start to an end. */
  readonly interleavings: number
  readonly ends: number
  /** By what the world ended with. */
  readonly violation: Violation | undefined
  /** The choices that led to it. */
  readonly schedule: readonly string[]
  /** Everything was tried. */
  readonly isComplete: boolean
}

interface Frame {
  readonly key: string
  readonly choices: number
  next: number
  interleavings: number
}

export async function explore(
  quota: Quota,
  options: SmallWorldOptions,
  { mostStates = Infinity, isOver = (): boolean => false } = {},
): Promise<Exploration> {
  const interleavingsFrom = new Map<string, number>()
  const path: number[] = []
  const frames: Frame[] = []
  let steps = 0
  let ends = 0

  const begun = async (): Promise<SmallWorld> => {
    const world = createSmallWorld(quota, options)
    await world.open()
    return world
  }
  const at = (choices: readonly Choice[], index: number): Choice => choices[index] as Choice
  const replayed = async (choices: readonly number[]): Promise<SmallWorld> => {
    const world = await begun()
    for (const index of choices) await world.make(at(world.choices(), index))
    return world
  }
  const labelled = async (): Promise<string[]> => {
    const world = await begun()
    const labels: string[] = []
    for (const index of path) {
      const choice = at(world.choices(), index)
      labels.push(choice.label)
      await world.make(choice).catch(() => undefined)
    }
    return labels
  }
  const result = (rest: Partial<Exploration>): Exploration => ({
    states: interleavingsFrom.size,
    steps,
    ends,
    interleavings: 0,
    violation: undefined,
    schedule: [],
    isComplete: true,
    ...rest,
  })

  /** undefined: the frames are at another state, to be replayed. */
  let world: SmallWorld | undefined
  try {
    world = await begun()
    const first = world.key()
    frames.push({ key: first, choices: world.choices().length, next: 0, interleavings: 0 })
    interleavingsFrom.set(first, 0)
    for (;;) {
      const frame = frames.at(-1)
      if (frame === undefined) break
      if (interleavingsFrom.size >= mostStates || isOver()) return result({ isComplete: false })
      if (frame.next === frame.choices) {
        if (frame.choices === 0) {
          frame.interleavings = 1
          ends += 1
          await (world ?? (await replayed(path))).finish()
        }
        interleavingsFrom.set(frame.key, frame.interleavings)
        frames.pop()
        path.pop()
        const parent = frames.at(-1)
        if (parent === undefined) return result({ interleavings: frame.interleavings })
        parent.interleavings += frame.interleavings
        world = undefined
        continue
      }
      world ??= await replayed(path)
      path.push(frame.next)
      frame.next += 1
      steps += 1
      await world.make(at(world.choices(), frame.next - 1))
      const key = world.key()
      const known = interleavingsFrom.get(key)
      if (known === undefined) {
        interleavingsFrom.set(key, 0)
        frames.push({ key, choices: world.choices().length, next: 0, interleavings: 0 })
        continue
      }
      frame.interleavings += known
      path.pop()
      world = undefined
    }
    return result({})
  } catch (error) {
    if (!(error instanceof Violation) && !(error instanceof Error && error.name === 'Violation'))
      throw error
    return result({ violation: error as Violation, schedule: await labelled(), isComplete: false })
  }
}
