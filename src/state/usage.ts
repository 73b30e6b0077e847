/** The totals of clients by day, the interface of stores that keep them, and the store that keeps them in memory alone. */
import { fieldOf, windowNames } from '../config/time.ts'

const refused = windowNames.map((name) => fieldOf('refused', name))
/** The counts of a row, in the order in which stores keep them. */
export const DAY_COUNTS = ['admitted', ...refused, 'refusedBan'] as const
type DayCount = (typeof DAY_COUNTS)[number]

/** Returns the column of a field in SQL, such as refused_day of refusedDay. */
export const columnOf = (field: string): string =>
  field.replace(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/** One client on one day, under one plan. */
export interface DayRow extends Readonly<Record<DayCount, number>> {
  readonly client: string
  /** The plan under which the requests were decided. */
  readonly plan: string
}

/** Makes a row of the client and plan of another one, which may have more fields. */
export const rowWith = (
  { client, plan }: Pick<DayRow, 'client' | 'plan'>,
  count: (name: DayCount) => number,
): DayRow => {
  const row: Pick<DayRow, 'client' | 'plan'> & Partial<Record<DayCount, number>> = { client, plan }
  for (const name of DAY_COUNTS) row[name] = count(name)
  return row as DayRow
}

/** Adds a row to the sum of earlier ones, if there is one, and under its plan. */
export const plus = (sum: DayRow | undefined, row: DayRow): DayRow =>
  rowWith(sum ?? row, (name) => (sum?.[name] ?? 0) + row[name])

/** Sums the rows of one client, at least one, under the plan of the first. */
export const totalOf = (rows: readonly DayRow[]): DayRow =>
  rows.reduce((sum, row) => plus(sum, row))

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
  /** Rows of each day, by `PLAN CLIENT`: no plan's name has a space. */
  const days = new Map<number, Map<string, DayRow>>()
  /** Forgets earlier days until there is room for a row; returns false where that does not help. */
  const makeRoom = (day: number): boolean => {
    let size = 0
    for (const rows of days.values()) size += rows.size
    if (size < MAX_ROWS) return true
    const first = Math.min(...days.keys())
    if (first < day) days.delete(first)
    return first < day && makeRoom(day)
  }
  const rowsOf = (day: number): DayRow[] => [...(days.get(day)?.values() ?? [])]
  return {
    scope: 'process',
    add: async ({ day, rows }) => {
      for (const old of days.keys()) if (old <= day - KEPT_DAYS) days.delete(old)
      const sums = days.get(day) ?? new Map<string, DayRow>()
      days.set(day, sums)
      for (const row of rows) {
        const key = `${row.plan} ${row.client}`
        if (sums.has(key) || makeRoom(day)) sums.set(key, plus(sums.get(key), row))
      }
    },
    async *day(day) {
      const rows = rowsOf(day)
      for (let at = 0; at < rows.length; at += PAGE_ROWS) yield rows.slice(at, at + PAGE_ROWS)
    },
    client: async (client, from, to) => {
      const found: [number, DayRow][] = []
      for (let day = from; day <= to; day++)
        for (const row of rowsOf(day)) if (row.client === client) found.push([day, row])
      return found
    },
  }
}
