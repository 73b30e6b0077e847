/** Counts the requests of each key second by second; all figures about the use of clients are summed up from these counts. */
import type { Admission, QuotaView } from '../quota/decision.ts'
import { DAY_MS, fieldOf, perWindow, type WindowName } from '../../config/time.ts'
import type { Caller } from '../rules/credentials.ts'
import type { RefusalCode } from '../rules/refusals.ts'

export interface SeenUse {
  /** Includes what other processes were granted, spent or not. */
  readonly used: number
  readonly limit: number
}

type Owner = Pick<Caller, 'clientId' | 'keyId' | 'plan'>

/** Names of the fields of a row that belong to one window. */
const fields = perWindow(({ name }) => ({
  name,
  refused: fieldOf('refused', name),
  shadow: fieldOf('shadow', name),
  live: fieldOf('live', name),
  used: `${name}Used` as const,
  limit: `${name}Limit` as const,
}))
const fieldsOfAll = Object.values(fields)

/** Requests that live limits refused; of those judged under shadow limits, what these and the live ones refused; NaN: no use is known. */
const windowNumbers = Object.assign(
  {},
  ...fieldsOfAll.map(({ refused, shadow, live }) => ({ [refused]: 0, [shadow]: 0, [live]: 0 })),
  ...fieldsOfAll.map(({ used, limit }) => ({ [used]: NaN, [limit]: NaN })),
) as Record<
  ReturnType<typeof fieldOf<'refused' | 'shadow' | 'live'>> | `${WindowName}${'Used' | 'Limit'}`,
  number
>

/** The counts of one key in one second and process. Plain data, written by Tally alone. */
export type TallyRow = ReturnType<typeof newRow>

export const newRow = ({ clientId, keyId, plan }: Owner, dayIndex: number) => ({
  client: clientId,
  key: keyId,
  plan,
  /** The quota's day: floor(Unix ms / DAY_MS). */
  dayIndex,
  /** Unix time in ms, to the second. */
  lastUsedMs: Date.now(),
  /** Charges less refunds; below 0 where a refunded charge was made in an earlier second. */
  admitted: 0,
  refusedBan: 0,
  /** Refusals for any other reason, before or after admission. */
  refusedOther: 0,
  /** Requests that have ended; answered: those of them that were not refused, to which the times belong. */
  requests: 0,
  answered: 0,
  totalMsSum: 0,
  totalMsMax: 0,
  /** Requests under shadow limits: all, and those that could not be judged. */
  judged: 0,
  unjudged: 0,
  /** The client's standing by its latest answer, of which take() makes the use: what other processes hold counts as used. */
  latest: undefined as QuotaView | undefined,
  ...windowNumbers,
})

type RowNumber = {
  [Name in keyof TallyRow]: TallyRow[Name] extends number ? Name : never
}[keyof TallyRow]

export const rowNumbers = Object.entries(newRow({ clientId: '', keyId: '', plan: '' }, 0)).flatMap(
  ([name, value]) => (typeof value === 'number' ? [name as RowNumber] : []),
)

export function addCounts<Name extends RowNumber>(
  names: readonly Name[],
  sum: Record<Name, number>,
  row: Readonly<Record<Name, number>>,
): void {
  for (const name of names) sum[name] += row[name]
}

/** undefined: not known. */
export function useIn(row: TallyRow, window: WindowName): SeenUse | undefined {
  const [used, limit] = [row[fields[window].used], row[fields[window].limit]]
  return Number.isNaN(limit) ? undefined : { used, limit }
}

/** Rows a second at most, more than a process can answer; further keys are not counted until the next second. */
const MAX_ROWS = 100_000

/** Each method costs a map look-up and an addition, and allocates only for the first request of a key in a second. */
export class Tally {
  /** Keyed by API key. */
  #rows = new Map<string, TallyRow>()
  /** Rows of keys that have another now: of another day, client or plan. */
  #earlier: TallyRow[] = []
  /** Charges and refusals not counted for lack of room. Written by #add. */
  lost = 0

  admitted(caller: Caller, { charged, view }: Admission): void {
    const row = this.#of(caller, charged.day.index)
    row.admitted += 1
    row.latest = view ?? row.latest
  }

  refunded(caller: Caller, { charged }: Admission): void {
    this.#of(caller, charged.day.index).admitted -= 1
  }

  /** view: the client's standing; undefined: unknown. */
  refused(
    caller: Caller,
    by: WindowName | 'ban',
    view: QuotaView | undefined,
    dayIndex: number,
  ): void {
    const row = this.#of(caller, dayIndex)
    row[by === 'ban' ? 'refusedBan' : fields[by].refused] += 1
    row.latest = view ?? row.latest
  }

  /** Counts what shadow limits have decided about a request; live: the window whose live limit refused it. */
  judged(
    caller: Owner,
    shadow: 'admitted' | WindowName | 'unjudged',
    live: WindowName | undefined,
  ): void {
    const row = this.#of(caller, Math.floor(Date.now() / DAY_MS), 0)
    row.judged += 1
    if (shadow === 'unjudged') row.unjudged += 1
    else if (shadow !== 'admitted') row[fields[shadow].shadow] += 1
    if (live !== undefined) row[fields[live].live] += 1
  }

  /** Counts a request that has ended; totalMs: undefined for a tunnel, whose lifetime is no response time. */
  done(caller: Caller, totalMs: number | undefined, refusal: RefusalCode | undefined): void {
    // Where there is no room, its charge already counts as lost.
    const row =
      this.#rows.get(caller.keyId) ?? this.#add(caller, Math.floor(Date.now() / DAY_MS), 0)
    row.requests += 1
    if (refusal === undefined) {
      if (totalMs === undefined) return
      row.answered += 1
      row.totalMsSum += totalMs
      if (totalMs > row.totalMsMax) row.totalMsMax = totalMs
    } else if (refusal !== 'rate_limit_exceeded' && refusal !== 'api_key_banned')
      row.refusedOther += 1
  }

  /** Removes and returns all rows; a key may have several, the oldest first: lists of clients show the plan of the last. */
  take(): TallyRow[] {
    const taken = [...this.#earlier, ...this.#rows.values()].map(withUse)
    this.#rows = new Map()
    this.#earlier = []
    return taken
  }

  /** A reload may have changed the client and the plan of a key. */
  #of(caller: Owner, dayIndex: number, lost = 1): TallyRow {
    const { keyId, clientId, plan } = caller
    const row = this.#rows.get(keyId)
    if (row?.dayIndex === dayIndex && row.client === clientId && row.plan === plan) return row
    const added = this.#add(caller, dayIndex, lost)
    if (row !== undefined && this.#rows.get(keyId) === added) this.#earlier.push(row)
    return added
  }

  #add(caller: Owner, dayIndex: number, lost: number): TallyRow {
    const row = newRow(caller, dayIndex)
    if (this.#rows.size + this.#earlier.length >= MAX_ROWS) this.lost += lost
    else this.#rows.set(caller.keyId, row)
    return row
  }
}

function withUse(row: TallyRow): TallyRow {
  const { latest } = row
  row.latest = undefined
  if (latest === undefined) return row
  for (const { name, used, limit } of fieldsOfAll) {
    row[used] = latest[name].limit - latest[name].remaining
    row[limit] = latest[name].limit
  }
  return row
}
