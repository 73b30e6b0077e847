/**
 * Keeps the totals of days in store.file: one row per client and day with all that was counted and the first plan of the day; and
 * in a second table what was counted under other plans.
 */
import { StoreUnavailable } from '../contract.ts'
import type { SqliteFile } from './file.ts'
import type { Columns } from './thread.ts'
import { DAY_COUNTS, totalOf, without, type DayRow } from '../day-totals.ts'
import { KEPT_DAYS, type UsageStore } from '../usage.ts'

/** The columns of DAY_COUNTS. */
const counts = ['admitted', 'refused_minute', 'refused_day', 'refused_ban']
const columns = `client, plan, ${counts.map((name, at) => `${name} AS ${DAY_COUNTS[at]}`).join()}`
const names = ['day', 'client', 'plan', ...counts, 'batch']
const values = names.map(() => '?').join()
/** Reads a page in one step: otherwise the parts might be newer than their totals. */
const pageOf = `WITH page AS MATERIALIZED
    (SELECT 0 AS isPart, day, ${columns} FROM usage WHERE day = ? AND client > ? ORDER BY client LIMIT ?)
  SELECT * FROM page UNION ALL SELECT 1, day, ${columns} FROM usage_by_plan
  WHERE day = ? AND client > ? AND client <= (SELECT max(client) FROM page)`
/** Reads day by day: a scan of the days would read all clients. */
const clientOf = `WITH RECURSIVE days (at, last) AS (SELECT ?, ? UNION ALL SELECT at + 1, last FROM days WHERE at < last)
  SELECT 0 AS isPart, day, ${columns} FROM days CROSS JOIN usage ON day = at AND client = ? UNION ALL
  SELECT 1, day, ${columns} FROM days CROSS JOIN usage_by_plan ON day = at AND client = ?`
/** A row last changed by this very batch is left as it is: the batch was kept, and its answer was late. */
const orAdd = `DO UPDATE SET ${counts.map((name) => `${name} = ${name} + excluded.${name}`).join()},
    batch = excluded.batch
  WHERE batch <> excluded.batch`
const addTotal = `INSERT INTO usage (${names.join()}) VALUES (${values}) ON CONFLICT (day, client) ${orAdd}`
/** Must follow addTotal: the total names the plan that has no part. */
const addPart = `WITH new (${names.join()}) AS (VALUES (${values}))
  INSERT INTO usage_by_plan SELECT new.* FROM new JOIN usage USING (day, client) WHERE new.plan <> usage.plan
  ON CONFLICT (day, client, plan) ${orAdd}`
/** Days that have ended leave the file a page at a time, with the batches of later days. */
const removeOld = ['usage', 'usage_by_plan'].map(
  (table) => `DELETE FROM ${table} WHERE (day, client) IN
    (SELECT day, client FROM ${table} WHERE day < ? LIMIT ?)`,
)
/** Rows per page; other calls wait for the file meanwhile, for a few ms. */
const PAGE_ROWS = 1_000

/** The file stays open, as it has other users. */
export function createSqliteUsageStore(store: SqliteFile): UsageStore {
  // Only one process uses the file and sends its batches one after the other, so that comparing a row with its latest batch is
  // enough.
  const bootMs = Date.now()
  const read = (...asked: Parameters<SqliteFile['read']>): Promise<readonly Found[]> =>
    store.read(...asked).then(
      (found) => found as readonly unknown[] as readonly Found[],
      (cause: unknown) => {
        throw new StoreUnavailable('error', cause)
      },
    )
  return {
    scope: 'store',
    add: async ({ sequence, day, rows }) => {
      const parameters = (of: readonly DayRow[]): Columns => [
        Float64Array.from(of, () => day),
        of.map(({ client }) => client),
        of.map(({ plan }) => plan),
        ...DAY_COUNTS.map((name) => Float64Array.from(of, (row) => row[name])),
        Float64Array.from(of, () => bootMs + sequence),
      ]
      const byClient = Map.groupBy(rows, ({ client }) => client).values()
      await store.writeRows(
        { sql: addTotal, columns: parameters(Array.from(byClient, totalOf)) },
        { sql: addPart, columns: parameters(rows) },
        ...removeOld.map((sql) => ({ sql, columns: [[day - KEPT_DAYS + 1], [PAGE_ROWS]] })),
      )
    },
    async *day(day) {
      for (let after = ''; ;) {
        const found = await read(pageOf, day, after, PAGE_ROWS, day, after)
        yield byPlan(found).map(([, row]) => row)
        const totals = found.filter(isTotal)
        const last = totals.at(-1)
        if (last === undefined || totals.length < PAGE_ROWS) return
        after = last.client
      }
    },
    client: async (client, from, to) => byPlan(await read(clientOf, from, to, client, client)),
  }
}

/** A row of one of the tables, whose constraints ensure the types. */
interface Found extends DayRow {
  readonly isPart: 0 | 1
  readonly day: number
}

const isTotal = ({ isPart }: Found): boolean => isPart === 0

function byPlan(found: readonly Found[]): [day: number, row: DayRow][] {
  const keyOf = ({ day, client }: Found): string => `${day} ${client}`
  const ofPlans = found.filter(({ isPart }) => isPart === 1)
  const parts = Map.groupBy(ofPlans, keyOf)
  return found.filter(isTotal).flatMap((total) => {
    const ofOthers = parts.get(keyOf(total)) ?? []
    const rows = [without(total, ofOthers), ...ofOthers.map((part) => without(part, []))]
    return rows.map((row): [number, DayRow] => [total.day, row])
  })
}
