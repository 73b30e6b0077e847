/** What outlives the process of the embedded authority: each client's tokens handed out in the windows that still run. */
import { DAY_MS } from '../protocol.ts'
import { ClientState, EXPIRY_AFTER_DAY_MS } from '../authorities/transition.ts'

export interface KeptCounters {
  readonly client: string
  readonly minuteIndex: number
  readonly minuteTaken: number
  readonly dayIndex: number
  readonly dayTaken: number
}

/**
 * The processes that held tokens are gone, and what they did not give back may have been spent: all of it counts as used.
 * Indexes are taken as they are: a window that had ended stays so, even if the clock went back meanwhile.
 */
export function restoredState(kept: KeptCounters): ClientState {
  const { minuteIndex, minuteTaken, dayIndex, dayTaken } = kept
  const state = { minuteIndex, minuteTaken, minuteUsed: minuteTaken, dayIndex, dayTaken }
  return Object.assign(new ClientState(), state, { dayUsed: dayTaken, isKnown: true })
}

/** The first day whose counters are still of use. */
export function firstKeptDay(nowMs: number): number {
  return Math.floor((nowMs - EXPIRY_AFTER_DAY_MS) / DAY_MS)
}
