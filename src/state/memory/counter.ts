/** A counter of this process alone, which answers at once. */
import type { Counter } from '../contract.ts'
import { RecencyTable } from './recency-table.ts'

/** Additions within one of so many parts of the counted time are kept as one number, so that a key takes bounded memory. */
export const STEPS = 1_000
/** Keys beyond which one not added to lately begins anew; for a moment there may be some more. */
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
  const counts = new RecencyTable<Counted>({ maxEntries: MAX_KEYS, mayDrop: () => true })
  let lookedMs = -Infinity
  const isOver = (step: Step, nowMs: number): boolean =>
    nowMs - step.startMs >= withinMs + withinMs / STEPS || step.startMs - nowMs >= withinMs
  /** Keys with no step that counts are forgotten. In a clock set back the newest may not count while an older one does. */
  const forgetEnded = (nowMs: number): void => {
    if (Math.abs(nowMs - lookedMs) < withinMs) return
    lookedMs = nowMs
    for (const [key, { steps }] of counts.entries())
      if (!steps.findLast((step) => !isOver(step, nowMs))) counts.delete(key)
  }
  return {
    add: (key, points, nowMs) => {
      forgetEnded(nowMs)
      const counted = counts.get(key) ?? counts.add(key, { steps: [], total: 0 })
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
    reset: (key) => counts.delete(key),
    useTime: (ms) => void (withinMs = ms),
  } satisfies Counter
}
