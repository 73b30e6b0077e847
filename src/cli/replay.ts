/** `tollgate replay`: shows how other limits would have decided yesterday's traffic. */
import { basename } from 'node:path'
import { compact, count, plural, sum } from '../insight/format.js'
import { duration } from '../config/scalars.ts'
import { windowNames } from '../config/time.ts'
import { loadConfig } from '../config/clients/load.ts'
import { openLogs, type LogReading } from '../tools/log-files/open.ts'
import { reportPage } from '../tools/replay/html/page.ts'
import { replay } from '../tools/replay/replay.ts'
import type { ReplayReport } from '../tools/replay/report.ts'
import * as tables from '../tools/replay/tables.ts'
import { moreOf } from '../tools/replay/counts.ts'
import { Fault, readOption, usageFault } from './terminal/fault.ts'
import { lookOf, safe, type Look } from './terminal/look.ts'
import { writePage } from './terminal/page-file.ts'
import { table } from './terminal/table.ts'
import type { Edge, Texts } from './edge.ts'

type FieldOptions = Texts<'clientField' | 'timeField' | 'statusField'>

interface ReplayCommandOptions extends FieldOptions, Texts<'against' | 'window' | 'html'> {
  readonly config: string
  readonly logs: readonly string[]
  readonly suggest?: boolean
  /** Share of a plan's requests that suggested limits may refuse, 1 being all. */
  readonly refused?: number
  readonly json?: boolean
}

const REFUSED_SHARE = 0.01

const SHOWN_EVERY_MS = 200

export async function replayCommand(edge: Edge, options: ReplayCommandOptions): Promise<void> {
  const { clientField: client, timeField: time, statusField: status } = options
  if (client === undefined && (time ?? status) !== undefined)
    throw usageFault('--time-field and --status-field are of JSON that needs --client-field')
  const windowMs = readOption('window', duration('0ms', '1d'), options.window)
  if (options.refused !== undefined && !options.suggest)
    throw usageFault('--refused needs --suggest')
  const config = await loadConfig(options.config, edge.env)
  const against =
    options.against === undefined ? undefined : await loadConfig(options.against, edge.env)
  const logs = openLogs(options.logs, {
    ...(windowMs !== undefined && { windowMs }),
    ...(client !== undefined && { fields: { client, time, status } }),
  })
  const progress = createProgress(edge, () => logs.reading)
  const share = options.suggest ? (options.refused ?? REFUSED_SHARE) : undefined
  const replayed = replay({ config, against, logs, progress, share })
  await printReport(edge, options, await replayed.finally(() => edge.progress?.('')))
}

async function printReport(
  edge: Edge,
  options: ReplayCommandOptions,
  report: ReplayReport,
): Promise<void> {
  const { read, requests, notJudged, unknownClients, suggestions, before } = report
  const look = lookOf(edge)
  const lines = look === undefined ? programTable(report) : personText(report, look)
  if (options.json) edge.print(JSON.stringify(report, undefined, 2))
  else {
    for await (const line of lines) edge.print(line)
    if (look === undefined) {
      if (suggestions !== undefined && before !== undefined)
        edge.complain(
          'a pipe gets the suggestions alone; the comparison: without --suggest, or --json',
        )
      for (const line of remarks(report)) edge.complain(line)
    }
  }
  // The page comes last: the result is printed even where no file can be written.
  if (options.html !== undefined) writePage(edge, options.html, pageOf(edge, options, report))
  const first = read.firstUnreadable
  if (requests + notJudged + unknownClients.requests > 0 || first === null) return
  throw new Fault('unreadable', 'no line of the logs can be read', {
    reason: `line ${first.line} of ${first.file} ${first.why}`,
    remedy: 'for JSON of others name its fields: --client-field, --time-field',
  })
}

function pageOf({ version }: Edge, of: ReplayCommandOptions, report: ReplayReport): string {
  const against = of.against && basename(of.against)
  const made = { version, madeAtMs: Date.now(), remarks: [...remarks(report)] }
  return reportPage(report, { config: basename(of.config), against, ...made })
}

/** One line on a terminal, such as `replay 62%  6.2M of 10.0M lines  214k/s  18 s left`. */
function createProgress({ progress }: Edge, reading: () => LogReading): () => void {
  const startedMs = performance.now()
  let shownMs = startedMs
  return () => {
    const nowMs = performance.now()
    if (progress === undefined || nowMs - shownMs < SHOWN_EVERY_MS) return
    shownMs = nowMs
    progress(progressLine(reading(), nowMs - startedMs))
  }
}

function progressLine({ lines, readBytes, totalBytes }: LogReading, passedMs: number): string {
  const rate = `${compact(lines / (passedMs / 1000))}/s`
  if (totalBytes === undefined || readBytes === 0) return `replay  ${compact(lines)} lines  ${rate}`
  const share = Math.min(1, readBytes / totalBytes)
  const leftSeconds = Math.ceil(((passedMs / share) * (1 - share)) / 1000)
  const all = compact(lines / share)
  return `replay ${Math.floor(share * 100)}%  ${compact(lines)} of ${all} lines  ${rate}  ${count(leftSeconds)} s left`
}

/** Number of clients that a person is shown. */
const MOST_SHOWN = 20

const refusedMore = ({ clients }: ReplayReport) => clients.filter((client) => moreOf(client) > 0)

/** A program gets one table: that of the suggestions, with a line for each client, where they are wanted. */
const programTable = (report: ReplayReport): AsyncGenerator<string> =>
  report.suggestions === undefined
    ? table(tables.clientColumns(report, false), refusedMore(report), undefined)
    : table(tables.suggestedColumns, report.clients, undefined)

async function* personText(report: ReplayReport, look: Look): AsyncGenerator<string> {
  const hit = refusedMore(report)
  const { columns, rows } = tables.outcomeTable(report)
  yield headline(report)
  yield* table(columns, rows, look)
  yield tables.verdict(report) + (hit.length === 0 ? '' : ' Most:')
  yield* table(tables.clientColumns(report, false), hit.slice(0, MOST_SHOWN), look)
  yield* remarks(report)
  yield* suggestionLines(report, look)
}

function headline({ requests, from, to, read }: ReplayReport): string {
  const days = [...new Set([from, to].flatMap((at) => at?.slice(0, 10) ?? []))]
  const { firstUnreadable: first, unreadable } = read
  const where = first && `${read.files.length > 1 ? `${first.file} ` : ''}line ${first.line}`
  const bad = where && `; ${count(unreadable)} unreadable (first: ${where})`
  const when = days.length === 0 ? '' : `, ${days.join(' to ')}`
  return `${plural(requests, 'request')}${when}${bad ?? ''}`
}

async function* suggestionLines(
  { clients, suggestions }: ReplayReport,
  look: Look,
): AsyncGenerator<string> {
  if (suggestions === undefined) return
  const { columns, rows } = tables.limitsTable(suggestions)
  yield `Busiest ${windowNames.join(' and ')} of ${plural(clients.length, 'client')}, and limits at which ${tables.percentOf(suggestions.share)} is refused:`
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
  const all = sum(log.differs)
  const why = causes.map(([cause, differing]) => `${cause} ${count(differing)}`).join(', ')
  yield `differs from the log: ${count(all)}${all === 0 ? '' : ` (${why})`}, same: ${count(log.same)}`
}
