/** What Tollgate's own log reports of a request that the replay decides, too. */
import type { Limits } from '../../config/config.ts'
import { DAY_MS, MINUTE_MS } from '../../config/time.ts'
import type { RequestRow } from '../log-files/row.ts'
import type { Decided } from './policy.ts'

export interface LoggedRequest extends Pick<
  RequestRow,
  'atMs' | 'refundedAtMs' | 'isDegraded' | 'revision' | 'process'
> {
  readonly client: string
  readonly keyId: string
  /** Limits in force when the request was logged. */
  readonly limits: Limits
  readonly logged: Decided
  /** Whether the line reports that nothing is left of a window. */
  readonly isUsedUp: boolean
}

/** What the windows of `firstMs` had counted before this request, computed from the rest that its line reports. */
export function usedBefore(
  { atMs, minuteLeft = Infinity, dayLeft = Infinity, outcome }: RequestRow,
  limits: Limits,
  firstMs: number,
) {
  const own = Number(outcome === 'admitted')
  const used = (lengthMs: number, limit: number, left: number): number =>
    isSameWindow(lengthMs, atMs, firstMs) ? Math.max(0, limit - left - own) : 0
  return {
    minute: used(MINUTE_MS, limits.perMinute, minuteLeft),
    day: used(DAY_MS, limits.perDay, dayLeft),
  }
}

export const isSameWindow = (lengthMs: number, oneMs: number, otherMs: number): boolean =>
  Math.floor(oneMs / lengthMs) === Math.floor(otherMs / lengthMs)
