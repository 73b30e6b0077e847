/** The counters of one client, and how a call, `take`, changes them. take.lua is this file's twin; a differential test compares them. */
import type { Limits } from '../../config/config.ts'
import type {
  Notice,
  Statement,
  TakeReply,
  TakeRequest,
  TakeStatus,
  WindowReply,
} from '../quota.ts'
import { DAY_MS, MINUTE_MS } from '../../config/time.ts'

/** The counters of one window of a client. */
export interface WindowCounts {
  readonly index: number
  taken: number
  used: number
  /**
   * The part of the tokens taken that is known from what callers knew before a loss of data, but that none of those who took it
   * has stated.
   */
  unstated: number
  /** When the use was last set back to 0; 0: never on this day. */
  resetMs: number
}

export const windowAt = (index: number, resetMs = 0): WindowCounts => ({
  index,
  taken: 0,
  used: 0,
  unstated: 0,
  resetMs,
})

/** Tokens of a window that a process was granted and keeps, and those of them that it has spent. */
export interface Holding {
  held: number
  used: number
}

const NOTHING: Readonly<Holding> = { held: 0, used: 0 }

/** The latest known holdings of one process, and the answer to its latest call. */
interface ProcessRecord extends Readonly<Record<'minute' | 'day', Holding>> {
  readonly sequence: number
  /** stale: the answer was given before a reset and is of no use any more. */
  status: TakeStatus
  readonly minuteIndex: number
  /** Tokens that the call brought for waiting requests, counted as used before those are answered. */
  readonly spent: number
}

/** Everything the authority knows of one client. Written here, and by the reset of client-counters.ts. */
export class ClientState {
  minute = windowAt(-1)
  /** Before the first call its index is -1: nothing is known of this client. */
  day = windowAt(-1)
  /** Processes that took part in this minute. */
  activeNow = 0
  /** Processes that took part in the minute before. */
  activeBefore = 0
  /** In this minute a request was refused, and no token has been free since. */
  isExhausted = false
  /** Nothing is granted ahead of need until then, as other processes may not have stated their use yet. */
  learningUntilMs = 0
  /**
   * Tokens of the minute known to be taken by all processes that took part in it; means nothing while only one did. It stands
   * for the day too, of which no more is taken at a time, and which has the larger limit.
   */
  minuteAnnounced = 0
  /** Notices `free` sent in this minute. */
  minuteNews = 0
  processes: Map<string, ProcessRecord> = new Map()
}

/** When more than this part of a minute's limit was taken since all processes knew the count, another notice reports it. */
const ANNOUNCED_PART = 16
/**
 * After so many notices nothing more is granted ahead of need in this minute, so that tokens returned unused and taken again do
 * not cause endless notices.
 */
const NEWS_AT_MOST = 16
/** Nothing is granted ahead of need for so long after a loss of data, or after the first call for a client. */
const LEARNING_MS = 1000
/** Nothing is granted at all at the beginning of that time, since other processes are about to state their use. */
const SETTLING_MS = 15

