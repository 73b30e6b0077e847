/** The result of a replay and what it suggests, for a person, or for a program that reads tables. */
import { count, plural } from '../insight/format.js'
import { firstOf, moreOf, refusedOf } from '../tools/replay/totals.ts'
import type { Outcome, ReplayedClient, ReplayReport } from '../tools/replay/report.ts'
import { percentOf, windowsOf, type WindowOfPlan } from '../tools/replay/suggest.ts'
import { safe, type Look } from './terminal/look.ts'
import { id, number, table, text, type Column } from './terminal/table.ts'

/** Number of clients that a person is shown. */
const MOST_SHOWN = 20
const NO_PLAN = 'none'

interface Row {
  readonly name: string
  readonly old: number
  readonly now: number
}

/** look: undefined for a program. */
export async function* replayText(
  report: ReplayReport,
  look: Look | undefined,
): AsyncGenerator<string> {
  const hit = report.clients.filter((client) => moreOf(client) > 0)
  if (look === undefined) {
    yield* table(clientColumns(report), hit, look)
    return
  }
  yield headline(report)
  yield* table(totalColumns(report), totals(report), look)
  const than = report.before === undefined ? '' : ' more'
  const most = hit.length === 0 ? '' : ' Most:'
  yield `${count(hit.length)} of ${plural(report.clients.length, 'client')} ${hit.length === 1 || report.clients.length === 1 ? 'is' : 'are'} refused${than}.${most}`
  yield* table(clientColumns(report), hit.slice(0, MOST_SHOWN), look)
  yield* remarks(report)
}

function headline({ requests, from, to, read }: ReplayReport): string {
  const days = [...new Set([from, to].flatMap((at) => at?.slice(0, 10) ?? []))]
  const { firstUnreadable: first, unreadable } = read
  const where = first && `${read.files.length > 1 ? `${first.file} ` : ''}line ${first.line}`
  const bad = where && `; ${count(unreadable)} unreadable (first: ${where})`
  const when = days.length === 0 ? '' : `, ${days.join(' to ')}`
  return `${plural(requests, 'request')}${when}${bad ?? ''}`
}

function totals({ before, ...now }: ReplayReport): Row[] {
  const of = (name: string, value: (outcome: Outcome) => number): Row => ({
    name,
    old: before === undefined ? 0 : value(before),
    now: value(now),
  })
  return [
    of('admitted', ({ admitted }) => admitted),
    of('minute', ({ refused }) => refused.minute),
    of('day', ({ refused }) => refused.day),
    of('ban', ({ refused }) => refused.ban),
    ...(before === undefined ? [] : [of('other', ({ other = 0 }) => other)]),
  ]
}

const signed = (value: number): string => (value > 0 ? `+${count(value)}` : count(value))

function totalColumns({ before }: ReplayReport): Column<Row>[] {
  const now = (head: string) => number<Row>(head, (row) => row.now, { write: count })
  const name = id<Row>('', (row) => row.name)
  if (before === undefined) return [name, now('REQUESTS')]
  return [
    name,
    number('OLD', ({ old }) => old, { write: count }),
    now('NEW'),
    number('CHANGE', ({ old, now: its }) => its - old, { write: signed }),
  ]
}

function clientColumns({ before, from, to }: ReplayReport): Column<ReplayedClient>[] {
  const old = number<ReplayedClient>(
    'OLD',
    (client) => (client.before === undefined ? 0 : refusedOf(client.before)),
    { write: count },
  )
  const isOneDay = from?.slice(0, 10) === to?.slice(0, 10)
  return [
    id('CLIENT', ({ client }) => client),
    text('PLAN', ({ plan }) => plan, { drop: 2 }),
    number('REQUESTS', ({ requests }) => requests, { write: count, drop: 3 }),
    ...(before === undefined ? [] : [old]),
    number(before === undefined ? 'REFUSED' : 'NEW', refusedOf, { write: count }),
    text('FIRST', (client) => firstOf(client)?.at ?? null, {
      write: (at) => `${at.slice(isOneDay ? 11 : 5, 19).replace('T', ' ')}Z`,
      drop: 1,
    }),
    text('BY', (client) => firstOf(client)?.by ?? (client.other ? 'other' : null)),
  ]
}

/** look: undefined for a program, which gets a line for each client. */
export async function* suggestionLines(
  { clients, suggestions }: ReplayReport,
  look: Look | undefined,
): AsyncGenerator<string> {
  if (suggestions === undefined) return
  if (look === undefined) {
    yield* table(suggestedColumns, clients, look)
    return
  }
  const { share, plans } = suggestions
  yield `Busiest minute and day of ${plural(clients.length, 'client')}, and limits at which ${percentOf(share)} is refused:`
  yield* table(planColumns(share), plans.flatMap(windowsOf), look)
  const others = clients.filter(({ plan, suggest }) => suggest !== plan)
  yield `${count(others.length)} of ${plural(clients.length, 'client')} would need another plan, or a smaller one would do:`
  yield* table(suggestedColumns, others.slice(0, MOST_SHOWN), look)
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

const suggestedColumns: readonly Column<ReplayedClient>[] = [
  id('CLIENT', ({ client }) => client),
  text('PLAN', ({ plan }) => plan),
  id('SUGGEST', ({ suggest }) => suggest ?? NO_PLAN),
  number('REQUESTS', ({ requests }) => requests, { write: count, drop: 2 }),
  number('REFUSED', refusedOf, { write: count, drop: 1 }),
  number('PEAK MINUTE', ({ peak }) => peak.minute, { write: count }),
  number('PEAK DAY', ({ peak }) => peak.day, { write: count }),
]

/** Remarks for the reader of the table; with a pipe they go to the terminal. */
export function* remarks({
  requests: judged,
  unknownClients,
  gone = 0,
  notJudged,
  log,
  read,
  suggestions,
}: ReplayReport): Generator<string> {
  const { firstUnreadable: first } = read
  if (first !== null) {
    yield `${count(read.unreadable)} unreadable; line ${first.line} of ${safe(first.file)}`
    yield `  ${first.why}`
  }
  const { requests, names } = unknownClients
  if (requests > 0)
    yield `${plural(requests, 'request')} of clients that the configuration does not have, such as:`
  for (const name of names.slice(0, 5)) yield `  ${safe(name)}`
  if (gone > 0)
    yield `${plural(gone, 'client')} gone under NEW, or keys of theirs: these requests are other`
  if (notJudged > 0) yield `${count(notJudged)} not judged: refused before quota, or of nobody`
  if (read.late > 0) yield `${count(read.late)} came too late for their place: see --window`
  if (read.notesDropped > 0)
    yield `${count(read.notesDropped)} starts, outages, bans and the like not kept: what they explain is not`
  if (suggestions?.until)
    yield `suggestions: of the log up to ${suggestions.until}, more was too much to keep; none of who came later`
  for (const file of read.cutOff) yield `cut off: ${safe(file)}`
  if (log === undefined) {
    if (judged > 0) yield 'not our log: each request counts as admitted, but for 401 and 403'
    return
  }
  const causes = Object.entries(log.differs).filter(([, differing]) => differing > 0)
  const all = causes.reduce((sum, [, differing]) => sum + differing, 0)
  const why = causes.map(([cause, differing]) => `${cause} ${count(differing)}`).join(', ')
  yield `differs from the log: ${count(all)}${all === 0 ? '' : ` (${why})`}, same: ${count(log.same)}`
}
