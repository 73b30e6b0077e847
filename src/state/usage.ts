/** The totals of clients by day, the interface of stores that keep them, and the store that keeps them in memory alone. */

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
  /** Rows of each day, by `PLAN CLIENT`: no plan's name has a space. */
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
    const total = rowWith(row, (name) => row[name] + (sum?.[name] ?? 0))
    this.#days.set(day, rows.set(key, total))
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

/** Sums the rows of one client, at least one, under the plan of the first. */
export const totalOf = (rows: readonly DayRow[]): DayRow =>
  rows.reduce((sum, row) => rowWith(sum, (name) => sum[name] + row[name]))

export const isSomething = (row: Omit<DayRow, 'client' | 'plan'>): boolean =>
  DAY_COUNTS.some((name) => row[name] !== 0)

/** Number of days kept, including today. */
export const KEPT_DAYS = 400

/** Rows to be added, each client once under each plan. */
export interface Batch {
  /** Unique per boot of a process. */
  readonly process: string
  /** Rises with every batch of the process; all earlier ones were kept, or given up. */
  readonly sequence: number
  readonly day: number
  readonly rows: readonly DayRow[]
}

/** A day of Unix time has a row for each client and plan. Calls reject where the store is away; an addition was then made or not. */
export interface UsageStore {
  /** store: it outlives this process and is complete. */
  readonly scope: 'store' | 'process'
  /** Adds all rows or none, and once, however often the batch is sent. */
  add(batch: Batch): Promise<void>
  /** Yields all rows of a day, each once, in pieces. */
  day(day: number): AsyncIterable<readonly DayRow[]>
  /** Returns all rows of one client, by day. */
  client(
    client: string,
    from: number,
    to: number,
  ): Promise<readonly (readonly [day: number, row: DayRow])[]>
}

const PAGE_ROWS = 1_000
/** With more rows the oldest days are forgotten, and within one day the rows that come last. */
const MAX_ROWS = 200_000

export function createMemoryUsageStore(): UsageStore {
  const table = new DayTable(MAX_ROWS)
  const makeRoom = (day: number): boolean => {
    const { firstDay } = table
    if (firstDay === undefined || firstDay >= day) return false
    table.removeBefore(firstDay + 1)
    return true
  }
  return {
    scope: 'process',
    add: async ({ day, rows }) => {
      table.removeBefore(day - KEPT_DAYS + 1)
      for (const row of rows) while (!table.add(day, row) && makeRoom(day));
    },
    async *day(day) {
      const rows = table.of(day)
      for (let at = 0; at < rows.length; at += PAGE_ROWS) yield rows.slice(at, at + PAGE_ROWS)
    },
    client: async (client, from, to) => {
      const found: [number, DayRow][] = []
      for (let day = from; day <= to; day++)
        for (const row of table.of(day)) if (row.client === client) found.push([day, row])
      return found
    },
  }
}
