/** The counters of one client, and how a call, `take`, changes them. take.lua is this file's twin; a differential test compares them. */
import type { Limits } from '../../config/config.ts'
import { noteLoss, statedOf, takeStatement } from './statements.ts'
import type { Notice, TakeReply, TakeRequest, TakeStatus } from '../quota.ts'
import { DAY_MS, MINUTE_MS } from '../../config/time.ts'

/** The latest known holdings of one process, and the answer to its latest call. */
interface ProcessRecord {
  readonly sequence: number
  /** stale: the answer was given before a reset and is of no use any more. */
  status: TakeStatus
  readonly minuteIndex: number
  minuteHeld: number
  minuteUsed: number
  dayHeld: number
  dayUsed: number
  /** Tokens that the call brought for waiting requests, counted as used before those are answered. */
  readonly spent: number
}

/** Everything the authority knows of one client. Written here, by statements.ts, and by the reset of client-counters.ts. */
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
  /** In this minute a request was refused, and no token has been free since. */
  isExhausted = false
  /**
   * The part of the tokens taken that is known from what callers knew before a loss of data, but that none of those who took it
   * has stated.
   */
  minuteUnstated = 0
  dayUnstated = 0
  /** When the use of the window was last set back to 0; 0: never on this day. */
  minuteResetMs = 0
  dayResetMs = 0
  /** Nothing is granted ahead of need until then, as other processes may not have stated their use yet. */
  learningUntilMs = 0
  /**
   * Tokens of the minute known to be taken by all processes that took part in it; means nothing while only one did. It stands
   * for the day too, of which no more is taken at a time, and which has the larger limit.
   */
  minuteAnnounced = 0
  /** Notices `free` sent in this minute. */
  minuteNews = 0
  readonly processes = new Map<string, ProcessRecord>()
}

/** When more than this part of a minute's limit was taken since all processes knew the count, another notice reports it. */
const ANNOUNCED_PART = 16
/**
 * After so many notices nothing more is granted ahead of need in this minute, so that tokens returned unused and taken again do
 * not cause endless notices.
 */
const NEWS_AT_MOST = 16

/**
 * Applies one call to the client's counters, changing `state` in place; a stale or repeated call changes nothing.
 * nowMs: the authority's own clock in ms; may have a fraction.
 * losesData: others may know what the authority has lost, so that it waits for their statements.
 */
export function transition(
  state: ClientState,
  request: TakeRequest,
  nowMs: number,
  losesData: boolean,
): TakeReply {
  const isUnknown = !state.isKnown
  const isSameDay = windowsAt(state, nowMs).dayIndex === state.dayIndex
  const record = isSameDay ? state.processes.get(request.process) : undefined
  if (request.sequence <= (record?.sequence ?? 0))
    return repeated(state, record, request.sequence, nowMs)
  rollOver(state, nowMs)
  state.isKnown = true
  // A process that is alone knows all that is taken, even when the second one comes.
  if (state.activeNow < 2) {
    state.minuteAnnounced = state.minuteTaken
    state.minuteNews = 0
  }
  if (record?.minuteIndex !== state.minuteIndex) state.activeNow += 1

  const { minute, day, isRestating } = applyStatements(state, request, record)
  const { isLoss, isLearning, settlingLeftMs } = noteLoss(state, isUnknown || isRestating, nowMs)
  // The first call for a client is granted one request at once; else every new client would have to wait.
  const atOnce = isUnknown && !isRestating ? 1 : 0
  const need = losesData && settlingLeftMs > 0 ? Math.min(request.need, atOnce) : request.need
  const granted = grant({
    need,
    want: isLearning || state.minuteNews >= NEWS_AT_MOST ? need : request.want,
    minuteLeft: request.limits.perMinute - state.minuteTaken,
    dayLeft: request.limits.perDay - state.dayTaken,
    minuteFree: minute.held - minute.used,
    dayFree: day.held - day.used,
    shares: Math.max(state.activeNow, state.activeBefore, 1),
  })
  // The tokens of waiting requests count as spent already, so that a refusal is definite at once.
  const spent = Math.min(granted.minute, request.need)
  state.minuteTaken += granted.minute
  state.minuteUsed += spent
  state.dayTaken += granted.day
  state.dayUsed += spent

  const isShort = granted.minute < request.need
  const status = need < request.need ? 'lost' : isShort ? 'short' : 'granted'
  const held = { minute: minute.held + granted.minute, day: day.held + granted.day }
  state.processes.set(request.process, {
    sequence: request.sequence,
    status,
    minuteIndex: state.minuteIndex,
    minuteHeld: held.minute,
    minuteUsed: minute.used + spent,
    dayHeld: held.day,
    dayUsed: day.used + spent,
    spent,
  })
  const doOthersHold = state.dayTaken - held.day > state.dayUsed - day.used - spent
  const news = newsOf(state, status, request.limits, doOthersHold)
  const notice = isLoss ? 'unknown' : news
  announce(state, notice)
  return reply(state, { status, nowMs, notice }, held)
}

/**
 * Decides how many tokens a call is granted, so that each can be spent in both windows: at least `need` while so many are left,
 * and up to `want` within an equal share of what is left.
 */
