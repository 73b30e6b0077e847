/** Decides when a worker that has ended is started again. Pure. */

const FIRST_MS = 100
const LONGEST_MS = 30_000
/** A worker that ran for so long was well: its end belongs to no crash loop. */
const WELL_AFTER_MS = 60_000

export interface Crashes {
  /** Crashes in a row, without a worker that ran well in between. */
  readonly inARow: number
}

export const noCrashes: Crashes = { inARow: 0 }

/** ranMs: how long the worker took requests, 0 if it never did. */
export const afterCrash = ({ inARow }: Crashes, ranMs: number): Crashes => ({
  inARow: ranMs >= WELL_AFTER_MS ? 1 : inARow + 1,
})

/** Doubles from 100 ms to 30 s; random, from 0 to 1, takes up to half of it off, so that workers do not start in step. */
export function restartDelayMs({ inARow }: Crashes, random: number): number {
  const longest = Math.min(FIRST_MS * 2 ** Math.max(0, inARow - 1), LONGEST_MS)
  return Math.round(longest * (1 - random / 2))
}
