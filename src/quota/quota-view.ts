/** What a client is told of its quota, from what this process knows of it. */
import type { Limits } from '../config/config.ts'
import type { Lease, LeasedWindow } from './lessee/lease.ts'
import type { QuotaView, WindowView } from '../rules/quota-headers.ts'

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

export function remaining(window: LeasedWindow, limit: number): number {
  return Math.max(0, limit - (window.taken ?? 0) + Math.max(0, window.held - window.used))
}

/** Whole seconds after which the window has ended for certain, so that whoever waits for them is not refused by it again. */
export function secondsLeft(window: LeasedWindow, nowMs: number): number {
  return Math.max(1, Math.ceil((window.endsByMs - nowMs) / 1000))
}
