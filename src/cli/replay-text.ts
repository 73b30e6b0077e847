/** The result of a replay and what it suggests, for a person, or for a program that reads tables. */
import { count, plural } from '../insight/format.js'
import * as tables from '../tools/replay/tables.ts'
import { moreOf } from '../tools/replay/totals.ts'
import type { ReplayReport } from '../tools/replay/report.ts'
import { safe, type Look } from './terminal/look.ts'
import { table } from './terminal/table.ts'

/** Number of clients that a person is shown. */
const MOST_SHOWN = 20

/** look: undefined for a program. */
export async function* replayText(
  report: ReplayReport,
  look: Look | undefined,
): AsyncGenerator<string> {
  const hit = report.clients.filter((client) => moreOf(client) > 0)
  const clientColumns = tables.clientColumns(report, false)
  if (look === undefined) {
    yield* table(clientColumns, hit, look)
    return
  }
  const { columns, rows } = tables.outcomeTable(report)
  yield headline(report)
  yield* table(columns, rows, look)
  yield tables.verdict(report) + (hit.length === 0 ? '' : ' Most:')
  yield* table(clientColumns, hit.slice(0, MOST_SHOWN), look)
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

/** look: undefined for a program, which gets a line for each client. */
export async function* suggestionLines(
  { clients, suggestions }: ReplayReport,
  look: Look | undefined,
): AsyncGenerator<string> {
  if (suggestions === undefined) return
  if (look === undefined) {
    yield* table(tables.suggestedColumns, clients, look)
    return
  }
  const { columns, rows } = tables.limitsTable(suggestions)
  yield `Busiest minute and day of ${plural(clients.length, 'client')}, and limits at which ${tables.percentOf(suggestions.share)} is refused:`
  yield* table(columns, rows, look)
  const others = clients.filter(({ plan, suggest }) => suggest !== plan)
  yield `${count(others.length)} of ${plural(clients.length, 'client')} would need another plan, or a smaller one would do:`
  yield* table(tables.suggestedColumns, others.slice(0, MOST_SHOWN), look)
  if (others.length > MOST_SHOWN)
    yield `${count(others.length - MOST_SHOWN)} more: into a pipe, all are written`
}

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
