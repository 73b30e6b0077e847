/** What this process holds and knows of one client; every function is pure but for the lease it is given, and time is an argument. */
import type { Limits } from '../../config/config.ts'
import { createPace, type Pace } from './lease-size.ts'
import {
  DAY_MS,
  MINUTE_MS,
  type Hold,
  type QuotaDecision,
  type TakeReply,
  type WindowReply,
} from '../protocol.ts'
import { quotaView, remaining, secondsLeft } from '../quota-view.ts'

/** One window of a lease. Times are on this process's monotonic clock, in ms. */
export interface LeasedWindow {
  readonly kind: 'minute' | 'day'
  readonly lengthMs: number
  index: number
  used: number
  held: number
  /** Handed out to all processes, this one included, when the authority last spoke; undefined: it has not spoken in this window. */
  taken: number | undefined
  /** Tokens may be spent before this: the earliest moment at which the window can end. */
  spendUntilMs: number
  /** The window has ended by then: the latest moment at which it can end. */
  endsByMs: number
  /** Refusals are answered from memory before this, at or below the limit they were told for. */
  refusedUntilMs: number
  refusedLimit: number
}

export interface Lease {
  readonly client: string
  /** Name under which the authority keeps this lease; a client forgotten and met again gets a new one. */
  readonly holder: string
  readonly minute: LeasedWindow
  readonly day: LeasedWindow
  activeProcesses: number
  lastUsedMs: number
  /** The limits of the latest request. */
  limits: Limits
  readonly pace: Pace
  /** With so many tokens in hand or fewer the next call begins; -1: not before one is needed. */
  prefetchAt: number
  /** The day's use as the authority has it. */
  dayUsedKnown: number
  /** How long the next refusal that others may undo is remembered. */
  indefiniteMs: number
}

/** Spending stops this long before the window can end, as timers and clocks are not exact. */
const SPEND_GUARD_MS = 5
/** The authority's time is rounded up by less than this. */
const ROUNDING_MS = 1
/** A refusal that others may undo by giving tokens back is asked again after this, and each time in a row after twice as long. */
const INDEFINITE_AT_FIRST_MS = 12
const INDEFINITE_AT_MOST_MS = 100

export function createLease(
  client: string,
  {
    holder,
    limits,
    nowMs,
    processes,
  }: { holder: string; limits: Limits; nowMs: number; processes: number },
): Lease {
  return {
    client,
    holder,
    minute: emptyWindow('minute', MINUTE_MS),
    day: emptyWindow('day', DAY_MS),
    activeProcesses: processes,
    lastUsedMs: nowMs,
    limits,
    pace: createPace(nowMs),
    prefetchAt: -1,
    dayUsedKnown: 0,
    indefiniteMs: INDEFINITE_AT_FIRST_MS,
  }
}

function emptyWindow(kind: 'minute' | 'day', lengthMs: number): LeasedWindow {
  return {
    kind,
    lengthMs,
    index: -1,
    used: 0,
    held: 0,
    taken: undefined,
    spendUntilMs: -Infinity,
    endsByMs: -Infinity,
    refusedUntilMs: -Infinity,
    refusedLimit: 0,
  }
}

export function hasUnspent(lease: Lease): boolean {
  return lease.minute.held > lease.minute.used || lease.day.held > lease.day.used
}

export function limitOf(limits: Limits, window: LeasedWindow): number {
  return window.kind === 'minute' ? limits.perMinute : limits.perDay
}

/** Tokens that can be spent while their windows run. */
export function inHand({ minute, day }: Lease): number {
  return Math.max(0, Math.min(minute.held - minute.used, day.held - day.used))
}

/** Whether the authority has not heard yet of everything that was spent or handed back. */
export function hasUnstated({ day, dayUsedKnown }: Lease): boolean {
  return day.used !== dayUsedKnown
}

/** Keeps at most `kept` tokens in hand, so that the next statement gives the rest back; the result undoes it. */
export function letGo({ minute, day }: Lease, kept = 0): () => void {
  const undo = [minute, day].map((window) => {
    const { held, taken } = window
    window.held = Math.min(held, window.used + kept)
    if (taken !== undefined) window.taken = taken - (held - window.held)
    return () => Object.assign(window, { held, taken })
  })
  return () => undo.forEach((back) => back())
}

