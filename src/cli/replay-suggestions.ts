/** Suggestions for a person or a program: the limits of plans, and the plan of each client. */
import { count, plural } from '../insight/format.js'
import type { Look } from './terminal/look.ts'
import { id, number, table, text, type Column } from './terminal/table.ts'
import type { ReplayedClient, ReplayReport } from '../tools/replay/report.ts'
import { percentOf, windowsOf, type WindowOfPlan } from '../tools/replay/suggest.ts'
import { refusedOf } from '../tools/replay/totals.ts'

const MOST_SHOWN = 20
const NO_PLAN = 'none'

/** look: undefined for a program, which gets a line for each client. */
export async function* suggestionLines(
  { clients, suggestions }: ReplayReport,
  look: Look | undefined,
): AsyncGenerator<string> {
  if (suggestions === undefined) return
  if (look === undefined) {
    yield* table(clientColumns, clients, look)
    return
  }
  const { share, plans } = suggestions
  yield `Busiest minute and day of ${plural(clients.length, 'client')}, and limits at which ${percentOf(share)} is refused:`
  yield* table(planColumns(share), plans.flatMap(windowsOf), look)
  const others = clients.filter(({ plan, suggest }) => suggest !== plan)
  yield `${count(others.length)} of ${plural(clients.length, 'client')} would need another plan, or a smaller one would do:`
  yield* table(clientColumns, others.slice(0, MOST_SHOWN), look)
  if (others.length > MOST_SHOWN)
    yield `${count(others.length - MOST_SHOWN)} more: into a pipe, all are written`
}

const planColumns = (share: number): readonly Column<WindowOfPlan>[] => {
  const counted = (head: string, of: (row: WindowOfPlan) => number | undefined, drop?: number) =>
    number<WindowOfPlan>(head, (row) => of(row) ?? null, {
      write: count,
      ...(drop !== undefined && { drop }),
    })
  return [
    text('PLAN', ({ plan }) => plan),
    id('WINDOW', ({ window }) => window),
    counted('CLIENTS', ({ clients }) => clients, 2),
    counted('P50', ({ peaks }) => peaks.p50, 3),
    counted('P95', ({ peaks }) => peaks.p95),
    counted('P99', ({ peaks }) => peaks.p99),
    counted('LIMIT', ({ limit }) => limit),
    counted(`AT ${percentOf(share)}`, ({ atShare }) => atShare),
    id('REFUSED', ({ refused }) => percentOf(refused), { drop: 1 }),
  ]
}

const clientColumns: readonly Column<ReplayedClient>[] = [
  id('CLIENT', ({ client }) => client),
  text('PLAN', ({ plan }) => plan),
  id('SUGGEST', ({ suggest }) => suggest ?? NO_PLAN),
  number('REQUESTS', ({ requests }) => requests, { write: count, drop: 2 }),
  number('REFUSED', refusedOf, { write: count, drop: 1 }),
  number('PEAK MINUTE', ({ peak }) => peak.minute, { write: count }),
  number('PEAK DAY', ({ peak }) => peak.day, { write: count }),
]
