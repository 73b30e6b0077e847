/** The interface of stores for the totals of days, and the store that keeps them in memory alone. */
import { DayTable, type DayRow } from './day-totals.ts'

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