/** Takes what the authority said of both windows into the lease. sentMs and receivedMs frame the moment at which it was true. */
export function applyReply(
  lease: Lease,
  reply: TakeReply,
  { sentMs, receivedMs }: { sentMs: number; receivedMs: number },
): void {
  lease.activeProcesses = reply.activeProcesses
  for (const window of [lease.minute, lease.day]) {
    const told = window.kind === 'minute' ? reply.minute : reply.day
    const leftMs = (told.index + 1) * window.lengthMs - reply.nowMs
    if (told.index !== window.index) openWindow(window, told.index)
    window.held = told.held
    window.taken = told.taken
    window.spendUntilMs = sentMs + leftMs - SPEND_GUARD_MS
    window.endsByMs = receivedMs + leftMs + ROUNDING_MS
    if (told.taken < limitOf(lease.limits, window)) window.refusedUntilMs = -Infinity
  }
}

/** Starts a window in which this process has used nothing yet. */
export function openWindow(window: LeasedWindow, index: number): void {
  window.index = index
  window.used = 0
  window.held = 0
  window.taken = undefined
  window.refusedUntilMs = -Infinity
}

/**
 * Remembers the refusal of a reply that granted less than was needed. A definite one (every token is spent) lasts until the window ends, but no longer
 * than the minute, so that an authority whose counters were reset is asked again.
 */
export function rememberRefusal(lease: Lease, reply: TakeReply, nowMs: number): void {
  for (const window of [lease.minute, lease.day]) {
    const told: WindowReply = window.kind === 'minute' ? reply.minute : reply.day
    const limit = limitOf(lease.limits, window)
    if (told.taken < limit) continue
    const isDefinite = told.used >= limit
    window.refusedUntilMs = isDefinite
      ? Math.min(window.endsByMs, lease.minute.endsByMs)
      : nowMs + lease.indefiniteMs
    window.refusedLimit = limit
  }
  lease.indefiniteMs = Math.min(2 * lease.indefiniteMs, INDEFINITE_AT_MOST_MS)
}

/** Decides without asking, if the answer is known: a token in hand, or a refusal that still holds. */
export function decideFromMemory(
  lease: Lease,
  limits: Limits,
  nowMs: number,
): QuotaDecision | undefined {
  const { minute, day } = lease
  if (canSpend(minute, limits.perMinute, nowMs) && canSpend(day, limits.perDay, nowMs)) {
    return spend(lease, limits, nowMs)
  }
  if (isRefused(day, limits.perDay, nowMs)) return refusal(lease, day, { limits, nowMs })
  if (isRefused(minute, limits.perMinute, nowMs)) return refusal(lease, minute, { limits, nowMs })
  return undefined
}

function canSpend(window: LeasedWindow, limit: number, nowMs: number): boolean {
  // A lowered limit acts at once, also on tokens that were granted under the old one.
  return window.held > window.used && nowMs < window.spendUntilMs && remaining(window, limit) > 0
}

function isRefused(window: LeasedWindow, limit: number, nowMs: number): boolean {
  // Of what is in hand, or was handed back meanwhile, nobody is refused.
  const isTold = nowMs < window.refusedUntilMs && limit <= window.refusedLimit
  return isTold && remaining(window, limit) === 0
}

/** Spends one token of both windows; the caller has made sure that they are held. */
export function spend(lease: Lease, limits: Limits, nowMs: number): QuotaDecision {
  lease.minute.used += 1
  lease.day.used += 1
  return {
    kind: 'admitted',
    view: quotaView(lease, limits, nowMs),
    degraded: false,
    minuteIndex: lease.minute.index,
    dayIndex: lease.day.index,
  }
}

/** Refuses by a window that both sides know. */
export function refusal(
  lease: Lease,
  window: LeasedWindow,
  { limits, nowMs }: { limits: Limits; nowMs: number },
): QuotaDecision {
  return {
    kind: 'refused',
    view: quotaView(lease, limits, nowMs),
    degraded: false,
    window: window.kind,
    limit: limitOf(limits, window),
    retryAfterSeconds: secondsLeft(window, nowMs),
  }
}

/** Whether both windows run and the authority has spoken in them. */
export function isTold({ minute, day }: Lease, nowMs: number): boolean {
  return (
    minute.taken !== undefined &&
    day.taken !== undefined &&
    nowMs < minute.spendUntilMs &&
    nowMs < day.spendUntilMs
  )
}

/** The hold as the authority is to hear it. What was spent without asking, during an outage, is stated as held: it is true use. */
export function statement({ index, used, held }: LeasedWindow): Hold {
  return { index, used, held: Math.max(used, held) }
}
