/** The counters of one client, and how a call, `take`, changes them. take.lua is this file's twin; a differential test compares them. */
import type { Limits } from '../../config/config.ts'
import { DAY_MS, MINUTE_MS, perWindow, windows, type PerWindow } from '../../config/time.ts'
import type {
  Notice,
  Statement,
  TakeReply,
  TakeRequest,
  TakeStatus,
  WindowReply,
} from '../quota.ts'

export interface WindowCounts {
  readonly index: number
  taken: number
  used: number
  /** The part of `taken` that callers knew of before a loss of data, and that none of those who took it has stated. */
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
  readonly index: number
  held: number
  used: number
}

/** The latest known holdings of one process, and the answer to its latest call. */
interface ProcessRecord {
  readonly sequence: number
  /** stale: the answer was given before a reset and is of no use any more. */
  status: TakeStatus
  readonly holdings: PerWindow<Holding>
  /** Tokens that the call brought for waiting requests, counted as used before those are answered. */
  readonly spent: number
}

/** Everything the authority knows of one client. Written here, and by the reset of counters.ts. */
export class ClientState {
  /** Before the first call their index is -1: nothing is known of this client. */
  counts = perWindow(() => windowAt(-1))
  /** Processes that took part in this minute. */
  activeNow = 0
  /** Processes that took part in the minute before. */
  activeBefore = 0
  /** In this minute a request was refused, and no token has been free since. */
  isExhausted = false
  /** Nothing is granted ahead of need until then, as other processes may not have stated their use yet. */
  learningUntilMs = 0
  /** `taken` of the minute as all of its processes know it; means nothing while only one took part. It stands for the longer windows, too. */
  minuteAnnounced = 0
  /** Notices `free` sent in this minute; the first call of a minute comes alone, and begins at 0. */
  minuteNews = 0
  processes: Map<string, ProcessRecord> = new Map()
}

/** When more than this part of a minute's limit was taken since all processes knew the count, another notice reports it. */
const ANNOUNCED_PART = 16
/** After so many notices a minute grants nothing ahead of need: tokens returned and taken again would cause endless notices. */
const NEWS_AT_MOST = 16
/** Nothing is granted ahead of need for so long after a loss of data, or after the first call for a client. */
const LEARNING_MS = 1000
/** Nothing is granted at all at the beginning of that time, since other processes are about to state their use. */
const SETTLING_MS = 15

/**
 * Applies one call to the client's counters, changing `state` in place; a stale or repeated call changes nothing.
 * nowMs: the authority's own clock in ms; may have a fraction.
 * losesData: true for an authority that may lose what others know, as Redis does (take.lua): it waits for their statements.
 */
