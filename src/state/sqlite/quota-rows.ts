/**
 * The rows of store.file that keep the counters of the embedded authority over a restart: for each client, the tokens handed
 * out in the windows that still run, and how many more may be taken before the row is written again.
 */
import { DAY_MS, MINUTE_MS } from '../../config/time.ts'
import { firstKeptDay } from '../memory/authority.ts'
import type { SqliteFile } from './file.ts'

export interface Row {
  readonly client: string
  readonly minuteIndex: number
  readonly minuteTaken: number
  readonly dayIndex: number
  readonly dayTaken: number
  /** After a crash so many more tokens count as taken, in both windows. */
  readonly ahead: number
}

const columns = ['minuteIndex', 'minuteTaken', 'dayIndex', 'dayTaken', 'ahead'] as const
const select = `SELECT client, minute_index AS minuteIndex, minute_taken AS minuteTaken, day_index AS dayIndex,
  day_taken AS dayTaken, ahead FROM quota WHERE`
const save = `INSERT INTO quota (client, minute_index, minute_taken, day_index, day_taken, ahead) VALUES (?, ?, ?, ?, ?, ?)
  ON CONFLICT (client) DO UPDATE SET minute_index = excluded.minute_index, minute_taken = excluded.minute_taken,
    day_index = excluded.day_index, day_taken = excluded.day_taken, ahead = excluded.ahead`
const removeDaysBefore = 'DELETE FROM quota WHERE day_index < ?'
/** Counts the tokens ahead as taken, in the windows of the row or in those that may have begun since. */
const countAhead = `UPDATE quota SET
  minute_taken = ahead + iif(minute_index < minute, 0, minute_taken), minute_index = max(minute_index, minute),
  day_taken = ahead + iif(day_index < day, 0, day_taken), day_index = max(day_index, day), ahead = 0
  FROM (SELECT ? AS minute, ? AS day) WHERE ahead > 0`
const dropAhead = 'UPDATE quota SET ahead = 0 WHERE ahead > 0'

export type Rows = ReturnType<typeof createRows>

/** A rejected call has kept nothing; its Error gives fault and remedy. Client ids are well-formed strings. */
export const createRows = (file: SqliteFile) => ({
  /** Returns up to `atMost` rows of days that are still of use, as a crash or a stop has left them. */
  async load(nowMs: number, atMost: number): Promise<readonly Row[]> {
    const [minute, day] = [Math.floor(nowMs / MINUTE_MS), Math.floor(nowMs / DAY_MS)]
    await file.read(countAhead, minute, day)
    const first = firstKeptDay(nowMs)
    const rows = await file.read(`${select} day_index >= ? LIMIT ?`, first, atMost)
    // The constraints of the table ensure types and ranges.
    return rows as readonly unknown[] as readonly Row[]
  },
  async find(client: string): Promise<Row | undefined> {
    const [row] = await file.read(`${select} client = ?`, client)
    return row as Row | undefined
  },
  save(rows: readonly Row[]): Promise<void> {
    const numbers = columns.map((name) => Float64Array.from(rows, (row) => row[name]))
    return file.writeRows({ sql: save, columns: [rows.map(({ client }) => client), ...numbers] })
  },
  removeDaysBefore: (dayIndex: number) => file.write(removeDaysBefore, dayIndex),
  /** Sets `ahead` to 0, as the counts of the rows are exact. */
  dropAhead: () => file.write(dropAhead),
  close: () => file.close(),
})
