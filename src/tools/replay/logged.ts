/** Reads what Tollgate's own log reports of a request that the replay decides, too. */
import type { Limits } from '../../config/config.ts'
import { NO_NAME, outcomes, type LogBatch } from '../log-files/batch.ts'
import type { Caller } from '../../core/rules/credentials.ts'
import { DAY_MS, MINUTE_MS } from '../../config/time.ts'
import type { Decided } from './policy.ts'

export interface LoggedRequest {
  readonly atMs: number
  readonly client: string
  readonly keyId: string
  /** Limits in force when the request was logged. */
  readonly limits: Limits
  readonly logged: Decided
  /** Unix time in ms; NaN: not refunded. */
  readonly refundedAtMs: number
  readonly isDegraded: boolean
  /** Whether the line reports that nothing is left of a window. */
  readonly isUsedUp: boolean
  /** '' if the line does not name it. */
  readonly revision: string
  readonly process: string
}

/** before: the caller by the configuration that was in force. */
export function loggedRequest(
  batch: LogBatch,
  at: number,
  { names, logged, caller, before = caller }: NamedLine,
): LoggedRequest {
  return {
    atMs: batch.atMs[at] ?? 0,
    client: caller.clientId,
    keyId: caller.keyId,
    limits: before.limits,
    logged,
    refundedAtMs: batch.refundedAtMs[at] ?? Number.NaN,
    isDegraded: batch.degraded[at] === 1,
    isUsedUp: batch.minuteLeft[at] === 0 || batch.dayLeft[at] === 0,
    revision: names[batch.revision[at] ?? NO_NAME] ?? '',
    process: names[batch.process[at] ?? NO_NAME] ?? '',
  }
}

interface NamedLine {
  readonly names: readonly string[]
  readonly logged: Decided
  readonly caller: Caller
  readonly before?: Caller | undefined
}

/** What the windows of `firstMs` had counted before this request, computed from the rest that its line reports. */
export function usedBefore(batch: LogBatch, at: number, limits: Limits, firstMs: number) {
  const minuteLeft = batch.minuteLeft[at] ?? -1
  const dayLeft = batch.dayLeft[at] ?? -1
  const own = Number(outcomes[batch.outcome[at] ?? 0] === 'admitted')
  const runs = (lengthMs: number): boolean => isSameWindow(lengthMs, batch.atMs[at] ?? 0, firstMs)
  return {
    minute: runs(MINUTE_MS) ? Math.max(0, limits.perMinute - minuteLeft - own) : 0,
    day: runs(DAY_MS) ? Math.max(0, limits.perDay - dayLeft - own) : 0,
  }
}

export const isSameWindow = (lengthMs: number, oneMs: number, otherMs: number): boolean =>
  Math.floor(oneMs / lengthMs) === Math.floor(otherMs / lengthMs)
