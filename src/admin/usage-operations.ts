/** Reports daily use by client, for billing. */
import type { ClientUsage, DayTotals, DayUsage, PlanTotals } from '../insight/api/usage.ts'
import { DAY_MS } from '../config/time.ts'
import { StoreUnavailable } from '../state/contract.ts'
import { totalOf, type DayRow } from '../state/day-totals.ts'
import type { UsageHistory } from '../insight/usage/usage-history.ts'
import { KEPT_DAYS } from '../state/usage.ts'
import {
  csv,
  invalidRequest,
  json,
  seen,
  storeAway,
  unknownClient,
  wantsCsv,
  type Answer,
  type CsvRow,
} from './answers.ts'
import type { ConfigNeeds } from './config-operations.ts'
import type { Call } from './operation.ts'

export interface UsageNeeds extends Pick<ConfigNeeds, 'reloads'> {
  readonly usage: Pick<UsageHistory, 'scope' | 'day' | 'client'>
}

const CSV_HEADER = 'day,client,plan,admitted,refused_minute,refused_day,refused_ban'.split(',')
const DEFAULT_DAYS = 30

/** Use of all clients on one day, written as it is read. */
export async function getUsage({ usage }: UsageNeeds, call: Call): Promise<Answer> {
  const today = Math.floor(Date.now() / DAY_MS)
  const wanted = readDays(call.query, ['day'], today)
  if ('fault' in wanted) return invalidRequest(`${wanted.fault}.`)
  const { day = today } = wanted
  return whereKept(async () => {
    const pages = usage.day(day)
    // The first page is read before the answer begins: an error can then still be answered.
    const first = (await pages.next()).value ?? []
    const name = nameOf(day)
    if (wantsCsv(call.request)) return csv(CSV_HEADER, csvRows(name, first, pages))
    const { clients: _, ...head } = {
      ...seen(usage.scope),
      day: name,
      clients: [],
    } satisfies DayUsage
    return {
      status: 200,
      contentType: 'application/json; charset=utf-8',
      body: () => jsonPieces(head, first, pages),
    }
  })
}

/** Use of one client, day by day. */
export async function getClientUsage(
  { usage, reloads }: UsageNeeds,
  { params: { id }, query }: Call<{ readonly id: string }>,
): Promise<Answer> {
  const today = Math.floor(Date.now() / DAY_MS)
  const wanted = readDays(query, ['from', 'to'], today)
  if ('fault' in wanted) return invalidRequest(`${wanted.fault}.`)
  const { to = today, from = Math.max(to - DEFAULT_DAYS + 1, today - KEPT_DAYS + 1) } = wanted
  if (from > to) return invalidRequest('from is after to; exchange them.')
  return whereKept(async () => {
    const rows = await usage.client(id, from, to)
    const client = reloads.config.clients.get(id)
    if (client === undefined && rows.length === 0) return unknownClient
    return json(200, {
      ...seen(usage.scope),
      client: id,
      plan: client?.plan ?? rows.at(-1)?.[1].plan ?? null,
      from: nameOf(from),
      to: nameOf(to),
      days: Array.from(
        Map.groupBy(rows, ([day]) => day),
        dayTotals,
      ),
    } satisfies ClientUsage)
  })
}

const nameOf = (day: number): string => new Date(day * DAY_MS).toISOString().slice(0, 10)

function dayTotals([day, found]: [number, readonly (readonly [number, DayRow])[]]): DayTotals {
  const rows = found.map(([, row]) => row)
  const plans = rows.length > 1 ? { plans: rows.map(countsOf) } : {}
  return { day: nameOf(day), ...countsOf(totalOf(rows)), ...plans }
}

const countsOf = (row: DayRow): PlanTotals => ({
  plan: row.plan,
  admitted: row.admitted,
  refused: { minute: row.refusedMinute, day: row.refusedDay, ban: row.refusedBan },
})

async function* jsonPieces(
  head: object,
  first: readonly DayRow[],
  rest: AsyncIterable<readonly DayRow[]>,
): AsyncGenerator<string> {
  const inJson = (rows: readonly DayRow[]): string =>
    rows.map((row) => JSON.stringify({ client: row.client, ...countsOf(row) })).join(',\n')
  yield `${JSON.stringify(head).slice(0, -1)},"clients":[\n${inJson(first)}`
  let isBegun = first.length > 0
  for await (const rows of rest) {
    if (rows.length === 0) continue
    yield (isBegun ? ',\n' : '') + inJson(rows)
    isBegun = true
  }
  yield '\n]}\n'
}

async function* csvRows(
  day: string,
  first: readonly DayRow[],
  rest: AsyncIterable<readonly DayRow[]>,
): AsyncGenerator<CsvRow> {
  const inCsv = (row: DayRow): CsvRow => {
    const { admitted, refused } = countsOf(row)
    return [day, row.client, row.plan, admitted, refused.minute, refused.day, refused.ban]
  }
  yield* first.map(inCsv)
  for await (const rows of rest) yield* rows.map(inCsv)
}

/** Returns the days that a query names, or what is wrong with it and the remedy. */
function readDays<Name extends string>(
  query: URLSearchParams,
  names: readonly Name[],
  today: number,
): { readonly [Key in Name]?: number } | { readonly fault: string } {
  const days: { [Key in Name]?: number } = {}
  for (const [name, text] of query) {
    const known = names.find((one) => one === name)
    if (known === undefined)
      return { fault: `${name} is not known here; ${names.join(' and ')} are` }
    const day = Date.parse(`${text}T00:00:00Z`) / DAY_MS
    if (!/^\d{4}-\d\d-\d\d$/.test(text) || Number.isNaN(day) || nameOf(day) !== text)
      return { fault: `${name} is no day; write it as ${nameOf(today)}` }
    if (day > today) return { fault: `${name} is not over; name ${nameOf(today)}, or one before` }
    if (day <= today - KEPT_DAYS)
      return {
        fault: `${name} is not kept any more; name ${nameOf(today - KEPT_DAYS + 1)}, or later`,
      }
    days[known] = day
  }
  return days
}

/** Answers 503 while the store is away, as numbers would be too low. */
async function whereKept(make: () => Promise<Answer>): Promise<Answer> {
  try {
    return await make()
  } catch (error) {
    if (!(error instanceof StoreUnavailable)) throw error
    return storeAway
  }
}
