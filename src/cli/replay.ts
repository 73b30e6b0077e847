/** `tollgate replay`: shows how other limits would have decided yesterday's traffic. */
import { basename } from 'node:path'
import { compact, count } from '../insight/format.js'
import { day, duration } from '../config/scalars.ts'
import { loadConfig } from '../config/clients/load.ts'
import { openLogs, type LogReading } from '../tools/log-files/open.ts'
import { reportPage } from '../tools/replay/html/page.ts'
import { replay } from '../tools/replay/replay.ts'
import type { ReplayReport } from '../tools/replay/report.ts'
import { Fault, readOption, usageFault } from './terminal/fault.ts'
import { lookOf } from './terminal/look.ts'
import { writePage } from './terminal/page-file.ts'
import type { Edge } from './edge.ts'
import { remarks, replayText, suggestionLines } from './replay-text.ts'

interface ReplayCommandOptions {
  readonly config: string
  readonly against?: string
  readonly logs: readonly string[]
  readonly clientField?: string
  readonly timeField?: string
  readonly statusField?: string
  readonly window?: string
  /** File for the report as a page. */
  readonly html?: string
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
  const windowMs = readOption('window', duration({ min: 0, max: day }), options.window)
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
  const { read, requests, notJudged, unknownClients, suggestions } = report
  const look = lookOf(edge)
  if (options.json) edge.print(JSON.stringify(report, undefined, 2))
  else {
    // A program gets one table.
    const isBoth = look !== undefined || suggestions === undefined
    if (!isBoth && report.before !== undefined)
      edge.complain(
        'a pipe gets the suggestions alone; the comparison: without --suggest, or --json',
      )
    if (isBoth) for await (const line of replayText(report, look)) edge.print(line)
    for await (const line of suggestionLines(report, look)) edge.print(line)
    if (look === undefined) for (const line of remarks(report)) edge.complain(line)
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
  const versus = of.against === undefined ? {} : { against: basename(of.against) }
  const made = { version, madeAtMs: Date.now(), remarks: [...remarks(report)] }
  return reportPage(report, { config: basename(of.config), ...versus, ...made })
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

export function progressLine(
  { lines, readBytes, totalBytes }: Pick<LogReading, 'lines' | 'readBytes' | 'totalBytes'>,
  passedMs: number,
): string {
  const rate = `${compact(lines / (passedMs / 1000))}/s`
  if (totalBytes === undefined || readBytes === 0) return `replay  ${compact(lines)} lines  ${rate}`
  const share = Math.min(1, readBytes / totalBytes)
  const leftSeconds = Math.ceil(((passedMs / share) * (1 - share)) / 1000)
  const all = compact(lines / share)
  return `replay ${Math.floor(share * 100)}%  ${compact(lines)} of ${all} lines  ${rate}  ${count(leftSeconds)} s left`
}
