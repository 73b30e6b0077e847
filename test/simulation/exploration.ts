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
  /** By what the world ended with. */
  readonly violation: Violation | undefined
  /** The choices that led to it. */
  readonly schedule: readonly string[]
  /** Everything was tried. */
  readonly isComplete: boolean
}

interface Frame {
  readonly choices: number
  next: number
}

export async function explore(
  quota: Quota,
  options: SmallWorldOptions,
  isOver: (states: number) => boolean = () => false,
): Promise<Exploration> {
  const known = new Set<string>()
  const path: number[] = []
  const frames: Frame[] = []
  let steps = 0

  const begun = async (): Promise<SmallWorld> => {
    const world = createSmallWorld(quota, options)
    await world.open()
    return world
  }
  const at = (choices: readonly Choice[], index: number): Choice => choices[index] as Choice
  const replayed = async (): Promise<SmallWorld> => {
    const world = await begun()
    for (const index of path) await world.make(at(world.choices(), index))
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
  /** False: it was met before. */
  const isNew = (world: SmallWorld): boolean => {
    const key = world.key()
    if (known.has(key)) return false
    known.add(key)
    frames.push({ choices: world.choices().length, next: 0 })
    return true
  }
  const result = (isComplete: boolean): Exploration => {
    return { states: known.size, steps, violation: undefined, schedule: [], isComplete }
  }

  /** undefined: the frames are at another state, to be replayed. */
  let world: SmallWorld | undefined
  try {
    world = await begun()
    isNew(world)
    for (;;) {
      const frame = frames.at(-1)
      if (frame === undefined) return result(true)
      if (isOver(known.size)) return result(false)
      if (frame.next < frame.choices) {
        world ??= await replayed()
        path.push(frame.next)
        frame.next += 1
        steps += 1
        await world.make(at(world.choices(), frame.next - 1))
        if (isNew(world)) continue
      } else {
        if (frame.choices === 0) await (world ?? (await replayed())).finish()
        frames.pop()
      }
      path.pop()
      world = undefined
    }
  } catch (error) {
    if (!(error instanceof Violation)) throw error
    return { ...result(false), violation: error, schedule: await labelled() }
  }
}
