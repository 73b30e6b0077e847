/** One window of a lease. The functions of this file alone write its fields; time is an argument. */
import type { Limits } from '../../config/config.ts'
import type { Hold, TakeReply } from '../protocol.ts'

/** Times are on this process's monotonic clock, in ms. */
export interface LeasedWindow {
  readonly kind: 'minute' | 'day'
  readonly lengthMs: number
  /** floor(store time / lengthMs). Written by openWindow; a new lease begins in window 0, which ended in 1970. */
  index: number
  /** Spent by this process. Written by openWindow, spendToken, refundToken. */
  used: number
  /** Granted to this process and kept, spent ones included. Written by openWindow, applyWindowReply, returnUnspent. */
  held: number
  /**
   * Handed out to all processes, this one included, when the authority last spoke; undefined: it has not spoken in this window.
   * Written by openWindow, applyWindowReply, returnUnspent.
   */
  taken: number | undefined
  /** Tokens may be spent before this: the earliest moment at which the window can end. Written by applyWindowReply, rollOver. */
  spendUntilMs: number
  /** The window has ended by then: the latest moment at which it can end. Written by applyWindowReply, rollOver. */
  endsByMs: number
  /** Before this the window refuses from memory. Written by openWindow, applyWindowReply, refuseUntil. */
  refusedUntilMs: number
  /** It refuses requests under this limit or a lower one. Written by refuseUntil. */
  refusedLimit: number
}

/** Spending stops this long before the window can end, as timers and clocks are not exact. */
const SPEND_GUARD_MS = 5
/** The authority's time is rounded up by less than this. */
const ROUNDING_MS = 1

export function createWindow(kind: 'minute' | 'day', lengthMs: number): LeasedWindow {
  return {
    kind,
    lengthMs,
    index: 0,
    used: 0,
    held: 0,
    taken: undefined,
    spendUntilMs: -Infinity,
    endsByMs: -Infinity,
    refusedUntilMs: -Infinity,
    refusedLimit: 0,
  }
}

export function limitOf(limits: Limits, window: LeasedWindow): number {
  return window.kind === 'minute' ? limits.perMinute : limits.perDay
}

/** What the client may still ask for: tokens that nobody was granted, and those in hand. */
export function remaining(window: LeasedWindow, limit: number): number {
  return Math.max(0, limit - (window.taken ?? 0) + Math.max(0, window.held - window.used))
}

/** Whole seconds after which the window has ended for certain, so that whoever waits for them is not refused by it again. */
export function secondsLeft(window: LeasedWindow, nowMs: number): number {
  return Math.max(1, Math.ceil((window.endsByMs - nowMs) / 1000))
}

export function canSpend(window: LeasedWindow, limit: number, nowMs: number): boolean {
  // A lowered limit acts at once, also on tokens that were granted under the old one.
  return window.held > window.used && nowMs < window.spendUntilMs && remaining(window, limit) > 0
}

/** Whether the refusal in memory still holds; it does not while tokens are in hand, or were returned or refunded since. */
export function isRefused(window: LeasedWindow, limit: number, nowMs: number): boolean {
  const isRemembered = nowMs < window.refusedUntilMs && limit <= window.refusedLimit
  return isRemembered && remaining(window, limit) === 0
}

/** The hold as the authority is to hear it. What was spent without asking, during an outage, is stated as held: it is true use. */
export function statement({ index, used, held }: LeasedWindow): Hold {
  return { index, used, held: Math.max(used, held) }
}

export function spendToken(window: LeasedWindow): void {
  window.used += 1
}

/** Takes one charge of the window `index` back, unless that window is over. */
export function refundToken(window: LeasedWindow, index: number): void {
  if (window.index === index && window.used > 0) window.used -= 1
}

/** Keeps at most `kept` unspent tokens, so that the next statement returns the others; the result undoes it. */
export function returnUnspent(window: LeasedWindow, kept: number): () => void {
  const { held, taken } = window
  window.held = Math.min(held, window.used + kept)
  if (taken !== undefined) window.taken = taken - (held - window.held)
  return () => {
    window.held = held
    window.taken = taken
  }
}

/** Takes in what the authority said. sentMs and receivedMs frame the moment at which it was true. */
export function applyWindowReply(
  window: LeasedWindow,
  reply: TakeReply,
  limit: number,
  { sentMs, receivedMs }: { sentMs: number; receivedMs: number },
): void {
  const { index, held, taken } = reply[window.kind]
  const leftMs = (index + 1) * window.lengthMs - reply.nowMs
  if (index !== window.index) openWindow(window, index)
  window.held = held
  window.taken = taken
  window.spendUntilMs = sentMs + leftMs - SPEND_GUARD_MS
  window.endsByMs = receivedMs + leftMs + ROUNDING_MS
  if (taken < limit) window.refusedUntilMs = -Infinity
}

export function refuseUntil(window: LeasedWindow, untilMs: number, limit: number): void {
  window.refusedUntilMs = untilMs
  window.refusedLimit = limit
}

/** Without the authority: opens the window that runs now, if the one before has ended for certain. */
export function rollOver(window: LeasedWindow, nowMs: number, storeNowMs: number): void {
  if (nowMs < window.endsByMs) return
  const index = Math.max(window.index + 1, Math.floor(storeNowMs / window.lengthMs))
  openWindow(window, index)
  window.endsByMs = nowMs + (index + 1) * window.lengthMs - storeNowMs
  window.spendUntilMs = window.endsByMs
}

/** Starts a window in which this process has used nothing yet. */
function openWindow(window: LeasedWindow, index: number): void {
  window.index = index
  window.used = 0
  window.held = 0
  window.taken = undefined
  window.refusedUntilMs = -Infinity
}