type Stated = Omit<Statement, 'index'>

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
  const isUnknown = state.day.index < 0
  const isSameDay = windowsAt(state, nowMs).dayIndex === state.day.index
  const record = isSameDay ? state.processes.get(request.process) : undefined
  if (request.sequence <= (record?.sequence ?? 0))
    return repeated(state, record, request.sequence, nowMs)
  rollOver(state, nowMs)
  // A process that is alone knows all that is taken, even when the second one comes.
  if (state.activeNow < 2) {
    state.minuteAnnounced = state.minute.taken
    state.minuteNews = 0
  }
  if (record?.minuteIndex !== state.minute.index) state.activeNow += 1

  const { minute, day, isRestating } = applyStatements(state, request, record)
  const { isLoss, isLearning, settlingLeftMs } = noteLoss(state, isUnknown || isRestating, nowMs)
  // The first call for a client is granted one request at once; else every new client would have to wait.
  const atOnce = isUnknown && !isRestating ? 1 : 0
  const need = losesData && settlingLeftMs > 0 ? Math.min(request.need, atOnce) : request.need
  const granted = grant({
    need,
    want: isLearning || state.minuteNews >= NEWS_AT_MOST ? need : request.want,
    minuteLeft: request.limits.perMinute - state.minute.taken,
    dayLeft: request.limits.perDay - state.day.taken,
    minuteFree: minute.held - minute.used,
    dayFree: day.held - day.used,
    shares: Math.max(state.activeNow, state.activeBefore, 1),
  })
  // The tokens of waiting requests count as spent already, so that a refusal is definite at once.
  const spent = Math.min(granted.minute, request.need)
  state.minute.taken += granted.minute
  state.minute.used += spent
  state.day.taken += granted.day
  state.day.used += spent

  const isShort = granted.minute < request.need
  const status = need < request.need ? 'lost' : isShort ? 'short' : 'granted'
  const latest: ProcessRecord = {
    sequence: request.sequence,
    status,
    minuteIndex: state.minute.index,
    minute: { held: minute.held + granted.minute, used: minute.used + spent },
    day: { held: day.held + granted.day, used: day.used + spent },
    spent,
  }
  state.processes.set(request.process, latest)
  const doOthersHold = state.day.taken - latest.day.held > state.day.used - latest.day.used
  const news = newsOf(state, status, request.limits, doOthersHold)
  const notice = isLoss ? 'unknown' : news
  announce(state, notice)
  return reply(state, { status, nowMs, notice }, latest)
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
  if (notice !== undefined || state.minute.taken < state.minuteAnnounced)
    state.minuteAnnounced = state.minute.taken
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
  const tookPart = known?.minuteIndex === state.minute.index
  const minute = statedOf(request.minute, state.minute)
  const day = statedOf(request.day, state.day)
  const isRestating =
    request.day.index === state.day.index && (request.heard ?? 0) > (record?.sequence ?? 0)
  const isOfMinute = isRestating && request.minute.index === state.minute.index
  takeStatement(state.minute, minute, tookPart ? known.minute : NOTHING, isOfMinute)
  takeStatement(state.day, day, known?.day ?? NOTHING, isRestating)
  return { minute, day, isRestating }
}

/**
 * Returns what a caller holds and has used of the authority's window. A caller that names another window holds nothing of this one.
 * One that does not know of the window's reset yet keeps what it has in hand, and may have spent after the reset all that it
 * has spent since its latest answered call.
 */
export function statedOf(
  statement: Statement,
  { index, resetMs }: Pick<WindowCounts, 'index' | 'resetMs'>,
): Stated {
  if (statement.index !== index) return { held: 0, used: 0 }
  const { used, held, fresh = 0 } = statement
  if ((statement.resetMs ?? 0) >= resetMs) return statement
  return { held: Math.max(0, held - used) + fresh, used: fresh }
}

/**
 * Applies a statement: tokens that the caller no longer holds are returned, and those it spent without asking are charged. This
 * serves return, drain and repair alike. After a loss of data the counts are raised to what the caller last knew to be taken,
 * until those who took it have stated it themselves. before: what is counted for the caller.
 */
function takeStatement(
  window: WindowCounts,
  stated: Stated,
  before: Readonly<Holding>,
  isRestating: boolean,
): void {
  const change = stated.held - before.held
  let taken = window.taken + change
  let used = window.used + stated.used - before.used
  if (isRestating) {
    const { taken: known = 0, returned = 0 } = stated
    const { unstated } = window
    const explained = Math.max(0, Math.min(change + returned, unstated))
    const missing = Math.max(0, known - returned - taken + explained) - explained
    taken += missing
    used += missing
    window.unstated = unstated + missing
  }
  // Never below zero, whatever a caller states.
  window.taken = Math.max(0, taken)
  window.used = Math.max(0, used)
}

