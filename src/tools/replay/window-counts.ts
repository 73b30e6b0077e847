/** Counts what the log itself reports of a client in its current window. */
import { DAY_MS } from '../../config/time.ts'
import type { LoggedRequest } from './differences.ts'
import type { Cause } from './report.ts'

export class WindowCounts {
  /** Requests that the replay has charged more than the log; negative: fewer. */
  ahead = 0
  /** Whether more than one process decided. */
  isShared = false
  /** Cause of the last request that only one of log and replay has charged. */
  cause: Cause | undefined
  readonly #lengthMs: number
  #index = -Infinity
  /** Requests that were charged and not refunded. */
  #charged = 0
  /** Part of #charged that was decided without the store. */
  #degraded = 0
  constructor(lengthMs: number) {
    this.#lengthMs = lengthMs
  }

  moveTo(atMs: number): void {
    if (this.isRunning(atMs)) return
    this.#index = Math.floor(atMs / this.#lengthMs)
    this.ahead = this.#charged = this.#degraded = 0
    this.cause = undefined
    this.isShared = false
  }

  /** Whether the current window is that of this time. */
  isRunning(atMs: number): boolean {
    return Math.floor(atMs / this.#lengthMs) === this.#index
  }

  charge({ refundedAtMs, isDegraded }: LoggedRequest): void {
    if (!Number.isNaN(refundedAtMs)) return
    this.#charged++
    if (isDegraded) this.#degraded++
  }

  shift(ahead: number, cause: Cause): void {
    if (ahead === 0) return
    this.ahead += ahead
    this.cause = cause
  }

  /** Whether the log itself counts more than the limit in the window of this request. */
  isBeyond(request: LoggedRequest): boolean {
    return this.#charged > this.#limitOf(request) && this.isRunning(request.atMs)
  }

  /** Whether the log counts more than the limit in decisions with the store alone. */
  isBeyondStore(request: LoggedRequest): boolean {
    return this.#charged - this.#degraded > this.#limitOf(request)
  }

  #limitOf({ limits }: LoggedRequest): number {
    return this.#lengthMs === DAY_MS ? limits.perDay : limits.perMinute
  }
}
