/** Renders the busiest minutes and days of each plan's clients, and limits under which a share of its requests is refused. */
import { count } from '../../../insight/format.js'
import type { Suggestions } from '../report.ts'
import { percentOf, windowsOf, type WindowOfPlan } from '../suggest/windows.ts'
import { markup, named, table, type Column, type Content } from './markup.ts'
import { moment } from './sections.ts'

export function limitsTable({ share, until, plans }: Suggestions): Content {
  const number = (
    head: string,
    of: (row: WindowOfPlan) => number | undefined,
  ): Column<WindowOfPlan> => ({ head, isNumber: true, cell: (row) => count(of(row)) })
  const columns: readonly Column<WindowOfPlan>[] = [
    { head: 'Plan', kind: 'title', cell: ({ plan }) => named(plan) },
    { head: 'Window', cell: ({ window }) => window },
    number('Clients', ({ clients }) => clients),
    number('p50', ({ peaks }) => peaks.p50),
    number('p95', ({ peaks }) => peaks.p95),
    number('p99', ({ peaks }) => peaks.p99),
    number('Limit', ({ limit }) => limit),
    number(`At ${percentOf(share)}`, ({ atShare }) => atShare),
    { head: 'Refused', isNumber: true, cell: ({ refused }) => percentOf(refused) },
  ]
  return [
    markup`<p class="muted">p50, p95, p99: so many of the clients had no busier minute or day. At ${percentOf(share)}: the plan's limits, in their present proportion, under which at most this share of its requests would have been refused.</p>`,
    until !== null &&
      markup`<p>Of the log up to ${moment(until)}: what comes after it was too much to keep.</p>`,
    table('Limits that would fit', columns, plans.flatMap(windowsOf)),
  ]
}
