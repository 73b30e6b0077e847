/** What this process holds and knows of one client; every function is pure but for the lease it is given, and time is an argument. */
import type { Limits } from '../config/config.ts'
import {
  DAY_MS,
  MINUTE_MS,
  type Hold,
  type QuotaDecision,
  type QuotaView,
  type TakeReply,
  type WindowReply,
  type WindowView,
} from './protocol.ts'

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
}

/** Spending stops this long before the window can end, as timers and clocks are not exact. */
const SPEND_GUARD_MS = 5
/** The authority's time is rounded up by less than this. */
const ROUNDING_MS = 1
/** A refusal that others may undo by giving tokens back is asked again after this. */
const INDEFINITE_REFUSAL_MS = 50

export function createLease(
  client: string,
  { holder, limits, nowMs }: { holder: string; limits: Limits; nowMs: number },
): Lease {
  return {
    client,
    holder,
    minute: emptyWindow('minute', MINUTE_MS),
    day: emptyWindow('day', DAY_MS),
    activeProcesses: 1,
    lastUsedMs: nowMs,
    limits,
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

/** Keeps nothing in hand, so that the next statement gives the rest back; the result undoes it. */
export function letGo({ minute, day }: Lease): () => void {
  const [minuteHeld, dayHeld] = [minute.held, day.held]
  minute.held = minute.used
  day.held = day.used
  return () => {
    minute.held = minuteHeld
    day.held = dayHeld
  }
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
      : nowMs + INDEFINITE_REFUSAL_MS
    window.refusedLimit = limit
  }
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
  return nowMs < window.refusedUntilMs && limit <= window.refusedLimit
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

/** Where the client stands, as far as it was told within the windows that run. */
export function quotaView(lease: Lease, limits: Limits, nowMs: number): QuotaView {
  return {
    minute: windowView(lease.minute, limits.perMinute, nowMs),
    day: windowView(lease.day, limits.perDay, nowMs),
  }
}

function windowView(window: LeasedWindow, limit: number, nowMs: number): WindowView {
  return {
    limit,
    remaining: remaining(window, limit),
    resetAtSeconds: ((window.index + 1) * window.lengthMs) / 1000,
    resetAfterSeconds: Math.min(secondsLeft(window, nowMs), window.lengthMs / 1000),
  }
}

function remaining(window: LeasedWindow, limit: number): number {
  return Math.max(0, limit - (window.taken ?? 0) + Math.max(0, window.held - window.used))
}

/** Whole seconds after which the window has ended for certain, so that whoever waits for them is not refused by it again. */
export function secondsLeft(window: LeasedWindow, nowMs: number): number {
  return Math.max(1, Math.ceil((window.endsByMs - nowMs) / 1000))
}

/** The hold as the authority is to hear it. What was spent without asking, during an outage, is stated as held: it is true use. */
export function statement({ index, used, held }: LeasedWindow): Hold {
  return { index, used, held: Math.max(used, held) }
}
