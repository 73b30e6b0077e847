/** The counters of one client and the one change they know: `take`. take.lua is this file's twin; a differential test holds them together. */
import type { Limits } from '../../config/config.ts'
import {
  DAY_MS,
  MINUTE_MS,
  type Hold,
  type Notice,
  type TakeReply,
  type TakeRequest,
  type TakeStatus,
} from '../protocol.ts'

/** What one process was last known to hold, and how its latest call was answered. */
interface ProcessRecord {
  readonly sequence: number
  readonly status: TakeStatus
  readonly minuteIndex: number
  readonly minuteHeld: number
  readonly minuteUsed: number
  readonly dayHeld: number
  readonly dayUsed: number
}

/** Everything the authority knows of one client. Written by `transition` alone. */
export class ClientState {
  /** false: nothing is known of this client, and the counters and indexes below mean nothing. */
  isKnown = false
  minuteIndex = 0
  minuteTaken = 0
  minuteUsed = 0
  /** Processes that took part in this minute. */
  activeNow = 0
  /** Processes that took part in the minute before. */
  activeBefore = 0
  dayIndex = 0
  dayTaken = 0
  dayUsed = 0
  /** In this minute somebody was refused, and no token has been free since. */
  isExhausted = false
  /** Until then nothing is granted ahead of need: other processes may not have stated their use yet. */
  learningUntilMs = 0
  readonly processes = new Map<string, ProcessRecord>()
}

const LEARNING_MS = 1000
/** A client's state is of no use this long after its day has ended. */
export const EXPIRY_AFTER_DAY_MS = 3_600_000

/**
 * Applies one call to the client's counters, changing `state` in place; a stale or repeated call changes nothing.
 * nowMs is the authority's own clock in ms and may have a fraction.
 */
export function transition(state: ClientState, request: TakeRequest, nowMs: number): TakeReply {
  const isUnknown = !state.isKnown
  const isSameDay = Math.floor(nowMs / DAY_MS) <= state.dayIndex
  const record = isSameDay ? state.processes.get(request.process) : undefined
  if (record !== undefined && request.sequence <= record.sequence)
    return repeated(state, record, request.sequence, nowMs)
  rollOver(state, Math.floor(nowMs))
  state.isKnown = true
  const tookPart = record?.minuteIndex === state.minuteIndex
  if (!tookPart) state.activeNow += 1

  const minute = statedHold(request.minute, state.minuteIndex)
  const day = statedHold(request.day, state.dayIndex)
  // What the caller no longer holds goes back, what it spent without asking is charged: return, drain and repair in one.
  state.minuteTaken = changed(state.minuteTaken, minute.held - (tookPart ? record.minuteHeld : 0))
  state.minuteUsed = changed(state.minuteUsed, minute.used - (tookPart ? record.minuteUsed : 0))
  state.dayTaken = changed(state.dayTaken, day.held - (record?.dayHeld ?? 0))
  state.dayUsed = changed(state.dayUsed, day.used - (record?.dayUsed ?? 0))

  if (isUnknown) state.learningUntilMs = Math.floor(nowMs) + LEARNING_MS
  const want = Math.floor(nowMs) < state.learningUntilMs ? request.need : request.want
  const hasLostState = isUnknown && day.held > 0 && want > 0
  const granted = hasLostState
    ? NOTHING
    : grant({
        need: request.need,
        want,
        minuteLeft: request.limits.perMinute - state.minuteTaken,
        dayLeft: request.limits.perDay - state.dayTaken,
        minuteFree: minute.held - minute.used,
        dayFree: day.held - day.used,
        shares: activeProcesses(state),
      })
  // Waiting requests spend their tokens on arrival; so a refusal is definite at once.
  const spent = Math.min(granted.minute, request.need)
  state.minuteTaken += granted.minute
  state.minuteUsed += spent
  state.dayTaken += granted.day
  state.dayUsed += spent

  const status = hasLostState ? 'lost' : granted.minute < request.need ? 'short' : 'granted'
  const held = { minute: minute.held + granted.minute, day: day.held + granted.day }
  state.processes.set(request.process, {
    sequence: request.sequence,
    status,
    minuteIndex: state.minuteIndex,
    minuteHeld: held.minute,
    minuteUsed: minute.used + spent,
    dayHeld: held.day,
    dayUsed: day.used + spent,
  })
  const { isExhausted } = state
  state.isExhausted = status === 'short' || (isExhausted && !isFree(state, request.limits))
  let notice: Notice | undefined
  if (isUnknown) notice = 'unknown'
  else if (status !== 'short') notice = isExhausted && !state.isExhausted ? 'free' : undefined
  else if (!isExhausted || isHeld(state, request.limits)) notice = 'short'
  return reply(state, { status, nowMs, held, notice })
}

