/** Keeps the totals of days in store.file. */
import { StoreUnavailable } from '../rules/store-unavailable.ts'
import { openSqliteFile, type OnFileEvent, type Row, type SqliteFile } from '../sqlite/file.ts'
import type { DayRow } from './day-totals.ts'
import { KEPT_DAYS, type UsageStore } from './usage-store.ts'

const columns = `client, plan, admitted, refused_minute AS refusedMinute, refused_day AS refusedDay,
  refused_ban AS refusedBan`
const pageOf = `SELECT ${columns} FROM usage WHERE day = ? AND client > ? ORDER BY client LIMIT ?`
/** Day by day: a scan of them would meet all clients. */
const clientOf = `WITH RECURSIVE days (day, last) AS (SELECT ?, ? UNION ALL SELECT day + 1, last FROM days WHERE day < last)
  SELECT usage.day, ${columns} FROM days CROSS JOIN usage ON usage.day = days.day AND client = ?`
/** A row that this very batch has changed last is left as it is: the batch was kept, and its answer was late. */
const add = `INSERT INTO usage (day, client, plan, admitted, refused_minute, refused_day, refused_ban, batch)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?)
  ON CONFLICT (day, client) DO UPDATE SET plan = CASE WHEN excluded.admitted < 0 AND excluded.refused_minute = 0
      AND excluded.refused_day = 0 AND excluded.refused_ban = 0 THEN plan ELSE excluded.plan END,
    admitted = admitted + excluded.admitted,
    refused_minute = refused_minute + excluded.refused_minute, refused_day = refused_day + excluded.refused_day,
    refused_ban = refused_ban + excluded.refused_ban, batch = excluded.batch
  WHERE batch <> excluded.batch`
const isOld = 'SELECT 1 FROM usage WHERE day < ? LIMIT 1'
const removeOld = `DELETE FROM usage WHERE (day, client) IN
  (SELECT day, client FROM usage WHERE day < ? LIMIT ?)`
/** Others wait for the file meanwhile: a few ms. */
const PAGE_ROWS = 1_000

/** Opens or joins the file; see openSqliteFile. Throws an Error with file, fault and remedy. */
export function createSqliteUsageStore(file: string, onFileEvent: OnFileEvent): UsageStore {
  const store = openSqliteFile(file, onFileEvent)
  // One process has the file, and sends its batches one after the other: that the latest of a row differs is enough.
  const bootMs = Date.now()
  let cleanedDay: number | undefined
  const read: SqliteFile['read'] = (...asked) =>
    store.read(...asked).catch((cause: unknown) => {
      throw new StoreUnavailable('error', cause)
    })
  const removeBefore = async (day: number): Promise<void> => {
    while ((await store.read(isOld, day)).length > 0)
      await store.write(removeOld, [Float64Array.of(day), Float64Array.of(PAGE_ROWS)])
  }
  return {
    scope: 'store',
    add: async ({ sequence, day, rows }) => {
      const numbers = (of: (row: DayRow) => number): Float64Array => Float64Array.from(rows, of)
      await store.write(add, [
        numbers(() => day),
        rows.map(({ client }) => client),
        rows.map(({ plan }) => plan),
        numbers(({ admitted }) => admitted),
        numbers(({ refusedMinute }) => refusedMinute),
        numbers(({ refusedDay }) => refusedDay),
        numbers(({ refusedBan }) => refusedBan),
        numbers(() => bootMs + sequence),
      ])
      if (cleanedDay !== undefined && cleanedDay >= day) return
      cleanedDay = day
      await removeBefore(day - KEPT_DAYS + 1)
    },
    async *day(day) {
      for (let after = ''; ;) {
        const rows = (await read(pageOf, day, after, PAGE_ROWS)).map(rowOf)
        yield rows
        const last = rows.at(-1)
        if (last === undefined || rows.length < PAGE_ROWS) return
        after = last.client
      }
    },
    client: async (client, from, to) =>
      (await read(clientOf, from, to, client)).map((row) => [Number(row['day']), rowOf(row)]),
    close: () => store.close(),
  }
}

/** Types are the table's own constraints. */
const rowOf = (row: Row): DayRow => row as unknown as DayRow
