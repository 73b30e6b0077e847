/** Reports daily use by client, for billing. */
import type { IncomingMessage } from 'node:http'
import { z } from 'zod'
import type { Seen } from '../../insight/api/live.ts'
import { DAY_MS, fieldOf, perWindow } from '../../config/time.ts'
import { KEPT_DAYS, totalOf, type DayRow } from '../../state/usage.ts'
import { Refused, seen } from '../answers.ts'
import { checked, look, type ApiNeeds, type Call } from '../operation.ts'
import { USAGE_COLUMNS, usageLine } from './words.ts'

const DEFAULT_DAYS = 30

const nameOf = (day: number): string => new Date(day * DAY_MS).toISOString().slice(0, 10)
const dayOf = (text: string): number => Date.parse(`${text}T00:00:00Z`) / DAY_MS
const today = (): number => Math.floor(Date.now() / DAY_MS)
const firstKept = (): number => today() - KEPT_DAYS + 1

/** The number of a day that is kept. */
const keptDay = z.iso
  .date({ error: () => `is no day; write it as ${nameOf(today())}` })
  .transform(dayOf)
  .refine((day) => day <= today(), {
    error: () => `is not over; name ${nameOf(today())}, or one before`,
  })
  .refine((day) => day >= firstKept(), {
    error: () => `is not kept any more; name ${nameOf(firstKept())}, or later`,
  })
  .exactOptional()
const dayQuery = z.strictObject({ day: keptDay })
const DAY_FORM = 'Ask with ?day=2026-11-03, or without it for today.'
const spanQuery = z
  .strictObject({ from: keptDay, to: keptDay })
  .refine(({ from, to }) => (from ?? 0) <= (to ?? Infinity), {
    path: ['from'],
    message: 'is after "to"; exchange them',
  })
const SPAN_FORM = 'Ask with ?from=2026-11-01, ?to=2026-11-03, both, or neither.'

export const usageOperations = [
  /** Use of all clients on one day, written as it is read. */
  look('/api/usage', async ({ usage }, { query, request }) => {
    const { day = today() } = checked(query, dayQuery, DAY_FORM)
    const pages = usage.day(day)
    // The first page is read before the answer begins: an error can then still be answered.
    const first = (await pages.next()).value ?? []
    const name = nameOf(day)
    const form = wantsCsv(request) ? csvForm(name) : jsonForm({ ...seen(usage.scope), day: name })
    const body = () => pieces(first, pages, form)
    return { status: 200, contentType: form.contentType, body }
  }),
  look('/api/clients/{id}/usage', clientUsage),
]

/** GET /api/clients/ID/usage?from=&to= (days, both included; default: the latest 30). Days without a request are left out. */
export type ClientUsage = Awaited<ReturnType<typeof clientUsage>>

async function clientUsage(
  { usage, reloads }: ApiNeeds,
  { params: { id }, query }: Call<{ readonly id: string }>,
) {
  const asked = checked(query, spanQuery, SPAN_FORM)
  const { to = today(), from = Math.max(to - DEFAULT_DAYS + 1, firstKept()) } = asked
  const rows = await usage.client(id, from, to)
  const client = reloads.config.clients.get(id)
  if (client === undefined && rows.length === 0) throw new Refused('unknown_client')
  const plan = client?.plan ?? rows.at(-1)?.[1].plan ?? null
  const days = [...Map.groupBy(rows, ([day]) => day)].map(dayTotals)
  return { ...seen(usage.scope), client: id, plan, from: nameOf(from), to: nameOf(to), days }
}

/** GET /api/usage?day= (default: today); an entry for each client and plan. As CSV: the columns of words.ts. */
export interface DayUsage extends Seen {
  readonly day: string
  readonly clients: readonly (PlanTotals & { readonly client: string })[]
}

export const wantsCsv = ({ headers: { accept = '' } }: IncomingMessage): boolean =>
  /(?:^|,)\s*text\/csv\s*(?:;|,|$)/i.test(accept)

/** plans: all of the day if there were several; `plan` is then the first, and the numbers are sums. */
export type DayTotals = ReturnType<typeof dayTotals>

function dayTotals([day, found]: [number, readonly (readonly [number, DayRow])[]]) {
  const rows = found.map(([, row]) => row)
  const plans = rows.length > 1 ? { plans: rows.map(countsOf) } : {}
  return { day: nameOf(day), ...countsOf(totalOf(rows)), ...plans }
}

/** Decisions under one plan. */
export type PlanTotals = ReturnType<typeof countsOf>

const countsOf = (row: DayRow) => ({
  plan: row.plan,
  admitted: row.admitted,
  refused: { ...perWindow(({ name }) => row[fieldOf('refused', name)]), ban: row.refusedBan },
})

type Form = ReturnType<typeof jsonForm>

const jsonForm = (fields: Omit<DayUsage, 'clients'>) => ({
  contentType: 'application/json; charset=utf-8',
  head: `${JSON.stringify(fields).slice(0, -1)},"clients":[\n`,
  line: (row: DayRow) => JSON.stringify({ client: row.client, ...countsOf(row) }),
  between: ',\n',
  end: '\n]}\n',
})

const csvForm = (day: string): Form => ({
  contentType: 'text/csv; charset=utf-8; header=present',
  head: `${USAGE_COLUMNS}\r\n`,
  line: (row) => `${usageLine(day, row.client, countsOf(row))}\r\n`,
  between: '',
  end: '',
})

async function* pieces(
  first: readonly DayRow[],
  rest: AsyncIterable<readonly DayRow[]>,
  { head, line, between, end }: Form,
): AsyncGenerator<string> {
  yield head + first.map(line).join(between)
  let isBegun = first.length > 0
  for await (const rows of rest) {
    if (rows.length === 0) continue
    yield (isBegun ? between : '') + rows.map(line).join(between)
    isBegun = true
  }
  yield end
}
