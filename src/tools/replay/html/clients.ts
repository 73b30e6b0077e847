/** Renders clients and plans with their refusals, under the old and the new configuration. */
import { count } from '../../../insight/format.js'
import type { Outcome, ReplayedClient, ReplayedPlan, ReplayReport } from '../report.ts'
import { markup, type Column, type Content, type Markup, named, table } from './markup.ts'
import { refusedOf } from '../totals.ts'
import { change, moment } from './sections.ts'

const MOST_CLIENTS = 1_000
const MOST_HIT = 20

interface Compared extends Outcome {
  readonly before?: Outcome
}

const refusedColumns = <Row extends Compared>(isCompared: boolean): readonly Column<Row>[] => {
  const now: Column<Row> = {
    head: isCompared ? 'New' : 'Refused',
    isNumber: true,
    cell: (row) => count(refusedOf(row)),
  }
  if (!isCompared) return [now]
  return [
    { head: 'Old', isNumber: true, cell: ({ before }) => count(before && refusedOf(before)) },
    now,
    {
      head: 'Change',
      isNumber: true,
      cell: (row) => (row.before ? change(refusedOf(row.before), refusedOf(row)) : '–'),
    },
  ]
}

/** Draws refusals as bars in proportion to the most of all rows; other columns have the numbers. */
function bars<Row extends Compared>(rows: readonly Row[]): Column<Row> {
  const most = rows.reduce(
    (sum, row) => Math.max(sum, refusedOf(row), row.before ? refusedOf(row.before) : 0),
    1,
  )
  const bar = (kind: string, amount: number, top: number): Markup =>
    markup`<rect class="${kind}" y="${top}" width="${((amount / most) * 100).toFixed(2)}" height="5"/>`
  const drawn = (row: Row): Markup => {
    const before = row.before && bar('old', refusedOf(row.before), 0)
    return markup`<svg class="hit" viewBox="0 0 100 11" preserveAspectRatio="none" aria-hidden="true">${before}${bar('new', refusedOf(row), before ? 6 : 3)}</svg>`
  }
  return { head: rows[0]?.before ? 'Old, new' : '', kind: 'wide', cell: drawn }
}

const isHit = (client: ReplayedClient): boolean =>
  client.before === undefined
    ? refusedOf(client) > 0
    : refusedOf(client) !== refusedOf(client.before)

const clientColumn: Column<ReplayedClient> = {
  head: 'Client',
  kind: 'title',
  cell: ({ client }) => named(client),
}
const planColumn: Column<{ readonly plan: string }> = {
  head: 'Plan',
  cell: ({ plan }) => named(plan),
}

const suggestColumn: Column<ReplayedClient> = {
  head: 'Suggest',
  cell: ({ suggest }) => (suggest === undefined ? '–' : named(suggest ?? 'no plan')),
}

export function hitTable({ clients, before }: ReplayReport): Markup {
  const hit = clients.filter(isHit)
  if (hit.length === 0)
    return markup`<p>${before ? 'For nobody anything changes.' : 'No client is refused anything.'}</p>`
  const shown = hit.slice(0, MOST_HIT)
  const columns = [clientColumn, planColumn, bars(shown), ...refusedColumns(before !== undefined)]
  const more =
    hit.length > MOST_HIT
      ? markup`<p class="muted">The first ${MOST_HIT} of ${count(hit.length)}; all are below.</p>`
      : ''
  return markup`${table<ReplayedClient>('Who is hit', columns, shown)}${more}`
}

export function plansTable({ plans, before }: ReplayReport): Markup {
  const columns: readonly Column<ReplayedPlan>[] = [
    { head: 'Plan', kind: 'title', cell: ({ plan }) => named(plan) },
    { head: 'Clients', isNumber: true, cell: ({ clients }) => count(clients) },
    { head: 'Requests', isNumber: true, cell: ({ requests }) => count(requests) },
    bars(plans),
    ...refusedColumns<ReplayedPlan>(before !== undefined),
  ]
  return table('By plan', columns, plans)
}

/** The earliest refusal, and what refused it. */
const firstOf = ({ first }: ReplayedClient): { at: string; by: string } | undefined =>
  Object.entries(first)
    .flatMap(([by, at]) => (at === null ? [] : [{ at, by }]))
    .toSorted((one, other) => Date.parse(one.at) - Date.parse(other.at))[0]

export function clientsTable({ clients, before, suggestions }: ReplayReport): Markup {
  const by = (which: 'minute' | 'day' | 'ban'): Column<ReplayedClient> => ({
    head: { minute: 'Minute', day: 'Day', ban: 'Ban' }[which],
    isNumber: true,
    cell: ({ refused }) => count(refused[which]),
  })
  const peak = (which: 'minute' | 'day'): Column<ReplayedClient> => ({
    head: `Peak ${which}`,
    isNumber: true,
    cell: (row) => count(row.peak[which]),
  })
  const columns: readonly Column<ReplayedClient>[] = [
    clientColumn,
    planColumn,
    { head: 'Requests', isNumber: true, cell: ({ requests }) => count(requests) },
    ...refusedColumns<ReplayedClient>(before !== undefined),
    ...(['minute', 'day', 'ban'] as const).map(by),
    { head: 'First', cell: (row): Content => moment(firstOf(row)?.at ?? null) },
    { head: 'By', cell: (row) => firstOf(row)?.by ?? '–' },
    ...(['minute', 'day'] as const).map(peak),
    ...(suggestions ? [suggestColumn] : []),
  ]
  const rest = clients.slice(MOST_CLIENTS)
  const last = rest.length > 0 ? [inOne(rest)] : []
  return table('Clients', columns, clients.slice(0, MOST_CLIENTS), { id: 'clients', last })
}

/** Sums up the other clients in one row, with the highest of their peaks. */
function inOne(clients: readonly ReplayedClient[]): ReplayedClient {
  const add = (one: Outcome, other: Outcome): Outcome => ({
    admitted: one.admitted + other.admitted,
    refused: {
      minute: one.refused.minute + other.refused.minute,
      day: one.refused.day + other.refused.day,
      ban: one.refused.ban + other.refused.ban,
    },
  })
  const all = clients.reduce((one, other) => ({
    ...one,
    ...add(one, other),
    requests: one.requests + other.requests,
    ...(one.before && other.before && { before: add(one.before, other.before) }),
    peak: {
      minute: Math.max(one.peak.minute, other.peak.minute),
      day: Math.max(one.peak.day, other.peak.day),
    },
  }))
  const first = { minute: null, day: null, ban: null }
  const { suggest: _, ...sum } = all
  return { ...sum, client: `the other ${count(clients.length)} clients`, plan: '–', first }
}