export function transition(
  state: ClientState,
  request: TakeRequest,
  nowMs: number,
  losesData: boolean,
): TakeReply {
  const { limits } = request
  const isUnknown = state.counts.day.index < 0
  const isSameDay = indexAt(minuteAt(state, nowMs), DAY_MS) === state.counts.day.index
  const record = isSameDay ? state.processes.get(request.process) : undefined
  const { sequence: known = 0 } = record ?? {}
  if (request.sequence <= known) return repeated(state, record, request.sequence, nowMs)
  rollOver(state, nowMs)
  const { minute, day } = state.counts
  // A process that is alone knows all that is taken, even when the second one comes.
  if (state.activeNow < 2) {
    state.minuteAnnounced = minute.taken
    state.minuteNews = 0
  }
  if (record?.holdings.minute.index !== minute.index) state.activeNow += 1

  // The caller knows the answer to a call that is not known here.
  const isRestating = request.day.index === day.index && (request.heard ?? 0) > known
  // A caller that has forgotten the client since its latest known call does not take back what it used before.
  const before = known > (request.since ?? 0) ? record?.holdings : undefined
  const kept = perWindow(({ name }) =>
    applyStatement(state.counts[name], request[name], before?.[name], isRestating),
  )
  const { isLoss, isLearning, settlingLeftMs } = noteLoss(state, isUnknown || isRestating, nowMs)
  // The first call for a client is granted one request at once; else every new client would have to wait.
  const atOnce = isUnknown && !isRestating ? 1 : 0
  const need = losesData && settlingLeftMs > 0 ? Math.min(request.need, atOnce) : request.need
  const want = isLearning || state.minuteNews >= NEWS_AT_MOST ? need : request.want
  const shares = Math.max(state.activeNow, state.activeBefore, 1)
  const ask = { need, want, shares }
  let spendable = Infinity
  for (const { name, limit } of windows) {
    const left = limits[limit] - state.counts[name].taken
    spendable = Math.min(spendable, spendableIn(left, kept[name], ask))
  }
  const brought = Math.max(0, spendable - kept.minute.held + kept.minute.used)
  // The tokens of waiting requests count as spent already, so that a refusal is definite at once.
  const spent = Math.min(brought, request.need)
  const holdings = perWindow(({ name }) => charge(state.counts[name], kept[name], spendable, spent))

  const isShort = brought < request.need
  const status = need < request.need ? 'lost' : isShort ? 'short' : 'granted'
  state.processes.set(request.process, { sequence: request.sequence, status, holdings, spent })
  const { held, used } = holdings.day
  const doOthersHold = day.taken - held > day.used - used
  const news = newsOf(state, status, limits, doOthersHold)
  const notice = isLoss ? 'unknown' : news
  announce(state, notice)
  return reply(state, { status, nowMs, notice }, holdings)
}

/**
 * Returns how many tokens of a window the caller may have in hand: those it keeps, `need` more while so many are left, and up to
 * `want` within an equal share; fewer than it keeps where the limit was lowered. It may spend the least of all windows, and each
 * is granted what it lacks of that, as more may be in hand of one window than of another.
 */
function spendableIn(
  left: number,
  { held, used }: Holding,
  { need, want, shares }: { need: number; want: number; shares: number },
): number {
  // A caller that wants nothing is granted nothing, whatever it holds.
  if (want <= 0) return -Infinity
  const wished = Math.max(need, Math.min(want, Math.floor(left / shares)))
  return held - used + Math.min(wished, left)
}

/** Charges what a window lacks of the spendable tokens, `spent` of them as used; returns what the caller holds afterwards. */
function charge(
  window: WindowCounts,
  { index, held, used }: Holding,
  spendable: number,
  spent: number,
): Holding {
  const granted = Math.max(0, spendable - held + used)
  window.taken += granted
  window.used += spent
  return { index, held: held + granted, used: used + spent }
}

/** Notes how much all processes know to be taken after a call: with a notice, all of it. */
function announce(state: ClientState, notice: Notice | undefined): void {
  if (notice === 'free') state.minuteNews += 1
  // The process that is answered knows of no more than this.
  const { taken } = state.counts.minute
  if (notice !== undefined || taken < state.minuteAnnounced) state.minuteAnnounced = taken
}

/**
 * Returns what a caller holds and has used of the authority's window: nothing where it names another. One that does not know of
 * a reset yet keeps what it has in hand, and may have spent after the reset all that it has spent since its latest answered call.
 */
export function statedOf(
  statement: Statement,
  { index, resetMs }: Pick<WindowCounts, 'index' | 'resetMs'>,
): Statement {
  if (statement.index !== index) return { index, held: 0, used: 0 }
  const { used, held, fresh = 0 } = statement
  if ((statement.resetMs ?? 0) >= resetMs) return statement
  return { index, held: Math.max(0, held - used) + fresh, used: fresh }
}

/**
 * Takes back what the caller no longer holds, charges what it spent without asking, and returns what it keeps. After a loss of
 * data counts rise to what it last knew to be taken, until those who took it have stated it. before: what is counted for it.
 */
