/** What this process counts of each key, second by second: all that is said of clients' use, now or later, is summed up from it. */
import type { Admission, QuotaView, WindowView } from '../../state/quota.ts'
import { DAY_MS } from '../../config/time.ts'
import type { Caller } from '../rules/credentials.ts'
import type { RefusalCode } from '../rules/refusals.ts'
import { DeprecatedCallers } from './deprecated-callers.ts'
import { ShadowCounts } from './shadow-counts.ts'

/** What a client has used of one window. */
export interface SeenUse {
  /** With what other processes were handed, spent or not. */
  readonly used: number
  readonly limit: number
}

/** What one key did in one second, in one process. Plain data. */
export interface TallyRow {
  readonly client: string
  readonly key: string
  readonly plan: string
  /** The quota's day: floor(Unix ms / DAY_MS). */
  readonly dayIndex: number
  /** Charged, less what was handed back: below 0 where that was charged in a second before. */
  readonly admitted: number
  readonly refusedMinute: number
  readonly refusedDay: number
  readonly refusedBan: number
  /** For any other reason, before or after they were admitted. */
  readonly refusedOther: number
  /** That have ended; of these, not refused: what the times are of. */
  readonly requests: number
  readonly answered: number
  readonly totalMsSum: number
  readonly totalMsMax: number
  /** As the latest answer had it: what other processes hold counts as used. */
  readonly minute: SeenUse | undefined
  readonly day: SeenUse | undefined
  /** Unix time in ms, to the second. */
  readonly lastUsedMs: number
}

/** Beyond it nothing is counted until the next second: more keys than a process can answer in one. */
const MAX_ROWS = 100_000

/** Each method costs a look into a map and an addition; but for the first of a key in a second nothing is made. */
export class Tally {
  /** By key; a key's row of another day, or client, hangs on it. */
  #rows = new Map<string, Counts>()
  #size = 0
  readonly deprecated = new DeprecatedCallers()
  readonly shadow = new ShadowCounts()
  /** Charges and refusals that found no room. Written by #add. */
  lost = 0

  admitted(caller: Caller, { dayIndex, view }: Admission): void {
    const counts = this.#of(caller, dayIndex)
    counts.admitted += 1
    counts.view = view ?? counts.view
  }

  refunded(caller: Caller, { dayIndex }: Admission): void {
    this.#of(caller, dayIndex).admitted -= 1
  }

  /** view: where the client stands; undefined: not known. */
  refused(
    caller: Caller,
    by: 'minute' | 'day' | 'ban',
    view: QuotaView | undefined,
    dayIndex: number,
  ): void {
    const counts = this.#of(caller, dayIndex)
    if (by === 'minute') counts.refusedMinute += 1
    else if (by === 'day') counts.refusedDay += 1
    else counts.refusedBan += 1
    counts.view = view ?? counts.view
  }

  /** A request has ended; totalMs: undefined of a tunnel, whose life is no time that an answer took. */
  done(caller: Caller, totalMs: number | undefined, refusal: RefusalCode | undefined): void {
    // Without room what it was charged is missed already.
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

  /** All rows since the last call; may hold two days or plans of one key. */
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

  /** A reload may have changed whose key it is, and the plan. */
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

  /** Field by field: with the spread operator those of 20,000 keys took 25 ms, instead of 1. */
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
