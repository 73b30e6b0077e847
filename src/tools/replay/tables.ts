/** The tables of a report, for a terminal, a program and the page. */
import { windowNames, windows } from '../../config/time.ts'
import { count, plural, refusers } from '../../insight/format.js'
import { id, number, text, time, type Column } from '../columns.ts'
import type { Outcome, ReplayedClient, ReplayReport, Suggestions } from './report.ts'
import { firstOf, moreOf, refusedOf } from './counts.ts'

export interface Table<Row> {
  readonly columns: readonly Column<Row>[]
  readonly rows: readonly Row[]
}

/** Writes a share such as 0.98%. */
export const percentOf = (share: number): string => `${Number((share * 100).toPrecision(2))}%`

/** Says in one sentence how many clients are refused more. */
export function verdict({ clients, requests, before }: ReplayReport): string {
  const hit = clients.filter((client) => moreOf(client) > 0)
  const more = hit.reduce((sum, client) => sum + moreOf(client), 0)
  const less = clients.filter((client) => moreOf(client) < 0).length
  const what = before ? 'refused more' : 'refused'
  const all = plural(clients.length, 'client')
  const also = less > 0 ? ` ${plural(less, 'client')} refused less.` : ''
  if (hit.length === 0) return `None of ${all} is ${what}.${also}`
  const is = hit.length === 1 ? 'is' : 'are'
  return `${count(hit.length)} of ${all} ${is} ${what}: ${plural(more, 'request')} (${percentOf(more / requests)}).${also}`
}

const signed = (value: number): string => (value > 0 ? `+${count(value)}` : count(value))

const counted = <Row>(
  head: string,
  of: (row: Row) => number | null,
  more: { readonly drop?: number } = {},
): Column<Row> => number(head, of, { write: count, ...more })

const compared = <Row>(old: (row: Row) => number, now: (row: Row) => number): Column<Row>[] => [
  counted('OLD', old),
  counted('NEW', now),
  number('CHANGE', (row) => now(row) - old(row), { write: signed }),
]

type Kind = readonly [name: string, of: (outcome: Outcome) => number]
const kinds: readonly Kind[] = [
  ['admitted', ({ admitted }) => admitted],
  ...refusers.map((by): Kind => [`refused by ${by}`, ({ refused }) => refused[by]]),
]
const otherKind: Kind = ['other', ({ other = 0 }) => other]

export function outcomeTable({ requests, before, ...now }: ReplayReport): Table<Kind> {
  const name = id<Kind>('', ([kind]) => kind)
  const ofNow = ([, of]: Kind): number => of(now)
  if (before !== undefined) {
    const columns = [name, ...compared<Kind>(([, of]) => of(before), ofNow)]
    return { columns, rows: [...kinds, otherKind] }
  }
  const share = (kind: Kind): number | null => (requests === 0 ? null : ofNow(kind) / requests)
  const columns = [name, counted('REQUESTS', ofNow), number('SHARE', share, { write: percentOf })]
  return { columns, rows: kinds }
}

type Compared = Outcome & { readonly before?: Outcome }

const refusedColumns = <Row extends Compared>({ before }: ReplayReport): readonly Column<Row>[] =>
  before === undefined
    ? [counted('REFUSED', refusedOf)]
    : compared<Row>((row) => (row.before === undefined ? 0 : refusedOf(row.before)), refusedOf)

export const plansTable = (report: ReplayReport): Table<ReplayReport['plans'][number]> => ({
  columns: [
    id('PLAN', ({ plan }) => plan),
    counted('CLIENTS', ({ clients }) => clients),
    counted('REQUESTS', ({ requests }) => requests),
    ...refusedColumns(report),
  ],
  rows: report.plans,
})

const client = id<ReplayedClient>('CLIENT', (row) => row.client)
const plan = text<ReplayedClient>('PLAN', (row) => row.plan, { drop: 2 })
const requests = counted<ReplayedClient>('REQUESTS', (row) => row.requests, { drop: 3 })
const suggest = id<ReplayedClient>('SUGGEST', (row) => row.suggest ?? 'none')
const peaks = windowNames.map((name) =>
  counted<ReplayedClient>(`PEAK ${name.toUpperCase()}`, ({ peak }) => peak[name]),
)

/** isWide: all that is known of a client, for the page. */
export function clientColumns(report: ReplayReport, isWide: boolean): Column<ReplayedClient>[] {
  const { from, to, suggestions } = report
  const refused = refusedColumns<ReplayedClient>(report)
  const isOneDay = from?.slice(0, 10) === to?.slice(0, 10)
  const shownFrom = isOneDay ? 11 : 5
  const first = [
    time<ReplayedClient>('FIRST', (row) => firstOf(row)?.at ?? null, {
      write: (at) => `${at.slice(shownFrom, 19).replace('T', ' ')}Z`,
      drop: 1,
    }),
    text<ReplayedClient>('BY', (row) => firstOf(row)?.by ?? (row.other ? 'other' : null)),
  ]
  if (!isWide) return [client, plan, requests, ...refused.slice(0, 2), ...first]
  const by = refusers.map((name) =>
    counted<ReplayedClient>(name.toUpperCase(), (row) => row.refused[name]),
  )
  const fitting = suggestions === undefined ? [] : [suggest]
  return [client, plan, requests, ...refused, ...by, ...first, ...peaks, ...fitting]
}

export const suggestedColumns: readonly Column<ReplayedClient>[] = [
  client,
  plan,
  suggest,
  requests,
  counted('REFUSED', refusedOf, { drop: 1 }),
  ...peaks,
]

/** The windows of each plan: its clients' busiest ones, its limits, and those that refuse at most the share. */
export function limitsTable({ share, plans }: Suggestions) {
  const rows = plans.flatMap((one) => windows.map((window) => ({ ...one, window })))
  type Row = (typeof rows)[number]
  const of = counted<Row>
  const columns = [
    text<Row>('PLAN', (row) => row.plan),
    id<Row>('WINDOW', ({ window }) => window.name),
    of('CLIENTS', ({ clients }) => clients, { drop: 2 }),
    of('P50', ({ window, peaks: its }) => its[window.name].p50, { drop: 3 }),
    of('P95', ({ window, peaks: its }) => its[window.name].p95),
    of('P99', ({ window, peaks: its }) => its[window.name].p99),
    of('LIMIT', ({ window, limits }) => limits?.[window.limit] ?? null),
    of(`AT ${percentOf(share)}`, ({ window, atShare }) => atShare?.[window.limit] ?? null),
    number<Row>('REFUSED', ({ atShare }) => atShare?.share ?? null, { write: percentOf, drop: 1 }),
  ]
  return { columns, rows }
}
