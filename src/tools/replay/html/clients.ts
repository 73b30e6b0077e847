/** Renders clients and plans with their refusals under the old and the new configuration, and limits that would fit. */
import { count } from '../../../insight/format.js'
import type { Outcome, ReplayedClient, ReplayedPlan, ReplayReport, Suggestions } from '../report.ts'
import { percentOf, windowsOf, type WindowOfPlan } from '../suggest.ts'
import { firstOf, refusedOf } from '../totals.ts'
import { markup, named, numbers, table, type Column, type Content, type Markup } from './markup.ts'
import { change, moment } from './sections.ts'

const MOST_CLIENTS = 1_000

interface Compared extends Outcome {
  readonly before?: Outcome
}

const refusedColumns = <Row extends Compared>(isCompared: boolean): readonly Column<Row>[] =>
  isCompared
    ? [
        numbers('Old', ({ before }) => before && refusedOf(before)),
        numbers('New', refusedOf),
        {
          head: 'Change',
          isNumber: true,
          cell: (row) => (row.before ? change(refusedOf(row.before), refusedOf(row)) : '–'),
        },
      ]
    : [numbers('Refused', refusedOf)]

export function plansTable({ plans, before }: ReplayReport): Markup {
  const columns: readonly Column<ReplayedPlan>[] = [
    { head: 'Plan', kind: 'title', cell: ({ plan }) => named(plan) },
    numbers('Clients', ({ clients }) => clients),
    numbers('Requests', ({ requests }) => requests),
    ...refusedColumns<ReplayedPlan>(before !== undefined),
  ]
  return table('By plan', columns, plans)
}

const suggestColumn: Column<ReplayedClient> = {
  head: 'Suggest',
  cell: ({ suggest }) => (suggest === undefined ? '–' : named(suggest ?? 'no plan')),
}

/** The clients with the most refusals, or with the largest increase, come first. */
export function clientsTable({ clients, before, suggestions }: ReplayReport): Content {
  const columns: readonly Column<ReplayedClient>[] = [
    { head: 'Client', kind: 'title', cell: ({ client }) => named(client) },
    { head: 'Plan', cell: ({ plan }) => named(plan) },
    numbers('Requests', ({ requests }) => requests),
    ...refusedColumns<ReplayedClient>(before !== undefined),
    numbers('Minute', ({ refused }) => refused.minute),
    numbers('Day', ({ refused }) => refused.day),
    numbers('Ban', ({ refused }) => refused.ban),
    { head: 'First', cell: (row) => moment(firstOf(row)?.at ?? null) },
    { head: 'By', cell: (row) => firstOf(row)?.by ?? '–' },
    numbers('Peak minute', ({ peak }) => peak.minute),
    numbers('Peak day', ({ peak }) => peak.day),
    ...(suggestions ? [suggestColumn] : []),
  ]
  const left = clients.length - MOST_CLIENTS
  return [
    left > 0 &&
      markup`<p class="muted">The first ${count(MOST_CLIENTS)} of ${count(clients.length)} clients; all of them: --json</p>`,
    table('Clients', columns, clients.slice(0, MOST_CLIENTS), 'clients'),
  ]
}

/** Renders the busiest minutes and days of each plan's clients, and limits under which a share of its requests is refused. */
export function limitsTable({ share, until, plans }: Suggestions): Content {
  const columns: readonly Column<WindowOfPlan>[] = [
    { head: 'Plan', kind: 'title', cell: ({ plan }) => named(plan) },
    { head: 'Window', cell: ({ window }) => window },
    numbers('Clients', ({ clients }) => clients),
    numbers('p50', ({ peaks }) => peaks.p50),
    numbers('p95', ({ peaks }) => peaks.p95),
    numbers('p99', ({ peaks }) => peaks.p99),
    numbers('Limit', ({ limit }) => limit),
    numbers(`At ${percentOf(share)}`, ({ atShare }) => atShare),
    { head: 'Refused', isNumber: true, cell: ({ refused }) => percentOf(refused) },
  ]
  return [
    markup`<p class="muted">p50, p95, p99: so many of the clients had no busier minute or day. At ${percentOf(share)}: the plan's limits, in their present proportion, under which at most this share of its requests would have been refused.</p>`,
    until !== null &&
      markup`<p>Of the log up to ${moment(until)}: what comes after it was too much to keep.</p>`,
    table('Limits that would fit', columns, plans.flatMap(windowsOf)),
  ]
}