/** The answer to a call that was heard before, or comes after a later one: as things stand now, changing nothing. */
function repeated(
  state: ClientState,
  record: ProcessRecord,
  sequence: number,
  nowMs: number,
): TakeReply {
  const status = sequence === record.sequence ? record.status : 'stale'
  const now = Object.assign(new ClientState(), state)
  rollOver(now, Math.floor(nowMs))
  const tookPart = record.minuteIndex === now.minuteIndex
  const held = { minute: tookPart ? record.minuteHeld : 0, day: record.dayHeld }
  return reply(now, { status, nowMs, held, notice: undefined })
}

/** Forgets what belongs to a window that has ended. */
function rollOver(state: ClientState, nowMs: number): void {
  // Indexes never go back, even if the clock does: a window that has ended is never opened again.
  const dayIndex = Math.max(Math.floor(nowMs / DAY_MS), state.dayIndex)
  const minuteIndex = Math.max(Math.floor(nowMs / MINUTE_MS), state.minuteIndex)
  const isSameDay = dayIndex === state.dayIndex
  if (isSameDay && minuteIndex === state.minuteIndex) return
  state.activeBefore = isSameDay && minuteIndex === state.minuteIndex + 1 ? state.activeNow : 0
  state.activeNow = 0
  state.minuteIndex = minuteIndex
  state.minuteTaken = 0
  state.minuteUsed = 0
  state.isExhausted = false
  if (isSameDay) return
  state.dayIndex = dayIndex
  state.dayTaken = 0
  state.dayUsed = 0
  state.processes.clear()
}

interface Verdict extends Pick<TakeReply, 'status' | 'nowMs' | 'notice'> {
  readonly held: { minute: number; day: number }
}

function reply(state: ClientState, { status, nowMs, held, notice }: Verdict): TakeReply {
  return {
    status,
    nowMs: Math.ceil(nowMs),
    minute: {
      index: state.minuteIndex,
      held: held.minute,
      taken: state.minuteTaken,
      used: state.minuteUsed,
    },
    day: { index: state.dayIndex, held: held.day, taken: state.dayTaken, used: state.dayUsed },
    activeProcesses: activeProcesses(state),
    notice,
  }
}

function isFree({ minuteTaken, dayTaken }: ClientState, { perMinute, perDay }: Limits): boolean {
  return minuteTaken < perMinute && dayTaken < perDay
}

/** Whether a window is used up, but not all of it spent. */
function isHeld(state: ClientState, { perMinute, perDay }: Limits): boolean {
  const { minuteTaken, dayTaken } = state
  return (
    (minuteTaken >= perMinute && minuteTaken > state.minuteUsed) ||
    (dayTaken >= perDay && dayTaken > state.dayUsed)
  )
}

function activeProcesses({ activeNow, activeBefore }: ClientState): number {
  return Math.max(activeNow, activeBefore, 1)
}

/** Never below zero, whatever a caller states. */
function changed(count: number, by: number): number {
  return Math.max(0, count + by)
}

const NOTHING = { minute: 0, day: 0 }

/** A caller that speaks of another window keeps nothing of this one. */
function statedHold(hold: Hold, index: number): { held: number; used: number } {
  return hold.index === index ? hold : { held: 0, used: 0 }
}

/** Whole tokens in both windows or in neither: at least `need` while there is that much, up to `want` within an equal share of what is left. */
function grant(ask: {
  need: number
  want: number
  minuteLeft: number
  dayLeft: number
  minuteFree: number
  dayFree: number
  shares: number
}): { minute: number; day: number } {
  if (ask.want <= 0) return NOTHING
  const wished = (left: number): number => {
    const share = Math.min(ask.want, Math.floor(left / ask.shares))
    return Math.max(0, Math.min(Math.max(ask.need, share), left))
  }
  // Day tokens in hand may outnumber minute tokens, which end with the minute: only the difference is taken.
  // A lowered limit acts on day tokens in hand too.
  const dayAtMost = ask.dayFree + (ask.dayLeft < 0 ? ask.dayLeft : wished(ask.dayLeft))
  const minute = Math.max(0, Math.min(wished(ask.minuteLeft), dayAtMost - ask.minuteFree))
  // Minute tokens in hand may outnumber day tokens too, when the minute began while a call was under way.
  return { minute, day: Math.max(0, Math.min(ask.minuteFree + minute, dayAtMost) - ask.dayFree) }
}
