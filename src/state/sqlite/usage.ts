/** Keeps the totals of days in store.file: a row per client with all counts and the first plan of its day, and one per further plan. */
import { StoreUnavailable } from '../contract.ts'
import type { SqliteFile } from './file.ts'
import type { Columns } from './thread.ts'
import { columnOf, DAY_COUNTS, KEPT_DAYS, rowWith, totalOf } from '../usage.ts'
import type { DayRow, UsageStore } from '../usage.ts'

const counts = DAY_COUNTS.map(columnOf)
const names = ['day', 'client', 'plan', ...counts, 'batch']
const values = names.map(() => '?').join()
const countsAs = (value: (name: string) => string): string =>
  counts.map((name, at) => `${value(name)} AS ${DAY_COUNTS[at]}`).join()
/** Reads a page of totals in one step, each as what is left of it without its parts, and then these. */
const rowsOf = (page: string): string => `WITH RECURSIVE ${page}
  SELECT day, client, page.plan, 0 AS isPart, ${countsAs((name) => `page.${name} - total(part.${name})`)}
    FROM page LEFT JOIN usage_by_plan AS part USING (day, client) GROUP BY day, client
  UNION ALL SELECT day, client, part.plan, 1, ${countsAs((name) => `part.${name}`)}
    FROM page CROSS JOIN usage_by_plan AS part USING (day, client)
  ORDER BY day, client, isPart`
const pageOf = rowsOf(
  'page AS MATERIALIZED (SELECT * FROM usage WHERE day = ? AND client > ? ORDER BY client LIMIT ?)',
)
/** Reads day by day: a scan of the days would read all clients. */
const clientOf =
  rowsOf(`days (at, last) AS (SELECT ?, ? UNION ALL SELECT at + 1, last FROM days WHERE at < last),
  page AS MATERIALIZED (SELECT usage.* FROM days CROSS JOIN usage ON day = at AND client = ?)`)
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

export function createSqliteUsageStore(store: SqliteFile): UsageStore {
  // Only one process uses the file and sends its batches one after the other, so that comparing a row with its latest batch is
  // enough.
  const bootMs = Date.now()
  const read = async (...asked: Parameters<SqliteFile['read']>) => {
    const found = await store.read(...asked).catch((cause: unknown) => {
      throw new StoreUnavailable('error', cause)
    })
    // The constraints of the tables ensure the types.
    return (found as readonly unknown[] as readonly (DayRow & { readonly day: number })[]).map(
      (row): [day: number, row: DayRow] => [row.day, rowWith(row, (name) => row[name])],
    )
  }
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
        const found = await read(pageOf, day, after, PAGE_ROWS)
        const last = found.at(-1)
        if (last === undefined) return
        yield found.map(([, row]) => row)
        after = last[1].client
      }
    },
    client: (client, from, to) => read(clientOf, from, to, client),
  }
}
