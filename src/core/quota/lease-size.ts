/** How fast a client asks on this process, and so how many tokens are worth holding ahead of need. Time is an argument. */
import type { Limits } from '../../config/config.ts'

/**
 * Requests per ms of one client, as measured from call to call. Times are on this process's monotonic clock, in ms.
 * measurePace writes all fields; lessee.ts counts requests in `seen`.
 */
export interface Pace {
  perMs: number
  /** Requests since measuredMs, refused ones included: they show what could be spent. */
  seen: number
  measuredMs: number
  measurements: number
}

/** Leases that last about this long cost the fewest calls: longer ones come back unspent, shorter ones are renewed more often. */
const LIFETIME_MS = 10_000
/** A process holds at most this part of a client's minute ahead. */
const MOST_OF_A_MINUTE = 1 / 16
/** A measurement of this length counts as much as all before it together. */
const MEMORY_MS = 3_000
const SHORTEST_MEASUREMENT_MS = 20

export function createPace(nowMs: number): Pace {
  return { perMs: 0, seen: 0, measuredMs: nowMs, measurements: 0 }
}

/** Takes in what was seen since the last measurement, unless that was a moment ago. */
export function measurePace(pace: Pace, nowMs: number): void {
  const passedMs = nowMs - pace.measuredMs
  if (passedMs < SHORTEST_MEASUREMENT_MS) return
  pace.measurements += 1
  // The first few count alike, so that a new client is known after its second call.
  const weight = Math.max(passedMs / (passedMs + MEMORY_MS), 1 / pace.measurements)
  pace.perMs += weight * (pace.seen / passedMs - pace.perMs)
  pace.seen = 0
  pace.measuredMs = nowMs
}

/** Tokens to ask for in one call, at least `need`: what will be spent in a lease's lifetime and within the minute. */
export function leaseSize(
  pace: Pace,
  { limits, need, minuteLeftMs }: { limits: Limits; need: number; minuteLeftMs: number },
): number {
  const wished = Math.ceil(pace.perMs * Math.min(LIFETIME_MS, minuteLeftMs))
  return Math.max(need, Math.min(wished, Math.floor(limits.perMinute * MOST_OF_A_MINUTE)))
}

/**
 * The next call begins with so many tokens in hand or fewer, so that its reply is there before they are spent; undefined: no
 * sooner than one is needed, as a client so slow loses nothing by waiting, and would hold a lease that it may never use.
 */
export function prefetchLevel(pace: Pace, inHand: number, callMs: number): number | undefined {
  const spentMeanwhile = Math.round(pace.perMs * 3 * callMs)
  return spentMeanwhile === 0 ? undefined : Math.min(spentMeanwhile, Math.floor(inHand / 4))
}
