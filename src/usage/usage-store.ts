/** Where the totals of days are kept: the seam, and the store that keeps them in memory alone. */
import { DayTable, type DayRow } from './day-totals.ts'

/** Today among them. */
export const KEPT_DAYS = 400

/** What is to be added, each client once. */
export interface Batch {
  /** Unique per boot of a process. */
  readonly process: string
  /** Rises with every batch of the process; all those before were kept, or given up. */
  readonly sequence: number
  readonly day: number
  readonly rows: readonly DayRow[]
}

/** Days are those of Unix time. Rejects where the store is away: then an addition was made or not. */
export interface UsageStore {
  /** store: it outlives this process, and is all there is of it. */
  readonly scope: 'store' | 'process'
  /** Adds all of it or nothing, and once, however often it is sent. */
  add(batch: Batch): Promise<void>
  /** All clients of a day, each once, in pieces. */
  day(day: number): AsyncIterable<readonly DayRow[]>
  /** Of one client, by day. */
  client(
    client: string,
    from: number,
    to: number,
  ): Promise<readonly (readonly [day: number, row: DayRow])[]>
  close(): Promise<void>
}

const PAGE_ROWS = 1_000
/** Of more the oldest days are forgotten, and of one day those who come last. */
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
      const days: [number, DayRow][] = []
      for (let day = from; day <= to; day++) {
        const row = table.find(day, client)
        if (row !== undefined) days.push([day, row])
      }
      return days
    },
    close: async () => undefined,
  }
}
