/** Counts the requests of each key second by second; all figures about the use of clients are summed up from these counts. */
import type { Admission, QuotaView, WindowView } from '../../state/quota.ts'
import { DAY_MS, type WindowName } from '../../config/time.ts'
import type { Caller } from '../rules/credentials.ts'
import type { RefusalCode } from '../rules/refusals.ts'
import { DeprecatedCallers } from './deprecated-callers.ts'
import { ShadowCounts } from './shadow-counts.ts'

/** A client's use of one window. */
export interface SeenUse {
  /** Includes what other processes were granted, spent or not. */
  readonly used: number
  readonly limit: number
}

/** The counts of one key in one second and process. Plain data. */
export interface TallyRow {
  readonly client: string
  readonly key: string
  readonly plan: string
  /** The quota's day: floor(Unix ms / DAY_MS). */
  readonly dayIndex: number
  /** Charges less refunds; below 0 where a refunded charge was made in an earlier second. */
  readonly admitted: number
  readonly refusedMinute: number
  readonly refusedDay: number
  readonly refusedBan: number
  /** Refusals for any other reason, before or after admission. */
  readonly refusedOther: number
  /** Requests that have ended; answered: those of them that were not refused, to which the times belong. */
  readonly requests: number
  readonly answered: number
  readonly totalMsSum: number
  readonly totalMsMax: number
  /** The use as of the latest answer; what other processes hold counts as used. */
  readonly minute: SeenUse | undefined
  readonly day: SeenUse | undefined
  /** Unix time in ms, to the second. */
  readonly lastUsedMs: number
}

/** Rows a second at most, more than a process can answer; further keys are not counted until the next second. */
const MAX_ROWS = 100_000

/** Each method costs a map look-up and an addition, and allocates only for the first request of a key in a second. */
export class Tally {
  /** Keyed by API key; a key's rows of another day or client are linked to its latest. */
  #rows = new Map<string, Counts>()
  #size = 0
  readonly deprecated = new DeprecatedCallers()
  readonly shadow = new ShadowCounts()
  /** Charges and refusals not counted for lack of room. Written by #add. */
  lost = 0

  admitted(caller: Caller, { dayIndex, view }: Admission): void {
    const counts = this.#of(caller, dayIndex)
    counts.admitted += 1
    counts.view = view ?? counts.view
  }

  refunded(caller: Caller, { dayIndex }: Admission): void {
    this.#of(caller, dayIndex).admitted -= 1
  }

  /** view: the client's standing; undefined: unknown. */
  refused(
    caller: Caller,
    by: WindowName | 'ban',
    view: QuotaView | undefined,
    dayIndex: number,
  ): void {
    const counts = this.#of(caller, dayIndex)
    if (by === 'minute') counts.refusedMinute += 1
    else if (by === 'day') counts.refusedDay += 1
    else counts.refusedBan += 1
    counts.view = view ?? counts.view
  }

  /** Counts a request that has ended; totalMs: undefined for a tunnel, whose lifetime is no response time. */
  done(caller: Caller, totalMs: number | undefined, refusal: RefusalCode | undefined): void {
    // Where there is no room, its charge already counts as lost.
    const counts =
      this.#rows.get(caller.keyId) ??
      this.#add(caller, Math.floor(Date.now() / DAY_MS), undefined, 0)
    counts.requests += 1
    if (refusal === undefined) {
      if (totalMs === undefined) return
      counts.answered += 1
      counts.totalMsSum += totalMs
      if (totalMs > counts.totalMsMax) counts.totalMsMax = totalMs
    } else if (refusal !== 'rate_limit_exceeded' && refusal !== 'api_key_banned')
      counts.refusedOther += 1
  }

  /** Removes and returns all rows; a key may have several, of two days or plans. */
  take(): TallyRow[] {
    const taken: TallyRow[] = []
    for (const latest of this.#rows.values()) latest.rowsInto(taken)
    this.#rows = new Map()
    this.#size = 0
    return taken
  }

  #of(caller: Caller, dayIndex: number): Counts {
    const first = this.#rows.get(caller.keyId)
    let counts = first
    while (counts !== undefined && !counts.isOf(caller, dayIndex)) counts = counts.other
    return counts ?? this.#add(caller, dayIndex, first)
  }

  #add(caller: Caller, dayIndex: number, other: Counts | undefined, lost = 1): Counts {
    const counts = new Counts(caller, dayIndex, other)
    if (this.#size >= MAX_ROWS) {
      this.lost += lost
      return counts
    }
    this.#size += 1
    this.#rows.set(caller.keyId, counts)
    return counts
  }
}

/** Written by Tally alone. */
class Counts {
  readonly caller: Caller
  readonly dayIndex: number
  readonly other: Counts | undefined
  readonly lastUsedMs = Date.now()
  admitted = 0
  refusedMinute = 0
  refusedDay = 0
  refusedBan = 0
  refusedOther = 0
  requests = 0
  answered = 0
  totalMsSum = 0
  totalMsMax = 0
  view: QuotaView | undefined

  constructor(caller: Caller, dayIndex: number, other: Counts | undefined) {
    this.caller = caller
    this.dayIndex = dayIndex
    this.other = other
  }

  /** A reload may have changed the client and the plan of a key. */
  isOf(caller: Caller, dayIndex: number): boolean {
    if (this.dayIndex !== dayIndex) return false
    const own = this.caller
    return own === caller || (own.clientId === caller.clientId && own.plan === caller.plan)
  }

  /** Oldest first: lists of clients show the plan of the last row. */
  rowsInto(taken: TallyRow[]): void {
    this.other?.rowsInto(taken)
    taken.push(this.row())
  }

  /** Written field by field: with the spread operator the rows of 20,000 keys took 25 ms instead of 1. */
  row(): TallyRow {
    const { caller, view } = this
    return {
      client: caller.clientId,
      key: caller.keyId,
      plan: caller.plan,
      dayIndex: this.dayIndex,
      admitted: this.admitted,
      refusedMinute: this.refusedMinute,
      refusedDay: this.refusedDay,
      refusedBan: this.refusedBan,
      refusedOther: this.refusedOther,
      requests: this.requests,
      answered: this.answered,
      totalMsSum: this.totalMsSum,
      totalMsMax: this.totalMsMax,
      minute: view && seen(view.minute),
      day: view && seen(view.day),
      lastUsedMs: this.lastUsedMs,
    }
  }
}

const seen = ({ limit, remaining }: WindowView): SeenUse => ({ used: limit - remaining, limit })
