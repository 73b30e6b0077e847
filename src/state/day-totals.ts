/** The totals of clients by day. */

/** The counts of a row, in the order in which stores keep them. */
export const DAY_COUNTS = ['admitted', 'refusedMinute', 'refusedDay', 'refusedBan'] as const
type DayCount = (typeof DAY_COUNTS)[number]

/** One client on one day, under one plan. */
export interface DayRow extends Readonly<Record<DayCount, number>> {
  readonly client: string
  /** The plan under which the requests were decided. */
  readonly plan: string
}

/** Sums by day, plan and client, in at most maxRows rows. */
export class DayTable {
  /** By day, then by plan and client; no plan's name has a space. */
  readonly #days = new Map<number, Map<string, DayRow>>()
  readonly #maxRows: number
  size = 0

  constructor(maxRows: number) {
    this.#maxRows = maxRows
  }

  /** Returns false where there is no room. */
  add(day: number, row: DayRow): boolean {
    const rows = this.#days.get(day) ?? new Map<string, DayRow>()
    const key = `${row.plan} ${row.client}`
    const sum = rows.get(key)
    if (sum === undefined && this.size >= this.#maxRows) return false
    if (sum === undefined) this.size += 1
    this.#days.set(
      day,
      rows.set(key, sum === undefined ? rowWith(row, (name) => row[name]) : plus(sum, row)),
    )
    return true
  }

  /** Removes and returns up to atMost rows of one day; undefined: there are none. */
  take(atMost: number): { readonly day: number; readonly rows: readonly DayRow[] } | undefined {
    const [first] = this.#days
    if (first === undefined) return undefined
    const [day, rows] = first
    const taken: DayRow[] = []
    for (const [key, row] of rows) {
      if (taken.length >= atMost) break
      taken.push(row)
      rows.delete(key)
    }
    if (rows.size === 0) this.#days.delete(day)
    this.size -= taken.length
    return { day, rows: taken }
  }

  of(day: number): readonly DayRow[] {
    return [...(this.#days.get(day)?.values() ?? [])]
  }

  removeBefore(day: number): void {
    for (const [old, { size }] of this.#days) {
      if (old >= day) continue
      this.size -= size
      this.#days.delete(old)
    }
  }

  has(day: number): boolean {
    return this.#days.has(day)
  }

  get firstDay(): number | undefined {
    return this.size === 0 ? undefined : Math.min(...this.#days.keys())
  }
}

/** Makes a row of the client and plan of another one, which may have more fields. */
export const rowWith = (
  { client, plan }: Pick<DayRow, 'client' | 'plan'>,
  count: (name: DayCount) => number,
): DayRow => ({
  client,
  plan,
  admitted: count('admitted'),
  refusedMinute: count('refusedMinute'),
  refusedDay: count('refusedDay'),
  refusedBan: count('refusedBan'),
})

const plus = (one: DayRow, other: DayRow): DayRow => rowWith(one, (name) => one[name] + other[name])

/** Sums the rows of one client, at least one, under the plan of the first. */
export const totalOf = (rows: readonly DayRow[]): DayRow =>
  rows.reduce((sum, row) => plus(sum, row))

export const isSomething = (row: Omit<DayRow, 'client' | 'plan'>): boolean =>
  DAY_COUNTS.some((name) => row[name] !== 0)
