/** What the log itself says of a client in the window that runs. */
import { DAY_MS } from '../../config/time.ts'
import type { LoggedRequest } from './logged.ts'
import type { Cause } from './report.ts'

export class WindowCounts {
  /** By so much the replay has charged more than the log. */
  ahead = 0
  /** More than one process decided. */
  isShared = false
  readonly #lengthMs: number
  #index = -Infinity
  /** Charged and not handed back. */
  #charged = 0
  /** Of #charged, decided without the store. */
  #degraded = 0
  /** Of the last request that one of them charged and the other did not. */
  #cause: Cause | undefined

  constructor(lengthMs: number) {
    this.#lengthMs = lengthMs
  }

  moveTo(atMs: number): void {
    if (this.isRunning(atMs)) return
    this.#index = Math.floor(atMs / this.#lengthMs)
    this.ahead = this.#charged = this.#degraded = 0
    this.#cause = undefined
    this.isShared = false
  }

  /** Whether it is the window of this time. */
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
    this.#cause = cause
  }

  /** The cause of one that only follows from those before it. */
  followed(isFollowing: boolean): Cause | undefined {
    return isFollowing ? this.#cause : undefined
  }

  /** Whether the log itself counts more than the limit in the window of this request. */
  isBeyond(request: LoggedRequest): boolean {
    return this.#charged > this.#limitOf(request) && this.isRunning(request.atMs)
  }

  /** The same of what was decided with the store. */
  isBeyondStore(request: LoggedRequest): boolean {
    return this.#charged - this.#degraded > this.#limitOf(request)
  }

  #limitOf({ limits }: LoggedRequest): number {
    return this.#lengthMs === DAY_MS ? limits.perDay : limits.perMinute
  }
}