/** Notes a loss of data. isLost: the call shows that others may have used more than is known. The first of such calls is the loss. */
function noteLoss(state: ClientState, isLost: boolean, atMs: number) {
  const nowMs = Math.floor(atMs)
  const knownLeftMs = state.learningUntilMs - nowMs
  // More time is left only after the clock has gone back.
  const isLoss = isLost && !(knownLeftMs > 0 && knownLeftMs <= LEARNING_MS)
  if (isLoss) state.learningUntilMs = nowMs + LEARNING_MS
  const leftMs = state.learningUntilMs - nowMs
  const isLearning = leftMs > 0 && leftMs <= LEARNING_MS
  return { isLoss, isLearning, settlingLeftMs: isLearning ? leftMs - LEARNING_MS + SETTLING_MS : 0 }
}

/** Writes isExhausted; returns the notice for the others. doOthersHold: one of them may have tokens in hand, and report what is left. */
function newsOf(
  state: ClientState,
  status: TakeStatus,
  limits: Limits,
  doOthersHold: boolean,
): Notice | undefined {
  const { isExhausted } = state
  const isFree = state.minute.taken < limits.perMinute && state.day.taken < limits.perDay
  state.isExhausted = status === 'short' || (isExhausted && !isFree)
  if (status === 'short') return !isExhausted || isHeld(state, limits) ? 'short' : undefined
  const isFreeAgain = isExhausted && !state.isExhausted
  const isMuchTaken =
    state.minute.taken - state.minuteAnnounced > Math.floor(limits.perMinute / ANNOUNCED_PART)
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
  const now = stateAt(state, nowMs)
  const minute = record?.minuteIndex === now.minute.index ? record.minute : NOTHING
  const holding = { minute, day: record?.day ?? NOTHING }
  return reply(now, { status, nowMs, notice: undefined }, holding)
}

/** Returns the state as it is at this time, without a change of `state`. */
export function stateAt(state: ClientState, nowMs: number): ClientState {
  const now = Object.assign(new ClientState(), state)
  rollOver(now, nowMs)
  return now
}

/**
 * Returns the windows of a call. A small skew of the clock does not set them back: a window that has ended is not opened again.
 * A clock that goes back by more was wrong before, so that its new time applies.
 */
function windowsAt(state: ClientState, nowMs: number): { minuteIndex: number; dayIndex: number } {
  const ofClock = Math.floor(nowMs / MINUTE_MS)
  const minuteIndex = state.minute.index === ofClock + 1 ? state.minute.index : ofClock
  return { minuteIndex, dayIndex: Math.floor((minuteIndex * MINUTE_MS) / DAY_MS) }
}

/** Begins the windows that have followed on those of the state. */
export function rollOver(state: ClientState, nowMs: number): void {
  const { minuteIndex, dayIndex } = windowsAt(state, nowMs)
  const isSameDay = dayIndex === state.day.index
  if (isSameDay && minuteIndex === state.minute.index) return
  state.activeBefore = isSameDay && minuteIndex === state.minute.index + 1 ? state.activeNow : 0
  state.activeNow = 0
  state.minute = windowAt(minuteIndex, isSameDay ? state.minute.resetMs : 0)
  state.isExhausted = false
  if (isSameDay) return
  state.day = windowAt(dayIndex)
  state.processes = new Map()
}

function reply(
  { minute, day }: ClientState,
  { status, nowMs, notice }: Pick<TakeReply, 'status' | 'nowMs' | 'notice'>,
  holding: Readonly<Record<'minute' | 'day', Readonly<Holding>>>,
): TakeReply {
  return {
    status,
    nowMs: Math.ceil(nowMs),
    minute: windowReply(minute, holding.minute),
    day: windowReply(day, holding.day),
    notice,
  }
}

const windowReply = (
  { index, taken, used, resetMs }: WindowCounts,
  { held }: Readonly<Holding>,
): WindowReply => ({ index, taken, used, resetMs, held })

/** Whether a window is used up, but not all of its tokens are spent. */
function isHeld({ minute, day }: ClientState, { perMinute, perDay }: Limits): boolean {
  const isIn = ({ taken, used }: WindowCounts, limit: number): boolean =>
    taken >= limit && taken > used
  return isIn(minute, perMinute) || isIn(day, perDay)
}
