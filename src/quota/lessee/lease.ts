/**
 * A lease is what this process holds and knows of one client: tokens of the minute and the day that the authority has already
 * deducted, and the refusals it has given. The functions decide from it and change it; time is an argument.
 */
import type { Limits } from '../../config/config.ts'
import { createPace, type Pace } from './lease-size.ts'
import {
  applyWindowReply,
  canSpend,
  createWindow,
  isRefused,
  limitOf,
  refundToken,
  refuseUntil,
  returnUnspent,
  secondsLeft,
  spendToken,
  type LeasedWindow,
} from './lease-window.ts'
import {
  DAY_MS,
  MINUTE_MS,
  type Admission,
  type QuotaDecision,
  type TakeReply,
} from '../protocol.ts'
import { quotaView } from './quota-view.ts'

export interface Lease {
  readonly client: string
  /** Name under which the authority keeps this lease; a client forgotten and met again gets a new one. */
  readonly holder: string
  /** Both are written in lease-window.ts alone. */
  readonly minute: LeasedWindow
  readonly day: LeasedWindow
  /** Processes that share the client, as far as is known, this one included. Written by authority-calls.ts. */
  activeProcesses: number
  /** The latest request or peek. Written by lessee.ts. */
  lastUsedMs: number
  /** The limits of the latest request or peek, or of the latest call. Written by lessee.ts and authority-calls.ts. */
  limits: Limits
  /** See Pace for its writers. */
  readonly pace: Pace
  /** With so many tokens in hand or fewer the next call begins; undefined: not before one is needed. Written by authority-calls.ts. */
  prefetchAt: number | undefined
  /** The day's use as the authority has it. Written by authority-calls.ts. */
  dayUsedKnown: number
  /** How long the next indefinite refusal is remembered. Written by rememberRefusal. */
  indefiniteMs: number
}

/** A refusal that others may undo by returning tokens is remembered for so long, and each later one twice as long as the one before. */
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
    minute: createWindow('minute', MINUTE_MS),
    day: createWindow('day', DAY_MS),
    activeProcesses: processes,
    lastUsedMs: nowMs,
    limits,
    pace: createPace(nowMs),
    prefetchAt: undefined,
    dayUsedKnown: 0,
    indefiniteMs: INDEFINITE_AT_FIRST_MS,
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

/** Spends one token of both windows; the caller has made sure that they are held. */
export function spend(lease: Lease, limits: Limits, nowMs: number): QuotaDecision {
  spendToken(lease.minute)
  spendToken(lease.day)
  return {
    kind: 'admitted',
    view: quotaView(lease, limits, nowMs),
    degraded: false,
    minuteIndex: lease.minute.index,
    dayIndex: lease.day.index,
  }
}

function refusal(
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

/** Takes the charge of a request back, in those of its windows that still run. */
export function refundCharge({ minute, day }: Lease, { minuteIndex, dayIndex }: Admission): void {
  refundToken(minute, minuteIndex)
  refundToken(day, dayIndex)
}

/** Takes what the authority said of both windows into the lease. sentMs and receivedMs frame the moment at which it was true. */
export function applyReply(
  { minute, day, limits }: Lease,
  reply: TakeReply,
  at: { sentMs: number; receivedMs: number },
): void {
  applyWindowReply(minute, reply, limits.perMinute, at)
  applyWindowReply(day, reply, limits.perDay, at)
}

/**
 * Remembers the refusal of a reply that granted less than was needed. A definite one (every token is spent) lasts until the
 * window ends, but no longer than the minute, so that an authority whose counters were reset is asked again.
 */
export function rememberRefusal(lease: Lease, reply: TakeReply, nowMs: number): void {
  for (const window of [lease.minute, lease.day]) {
    const { taken, used } = reply[window.kind]
    const limit = limitOf(lease.limits, window)
    if (taken < limit) continue
    const isDefinite = used >= limit
    const untilMs = isDefinite
      ? Math.min(window.endsByMs, lease.minute.endsByMs)
      : nowMs + lease.indefiniteMs
    refuseUntil(window, untilMs, limit)
  }
  lease.indefiniteMs = Math.min(2 * lease.indefiniteMs, INDEFINITE_AT_MOST_MS)
}

/** Keeps at most `kept` tokens in hand, so that the next statement returns the others; the result undoes it. */
export function returnTokens({ minute, day }: Lease, kept: number): () => void {
  const undoMinute = returnUnspent(minute, kept)
  const undoDay = returnUnspent(day, kept)
  return () => {
    undoMinute()
    undoDay()
  }
}

/** Tokens that can be spent while their windows run. */
export function inHand({ minute, day }: Lease): number {
  return Math.max(0, Math.min(minute.held - minute.used, day.held - day.used))
}

export function hasUnspent({ minute, day }: Lease): boolean {
  return minute.held > minute.used || day.held > day.used
}

/** Whether the authority has not heard yet of everything that was spent or refunded. */
export function hasUnstated({ day, dayUsedKnown }: Lease): boolean {
  return day.used !== dayUsedKnown
}

/** Whether both windows run and the authority has spoken in them. */
export function isCurrent({ minute, day }: Lease, nowMs: number): boolean {
  return (
    minute.taken !== undefined &&
    day.taken !== undefined &&
    nowMs < minute.spendUntilMs &&
    nowMs < day.spendUntilMs
  )
}
