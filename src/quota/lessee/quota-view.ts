/** Where a client stands, from what its lease knows: the numbers of the quota headers. */
import type { Limits } from '../../config/config.ts'
import { remaining, secondsLeft, type LeasedWindow } from './lease-window.ts'
import type { QuotaView, WindowView } from '../../rules/quota-headers.ts'

/** Of windows that run; a window in which the authority has not spoken looks unused. */
export function quotaView(
  { minute, day }: { readonly minute: LeasedWindow; readonly day: LeasedWindow },
  limits: Limits,
  nowMs: number,
): QuotaView {
  return {
    minute: windowView(minute, limits.perMinute, nowMs),
    day: windowView(day, limits.perDay, nowMs),
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