function grant(ask: {
  need: number
  want: number
  minuteLeft: number
  dayLeft: number
  minuteFree: number
  dayFree: number
  shares: number
}): { minute: number; day: number } {
  if (ask.want <= 0) return { minute: 0, day: 0 }
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

/** Notes how much all processes know to be taken after a call: with a notice, all of it. */
function announce(state: ClientState, notice: Notice | undefined): void {
  if (notice === 'free') state.minuteNews += 1
  // The process that is answered knows of no more than this.
  if (notice !== undefined || state.minuteTaken < state.minuteAnnounced)
    state.minuteAnnounced = state.minuteTaken
}

/**
 * Applies the caller's statements. isRestating: the caller knows the answer to a call that is not known here. record: of its
 * latest known call.
 */
function applyStatements(
  state: ClientState,
  request: TakeRequest,
  record: ProcessRecord | undefined,
) {
  // A caller that has forgotten the client since its latest known call does not take back what it used before.
  const known = (record?.sequence ?? 0) > (request.since ?? 0) ? record : undefined
  const tookPart = known?.minuteIndex === state.minuteIndex
  const minute = statedOf(request.minute, state.minuteIndex, state.minuteResetMs)
  const day = statedOf(request.day, state.dayIndex, state.dayResetMs)
  const isRestating =
    request.day.index === state.dayIndex && (request.heard ?? 0) > (record?.sequence ?? 0)
  const inMinute = { held: tookPart ? known.minuteHeld : 0, used: tookPart ? known.minuteUsed : 0 }
  const inDay = { held: known?.dayHeld ?? 0, used: known?.dayUsed ?? 0 }
  const isOfMinute = isRestating && request.minute.index === state.minuteIndex
  takeStatement(state, 'minute', { before: inMinute, stated: minute, isRestating: isOfMinute })
  takeStatement(state, 'day', { before: inDay, stated: day, isRestating })
  return { minute, day, isRestating }
}

/** Writes isExhausted; returns the notice for the others. doOthersHold: one of them may have tokens in hand, and report what is left. */
function newsOf(
  state: ClientState,
  status: TakeStatus,
  limits: Limits,
  doOthersHold: boolean,
): Notice | undefined {
  const { isExhausted } = state
  const isFree = state.minuteTaken < limits.perMinute && state.dayTaken < limits.perDay
  state.isExhausted = status === 'short' || (isExhausted && !isFree)
  if (status === 'short') return !isExhausted || isHeld(state, limits) ? 'short' : undefined
  const isFreeAgain = isExhausted && !state.isExhausted
  const isMuchTaken =
    state.minuteTaken - state.minuteAnnounced > Math.floor(limits.perMinute / ANNOUNCED_PART)
  return isFreeAgain || (doOthersHold && isMuchTaken) ? 'free' : undefined
}

/** Answers a call that is repeated, or comes after a later one, by the present state, changing nothing. */
function repeated(
  state: ClientState,
  record: ProcessRecord | undefined,
  sequence: number,
  nowMs: number,
): TakeReply {
  const status = record?.sequence === sequence ? record.status : 'stale'
  const now = Object.assign(new ClientState(), state)
  rollOver(now, nowMs)
  const tookPart = record?.minuteIndex === now.minuteIndex
  const held = { minute: tookPart ? record.minuteHeld : 0, day: record?.dayHeld ?? 0 }
  return reply(now, { status, nowMs, notice: undefined }, held)
}

/**
 * Returns the windows of a call. A small skew of the clock does not set them back: a window that has ended is not opened again.
 * A clock that goes back by more was wrong before, so that its new time applies.
 */
function windowsAt(state: ClientState, nowMs: number): { minuteIndex: number; dayIndex: number } {
  const ofClock = Math.floor(nowMs / MINUTE_MS)
  const minuteIndex = state.minuteIndex === ofClock + 1 ? state.minuteIndex : ofClock
  return { minuteIndex, dayIndex: Math.floor((minuteIndex * MINUTE_MS) / DAY_MS) }
}

/** Resets the counts of windows that have ended. */
export function rollOver(state: ClientState, nowMs: number): void {
  const { minuteIndex, dayIndex } = windowsAt(state, nowMs)
  const isSameDay = dayIndex === state.dayIndex
  if (isSameDay && minuteIndex === state.minuteIndex) return
  state.activeBefore = isSameDay && minuteIndex === state.minuteIndex + 1 ? state.activeNow : 0
  state.activeNow = 0
  state.minuteIndex = minuteIndex
  state.minuteTaken = state.minuteUsed = state.minuteUnstated = 0
  state.isExhausted = false
  if (isSameDay) return
  state.dayIndex = dayIndex
  state.dayTaken = state.dayUsed = state.dayUnstated = 0
  state.minuteResetMs = state.dayResetMs = 0
  state.processes.clear()
}

function reply(
  state: ClientState,
  { status, nowMs, notice }: Pick<TakeReply, 'status' | 'nowMs' | 'notice'>,
  held: { minute: number; day: number },
): TakeReply {
  return {
    status,
    nowMs: Math.ceil(nowMs),
    minute: {
      index: state.minuteIndex,
      taken: state.minuteTaken,
      used: state.minuteUsed,
      resetMs: state.minuteResetMs,
      held: held.minute,
    },
    day: {
      index: state.dayIndex,
      taken: state.dayTaken,
      used: state.dayUsed,
      resetMs: state.dayResetMs,
      held: held.day,
    },
    notice,
  }
}

/** Whether a window is used up, but not all of its tokens are spent. */
function isHeld(state: ClientState, { perMinute, perDay }: Limits): boolean {
  const { minuteTaken, dayTaken } = state
  return (
    (minuteTaken >= perMinute && minuteTaken > state.minuteUsed) ||
    (dayTaken >= perDay && dayTaken > state.dayUsed)
  )
}