function applyStatement(
  window: WindowCounts,
  statement: Statement,
  before: Holding | undefined,
  isRestating: boolean,
): Holding {
  const stated = statedOf(statement, window)
  const isCounted = before?.index === window.index
  const change = stated.held - (isCounted ? before.held : 0)
  let taken = window.taken + change
  let used = window.used + stated.used - (isCounted ? before.used : 0)
  if (isRestating && statement.index === window.index) {
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
  return stated
}

/** Notes a loss of data. showsLoss: the call shows that others may have used more than is known; the first such call begins it. */
function noteLoss(state: ClientState, showsLoss: boolean, atMs: number) {
  const nowMs = Math.floor(atMs)
  const knownLeftMs = state.learningUntilMs - nowMs
  // More time is left only after the clock has gone back.
  const isLoss = showsLoss && !(knownLeftMs > 0 && knownLeftMs <= LEARNING_MS)
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
  const { isExhausted, counts } = state
  const isFree = windows.every(({ name, limit }) => counts[name].taken < limits[limit])
  state.isExhausted = status === 'short' || (isExhausted && !isFree)
  if (status === 'short') {
    const isAnyHeld = windows.some(({ name, limit }) => isHeld(counts[name], limits[limit]))
    return !isExhausted || isAnyHeld ? 'short' : undefined
  }
  const isFreeAgain = isExhausted && !state.isExhausted
  const isMuchTaken =
    counts.minute.taken - state.minuteAnnounced > Math.floor(limits.perMinute / ANNOUNCED_PART)
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
  return reply(stateAt(state, nowMs), { status, nowMs, notice: undefined }, record?.holdings)
}

/** Returns the state as it is at this time, without a change of `state`. */
export function stateAt(state: ClientState, nowMs: number): ClientState {
  const now = Object.assign(new ClientState(), state)
  rollOver(now, nowMs)
  return now
}

/** Returns the minute of a call. A small step back of the clock opens no window again; a larger one shows that it was wrong before. */
function minuteAt(state: ClientState, nowMs: number): number {
  const ofClock = Math.floor(nowMs / MINUTE_MS)
  const { index } = state.counts.minute
  return index === ofClock + 1 ? index : ofClock
}

/** Returns the index of the window of this length that has the minute. */
const indexAt = (minuteIndex: number, lengthMs: number): number =>
  Math.floor((minuteIndex * MINUTE_MS) / lengthMs)

/** Begins the windows that have followed on those of the state. */
export function rollOver(state: ClientState, nowMs: number): void {
  const minute = minuteAt(state, nowMs)
  const { counts } = state
  const isSameDay = indexAt(minute, DAY_MS) === counts.day.index
  if (isSameDay && minute === counts.minute.index) return
  state.activeBefore = isSameDay && minute === counts.minute.index + 1 ? state.activeNow : 0
  state.activeNow = 0
  state.isExhausted = false
  state.counts = perWindow(({ name, lengthMs }) => {
    const present = indexAt(minute, lengthMs)
    if (isSameDay && present === counts[name].index) return counts[name]
    return windowAt(present, isSameDay ? counts[name].resetMs : 0)
  })
  if (!isSameDay) state.processes = new Map()
}

const reply = (
  state: ClientState,
  { status, nowMs, notice }: Pick<TakeReply, 'status' | 'nowMs' | 'notice'>,
  holdings: PerWindow<Holding> | undefined,
): TakeReply => ({
  status,
  nowMs: Math.ceil(nowMs),
  notice,
  ...perWindow(({ name }) => windowReply(state.counts[name], holdings?.[name])),
})

const windowReply = (
  { index, taken, used, resetMs }: WindowCounts,
  holding: Holding | undefined,
): WindowReply => ({
  index,
  held: holding?.index === index ? holding.held : 0,
  taken,
  used,
  resetMs,
})

/** Whether a window is used up, but not all of its tokens are spent. */
const isHeld = ({ taken, used }: WindowCounts, limit: number): boolean =>
  taken >= limit && taken > used
