/** What is refused early while there is more work than the event loop can do, the cheapest first. */
import { refuse } from './refusals.ts'

/** anonymous: requests without a valid credential, instead of counting them. everything: all new requests. */
export type Shed = 'nothing' | 'anonymous' | 'everything'

export interface Load {
  readonly shed: Shed
  /** What LATE_LOOKS of the last LOOKS looks have reached: one pause, however long, is no overload. */
  readonly lagMs: number
  /** How late the event loop was at these looks, oldest first. */
  readonly latestMs: readonly number[]
  /** Looks in a row that were calm enough for less to be refused. */
  readonly calmLooks: number
}

export const LOOK_EVERY_MS = 50
const LOOKS = 10
/** Two looks may fall into the two halves of one pause. */
const LATE_LOOKS = 3
/** Half a second: what was refused must not come back all at once, again and again. */
const CALM_LOOKS = 10

const steps: readonly Shed[] = ['nothing', 'anonymous', 'everything']

export const NO_LOAD: Load = { shed: 'nothing', lagMs: 0, latestMs: [], calmLooks: 0 }

export const OVERLOADED = refuse('overloaded', {
  cause: 'the event loop is late',
  retryAfterSeconds: 1,
})

/**
 * More is refused as soon as the lag exceeds limitMs (anonymous) or twice that (everything); one step less after half a
 * second in which the loop was never later than half of what the present step asks for.
 */
export function afterLook(
  { shed, latestMs, calmLooks }: Load,
  lateMs: number,
  limitMs: number,
): Load {
  const latest = [...latestMs.slice(1 - LOOKS), lateMs]
  const lagMs = latest.toSorted((a, b) => b - a)[LATE_LOOKS - 1] ?? 0
  const step = steps.indexOf(shed)
  const asked = lagMs > 2 * limitMs ? 2 : lagMs > limitMs ? 1 : 0
  const calm = lateMs <= (step * limitMs) / 2 ? calmLooks + 1 : 0
  const isOver = calm >= CALM_LOOKS
  const next = Math.max(asked, isOver ? step - 1 : step, 0)
  return {
    shed: steps[next] ?? shed,
    lagMs,
    latestMs: latest,
    calmLooks: next === step && !isOver ? calm : 0,
  }
}
