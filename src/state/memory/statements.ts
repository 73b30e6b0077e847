/**
 * What a call states of its process, and what that says of a loss of data: an authority that has just lost data, or is an old copy,
 * knows less than its callers were told.
 */
import type { Statement } from '../quota.ts'
import type { ClientState } from './transition.ts'

/** So long after a loss of data, or the first call for a client, nothing is granted ahead of need. */
const LEARNING_MS = 1000
/** So long of it nothing is granted at all, since other processes are about to state their use. */
const SETTLING_MS = 15
type Stated = Omit<Statement, 'index'>

/** Names of what is counted of each window: to put them together for each call is dear. */
const FIELDS = {
  minute: { taken: 'minuteTaken', used: 'minuteUsed', unstated: 'minuteUnstated' },
  day: { taken: 'dayTaken', used: 'dayUsed', unstated: 'dayUnstated' },
} as const

/**
 * A caller that speaks of another window keeps nothing of this one. One that has not heard of its reset yet keeps what it has in hand,
 * and may have spent after it all that it has spent since it was answered.
 */
export function statedOf(statement: Statement, index: number, resetMs: number): Stated {
  if (statement.index !== index) return { held: 0, used: 0 }
  const { used, held, fresh = 0 } = statement
  if ((statement.resetMs ?? 0) >= resetMs) return statement
  return { held: Math.max(0, held - used) + fresh, used: fresh }
}

/**
 * What the caller no longer holds goes back, what it spent without asking is charged: return, drain and repair in one. After a loss
 * of data what it was last told to be taken is a floor under the counts, until those who took it have stated it themselves.
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

/** isLost: the call shows that others may have used more than is known. The first of such calls is the loss. */
export function learn(state: ClientState, isLost: boolean, atMs: number) {
  const nowMs = Math.floor(atMs)
  const knownLeftMs = state.learningUntilMs - nowMs
  // More is left only after the clock has gone back.
  const isLoss = isLost && !(knownLeftMs > 0 && knownLeftMs <= LEARNING_MS)
  if (isLoss) state.learningUntilMs = nowMs + LEARNING_MS
  const leftMs = state.learningUntilMs - nowMs
  const isLearning = leftMs > 0 && leftMs <= LEARNING_MS
  return { isLoss, isLearning, settlingLeftMs: isLearning ? leftMs - LEARNING_MS + SETTLING_MS : 0 }
}
