/** What the log itself says of a client in the window that runs. */
import { DAY_MS } from '../rules/time.ts'
import type { LoggedRequest } from './logged.ts'
import type { Cause, ReplayReport } from './report.ts'

export type Example = NonNullable<ReplayReport['log']>['examples'][number]
export interface Told {
  readonly example: Example
  readonly request: LoggedRequest
  count: number
  /** So many more charges would have used up the limit; Infinity: it was not for want of tokens. */
  missing: number
}

const NOTHING: readonly Told[] = []
/** A process holds at most this part of a limit ahead. */
const MOST_AHEAD = 1 / 16

export class WindowCounts {
  /** By so much the replay has charged more than the log. */
  ahead = 0
  /** Of the last request that one of them charged and the other did not. */
  cause: Cause | undefined
  /** Who else decided: workers of one gateway, other gateways too, or nobody. */
  others: 'leases' | 'hosts' | undefined
  readonly #lengthMs: number
  #index = -Infinity
  /** Charged and not handed back. */
  #charged = 0
  /** Charged, handed back or not. */
  #taken = 0
  readonly #processes = new Set<string>()
  /** Refusals for what other processes held: whether they can have held so much shows when the window is over. By cause. */
  readonly #held = new Map<Cause, Told>()
  /** Of #charged, decided without the store. */
  #degraded = 0

  constructor(lengthMs: number) {
    this.#lengthMs = lengthMs
  }

  /** Gives what shows now that the window before is over. */
  moveTo(atMs: number): readonly Told[] {
    if (this.isRunning(atMs)) return NOTHING
    const told = this.settle()
    this.#index = Math.floor(atMs / this.#lengthMs)
    this.ahead = this.#charged = this.#taken = this.#degraded = 0
    this.others = this.cause = undefined
    this.#processes.clear()
    return told
  }

  /** Whether it is the window of this time. */
  isRunning(atMs: number): boolean {
    return Math.floor(atMs / this.#lengthMs) === this.#index
  }

  /** The window is over, or the log. */
  settle(): readonly Told[] {
    if (this.#held.size === 0) return NOTHING
    const told = [...this.#held.values()].map((one): Told => {
      const missing = this.missing(one.request)
      return missing <= 0
        ? one
        : { ...one, missing, example: { ...one.example, cause: 'unexplained' } }
    })
    this.#held.clear()
    return told
  }

  /** So many more charges would have used up the limit, with what processes may have held ahead. */
  missing(request: LoggedRequest): number {
    const limit = this.#limitOf(request)
    const ahead = this.others === undefined ? 0 : this.#processes.size * limit * MOST_AHEAD
    return limit - this.#taken - ahead
  }

  /** A refusal for what others held of the limit. */
  hold(told: Told): void {
    const held = this.#held.get(told.example.cause)
    if (held === undefined) this.#held.set(told.example.cause, told)
    else held.count += told.count
  }

  /** The replay had let in another one for what came late. */
  replaced({ refundedAtMs }: LoggedRequest): void {
    if (Number.isNaN(refundedAtMs)) this.ahead--
    this.cause = 'late'
  }

  decidedBy(process: string): void {
    this.#processes.add(process)
  }

  charge({ refundedAtMs, isDegraded }: LoggedRequest): void {
    this.#taken++
    if (!Number.isNaN(refundedAtMs)) return
    this.#charged++
    if (isDegraded) this.#degraded++
  }

  hasOther(one: 'leases' | 'hosts'): void {
    if (one === 'hosts') this.others = one
    this.others ??= one
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

  /** The same of what was decided with the store. */
  isBeyondStore(request: LoggedRequest): boolean {
    return this.#charged - this.#degraded > this.#limitOf(request)
  }

  #limitOf({ limits }: LoggedRequest): number {
    return this.#lengthMs === DAY_MS ? limits.perDay : limits.perMinute
  }
}
