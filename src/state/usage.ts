/** Where the totals of days are kept: the seam, and the store that keeps them in memory alone. */
import { DayTable, type DayRow } from './day-totals.ts'

/** Today among them. */
export const KEPT_DAYS = 400

/** What is to be added, each client once under each plan. */
export interface Batch {
  /** Unique per boot of a process. */
  readonly process: string
  /** Rises with every batch of the process; all those before were kept, or given up. */
  readonly sequence: number
  readonly day: number
  readonly rows: readonly DayRow[]
}

/**
 * A day has a row for each client and plan. Days are those of Unix time. Rejects where the store is away: then an addition was made or not.
 */
export interface UsageStore {
  /** store: it outlives this process, and is all there is of it. */
  readonly scope: 'store' | 'process'
  /** Adds all of it or nothing, and once, however often it is sent. */
  add(batch: Batch): Promise<void>
  /** All rows of a day, each once, in pieces. */
  day(day: number): AsyncIterable<readonly DayRow[]>
  /** All rows of one client, by day. */
  client(
    client: string,
    from: number,
    to: number,
  ): Promise<readonly (readonly [day: number, row: DayRow])[]>
  close(): Promise<void>
}

const PAGE_ROWS = 1_000
/** With more rows the oldest days are forgotten, and of one day those rows that come last. */
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
        for (const row of table.find(day, client)) found.push([day, row])
      return found
    },
    close: async () => undefined,
  }
}
