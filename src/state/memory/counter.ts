/** A counter of this process alone, which answers at once. */
import type { Counter } from '../contract.ts'
import { keepLatest } from './recency-table.ts'

/** Additions within one of so many parts of the counted time are kept as one number, so that a key takes bounded memory. */
export const STEPS = 1_000
/** Keys beyond which the one added to longest ago begins anew. */
const MAX_KEYS = 10_000

interface Step {
  readonly startMs: number
  points: number
}

interface Counted {
  /** Oldest first. */
  readonly steps: Step[]
  total: number
}

/** withinMs: see Counter. redis/counter.ts counts in the same way. */
export function createMemoryCounter(withinMs: number) {
  /** The key added to last stands last, so that keys with nothing left to count come first. */
  const counts = new Map<string, Counted>()
  const isOver = (step: Step | undefined, nowMs: number): boolean =>
    step === undefined ||
    nowMs - step.startMs >= withinMs + withinMs / STEPS ||
    step.startMs - nowMs >= withinMs
  const countedOf = (key: string, nowMs: number): Counted => {
    const counted = counts.get(key) ?? { steps: [], total: 0 }
    keepLatest(counts, key, counted, MAX_KEYS)
    for (const [oldest, { steps }] of counts) {
      if (oldest === key || !isOver(steps.at(-1), nowMs)) break
      counts.delete(oldest)
    }
    return counted
  }
  return {
    add: (key, points, nowMs) => {
      const counted = countedOf(key, nowMs)
      const { steps } = counted
      while (steps[0] !== undefined && isOver(steps[0], nowMs))
        counted.total -= steps.shift()?.points ?? 0
      const stepMs = withinMs / STEPS
      const startMs = Math.floor(Math.floor(nowMs / stepMs) * stepMs)
      const newest = steps.at(-1)
      if (newest?.startMs === startMs) newest.points += points
      else steps.push({ startMs, points })
      counted.total += points
      const forMs = nowMs - (steps[0]?.startMs ?? nowMs)
      return { total: counted.total, forMs: Math.min(Math.max(0, forMs), withinMs) }
    },
    reset: (key) => void counts.delete(key),
    useTime: (ms) => void (withinMs = ms),
  } satisfies Counter
}
