/** What a row of the journal means to the authority. */
import type { Row } from '../../sqlite/quota-rows.ts'
import { ClientState, EXPIRY_AFTER_DAY_MS } from '../authorities/transition.ts'
import { DAY_MS } from '../protocol.ts'

/**
 * The processes that held tokens are gone, and what they did not give back may have been spent: all of it counts as used.
 * What a process states that was there before is in it, where memory alone had forgotten the client.
 * Indexes are taken as they are: a window that had ended stays so, even if the clock went back meanwhile.
 */
export function restoredState(row: Row): ClientState {
  const { minuteIndex, minuteTaken, dayIndex, dayTaken } = row
  const minute = { minuteIndex, minuteTaken, minuteUsed: minuteTaken, minuteUnstated: minuteTaken }
  const day = { dayIndex, dayTaken, dayUsed: dayTaken, dayUnstated: dayTaken }
  return Object.assign(new ClientState(), minute, day, { isKnown: true })
}

/** The first day whose counters are still of use. */
export function firstKeptDay(nowMs: number): number {
  return Math.floor((nowMs - EXPIRY_AFTER_DAY_MS) / DAY_MS)
}
