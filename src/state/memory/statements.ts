/**
 * Applies what a call states of its process, and detects a loss of data: an authority that has just lost data, or is an old
 * copy, knows less than it has reported to its callers.
 */
import type { Statement } from '../quota.ts'
import type { ClientState } from './transition.ts'

/** Nothing is granted ahead of need for so long after a loss of data, or after the first call for a client. */
const LEARNING_MS = 1000
/** Nothing is granted at all at the beginning of that time, since other processes are about to state their use. */
const SETTLING_MS = 15
type Stated = Omit<Statement, 'index'>

/** Names of the counters of each window; building them for each call would be slow. */
const FIELDS = {
  minute: { taken: 'minuteTaken', used: 'minuteUsed', unstated: 'minuteUnstated' },
  day: { taken: 'dayTaken', used: 'dayUsed', unstated: 'dayUnstated' },
} as const

/**
 * Returns what a caller holds and has used of the window `index`. A caller that names another window holds nothing of this one.
 * One that does not know of the window's reset yet keeps what it has in hand, and may have spent after the reset all that it
 * has spent since its latest answered call.
 */
export function statedOf(statement: Statement, index: number, resetMs: number): Stated {
  if (statement.index !== index) return { held: 0, used: 0 }
  const { used, held, fresh = 0 } = statement
  if ((statement.resetMs ?? 0) >= resetMs) return statement
  return { held: Math.max(0, held - used) + fresh, used: fresh }
}

/**
 * Applies a statement: tokens that the caller no longer holds are returned, and those it spent without asking are charged. This
 * serves return, drain and repair alike. After a loss of data the counts are raised to what the caller last knew to be taken,
 * until those who took it have stated it themselves.
 */
export function takeStatement(
  state: ClientState,
  window: 'minute' | 'day',
  caller: { stated: Stated; before: Omit<Stated, 'taken'>; isRestating: boolean },
): void {
  const { stated, before } = caller
  const fields = FIELDS[window]
  const change = stated.held - before.held
  let taken = state[fields.taken] + change
  let used = state[fields.used] + stated.used - before.used
  if (caller.isRestating) {
    const { taken: known = 0, returned = 0 } = stated
    const unstated = state[fields.unstated]
    const explained = Math.max(0, Math.min(change + returned, unstated))
    const missing = Math.max(0, known - returned - taken + explained) - explained
    taken += missing
    used += missing
    state[fields.unstated] = unstated + missing
  }
  // Never below zero, whatever a caller states.
  state[fields.taken] = Math.max(0, taken)
  state[fields.used] = Math.max(0, used)
}

/** Notes a loss of data. isLost: the call shows that others may have used more than is known. The first of such calls is the loss. */
export function noteLoss(state: ClientState, isLost: boolean, atMs: number) {
  const nowMs = Math.floor(atMs)
  const knownLeftMs = state.learningUntilMs - nowMs
  // More time is left only after the clock has gone back.
  const isLoss = isLost && !(knownLeftMs > 0 && knownLeftMs <= LEARNING_MS)
  if (isLoss) state.learningUntilMs = nowMs + LEARNING_MS
  const leftMs = state.learningUntilMs - nowMs
  const isLearning = leftMs > 0 && leftMs <= LEARNING_MS
  return { isLoss, isLearning, settlingLeftMs: isLearning ? leftMs - LEARNING_MS + SETTLING_MS : 0 }
}
