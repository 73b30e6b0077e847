/** Requests admitted since 00:00Z, by plan, from the store. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { DayRow } from '../../state/day-totals.ts'
import { DAY_MS } from '../../config/time.ts'

/** Longest time that an overview waits for the numbers. */
const WAIT_MS = 500
/** Pause between two readings: FRESH_MS, or REST times the duration of the last if that is longer. */
const FRESH_MS = 1_000
const REST = 20

/** null: not known, or not yet. */
export type AdmittedToday = (nowMs: number) => Promise<ReadonlyMap<string, number> | null>

/** day: reads one row for each client and plan of a day, in pieces. */
export function createAdmittedToday(
  day: (day: number) => AsyncIterable<readonly DayRow[]>,
): AdmittedToday {
  let known: { readonly day: number; readonly plans: ReadonlyMap<string, number> } | undefined
  let reading: Promise<void> | undefined
  let freshUntilMs = -Infinity
  const read = async (today: number, startMs = performance.now()): Promise<void> => {
    try {
      const plans = new Map<string, number>()
      for await (const rows of day(today))
        for (const { plan, admitted } of rows) plans.set(plan, (plans.get(plan) ?? 0) + admitted)
      known = { day: today, plans }
    } catch {
      known = undefined
    }
    const endMs = performance.now()
    freshUntilMs = endMs + Math.max(FRESH_MS, REST * (endMs - startMs))
    reading = undefined
  }
  return async (nowMs) => {
    const today = Math.floor(nowMs / DAY_MS)
    if (performance.now() > freshUntilMs) reading ??= read(today)
    await Promise.race([reading, sleep(WAIT_MS, undefined, { ref: false })])
    return known?.day === today ? known.plans : null
  }
}
