/** How many requests this process admits on its own, while the authority is away or has just come back. Time is an argument. */
import type { Limits, OutageMode } from '../../config/config.ts'
import type { Lease } from './lease.ts'
import { limitOf, rollOver, secondsLeft, spendToken, type LeasedWindow } from './lease-window.ts'
import type { QuotaDecision } from '../protocol.ts'

export interface OutageTimes {
  /** Monotonic clock, as in the lease. */
  readonly nowMs: number
  /** The authority's Unix time as far as it can be known: by its latest reply, else this machine's. */
  readonly storeNowMs: number
}

/**
 * local: admits up to this process's last known share of each window. open: admits all. closed: admits none.
 * Every admission is counted as used, so that the authority hears the true use when it is back.
 */
export function decideDuringOutage(
  lease: Lease,
  limits: Limits,
  { mode, times }: { mode: OutageMode; times: OutageTimes },
): QuotaDecision {
  if (mode === 'closed') return { kind: 'unavailable' }
  const { minute, day, activeProcesses } = lease
  for (const window of [minute, day]) rollOver(window, times.nowMs, times.storeNowMs)
  if (mode === 'local') {
    const blocked = [day, minute].find(
      (window) => !hasShareLeft(window, limitOf(limits, window), activeProcesses),
    )
    if (blocked !== undefined) return degradedRefusal(blocked, limits, times.nowMs)
  }
  spendToken(minute)
  spendToken(day)
  return {
    kind: 'admitted',
    view: undefined,
    degraded: true,
    minuteIndex: minute.index,
    dayIndex: day.index,
  }
}

/**
 * Refuses what is beyond the share of one of `sharers` processes, whatever the authority would grant.
 * pending: requests of the client that the authority is being asked for.
 */
export function shareRefusal(
  { minute, day }: Lease,
  limits: Limits,
  { nowMs, sharers, pending }: { nowMs: number; sharers: number; pending: number },
): QuotaDecision | undefined {
  const blocked = [day, minute].find((window) => {
    const used = nowMs < window.endsByMs ? window.used : 0
    return used + pending >= Math.floor(limitOf(limits, window) / sharers)
  })
  return blocked && degradedRefusal(blocked, limits, nowMs)
}

function degradedRefusal(window: LeasedWindow, limits: Limits, nowMs: number): QuotaDecision {
  return {
    kind: 'refused',
    view: undefined,
    degraded: true,
    window: window.kind,
    limit: limitOf(limits, window),
    // Of a window in which the authority has not spoken only the longest wait is known.
    retryAfterSeconds:
      nowMs < window.endsByMs ? secondsLeft(window, nowMs) : window.lengthMs / 1000,
  }
}

function hasShareLeft(window: LeasedWindow, limit: number, activeProcesses: number): boolean {
  const spentBeyondHold = window.used - window.held
  if (spentBeyondHold < 0) return true
  if (window.taken !== undefined && spentBeyondHold >= limit - window.taken) return false
  return window.used < Math.floor(limit / activeProcesses)
}
