/** Opens access logs and merges them by time in bounded memory: a log is opened when its time has come, and is read no further than the others. */
import { sum } from '../../insight/format.js'
import type { FieldNames } from './foreign-line.ts'
import { findLogs, readLines, type LogFile, type ReadCounts } from './input.ts'
import { createLineReader, type LogNote } from './lines.ts'
import type { RequestRow } from './row.ts'

export interface LogOptions {
  /** How many ms later than a request one that was decided before it may be logged. Default 60,000. */
  readonly windowMs?: number
  /** Fields of JSON logs of other servers, and of the combined format. undefined: JSON lines are Tollgate's. */
  readonly fields?: FieldNames | undefined
}

interface Counts extends ReadCounts {
  lines: number
  /** Lines of Tollgate that are no requests, such as starts and reloads. */
  otherLines: number
  unreadable: number
  firstUnreadable: { readonly file: string; readonly line: number; readonly why: string } | null
  /** Requests that came later than the window allows; they are taken when they come. */
  late: number
  /** Notes beyond the bound of `notes`; differences that they explain may stay unexplained. */
  notesDropped: number
}

export interface LogReading extends Readonly<Counts> {
  readonly files: readonly string[]
  /** Size of all files on disk; undefined if one is a stream. */
  readonly totalBytes: number | undefined
}

export type OpenedLogs = ReturnType<typeof openLogs>

const WINDOW_MS = 60_000
const MAX_NOTES = 100_000
/** Most requests that wait for earlier ones, some 250 MB; more of them shorten the window. */
const MAX_WAITING = 500_000
/** Bytes at the beginning of a log in which its first request is looked for. */
const LOOK_BYTES = 2 ** 20

/** Throws a Fault for a log that does not exist. */
export function openLogs(
  files: readonly string[],
  { windowMs = WINDOW_MS, fields }: LogOptions = {},
) {
  const logs = findLogs(files)
  const counts = noCounts()
  const notes: LogNote[] = []
  const note = (line: LogNote): void => {
    if (notes.length < MAX_NOTES) notes.push(line)
    else counts.notesDropped++
  }
  const sizes = logs.flatMap(({ bytes }) => bytes ?? [])
  const totalBytes = sizes.length < logs.length ? undefined : sum(sizes)
  return {
    /** Notes, up to a bound. A note stands here before the requests that follow it in its file. */
    notes: notes as readonly LogNote[],
    get reading(): LogReading {
      return { files, totalBytes, ...counts }
    },
    /** Requests, some at a time; `atMs` ascends, except where one came later than the window allows. Throws a Fault for a log that cannot be read. */
    batches: () => merge(logs, windowMs, { read: createLineReader(fields), counts, note }),
  }
}

const noCounts = (): Counts => ({
  readBytes: 0,
  lines: 0,
  otherLines: 0,
  unreadable: 0,
  firstUnreadable: null,
  late: 0,
  notesDropped: 0,
  cutOff: [],
})

/** Yields requests in the order of decision, some at a time. windowMs: how many ms later than a request one that was decided before it may be logged. */
async function* merge(
  logs: readonly LogFile[],
  windowMs: number,
  options: Omit<SourceParts, 'take'>,
): AsyncGenerator<readonly RequestRow[], void> {
  let waiting: RequestRow[] = []
  let releasedMs = -Infinity
  const take = (row: RequestRow): void => {
    if (row.atMs < releasedMs) options.counts.late++
    waiting.push(row)
  }
  const parts = { ...options, take }
  const sources: Sources = new Map()
  for (const log of logs) {
    const firstMs = logs.length === 1 ? -Infinity : await firstMsOf(log, parts)
    sources.set(readLog(log, parts, firstMs), firstMs)
  }
  let left = 0
  try {
    for (let next = furthestBehind(sources); next; next = furthestBehind(sources)) {
      const [source] = next
      const { value, done } = await source.next()
      if (done === true) sources.delete(source)
      else sources.set(source, value)
      // Rows are sorted when twice as many wait as were left, so each is sorted only a few times.
      if (waiting.length < Math.min(2 * left, MAX_WAITING)) continue
      waiting.sort(inOrder)
      // All logs have reached this time; an earlier request may only come within the window.
      const surelyMs = (furthestBehind(sources)?.[1] ?? Infinity) - windowMs
      let count = waiting.length < MAX_WAITING ? 0 : MAX_WAITING / 2
      while ((waiting[count]?.atMs ?? Infinity) < surelyMs) count++
      releasedMs = Math.max(releasedMs, waiting[count - 1]?.atMs ?? -Infinity)
      yield waiting.slice(0, count)
      waiting = waiting.slice(count)
      left = waiting.length
    }
    yield waiting.sort(inOrder)
  } finally {
    for (const source of sources.keys()) await source.return()
  }
}

/** Rows are nearly in order, which the engine's sort makes use of. Where times are the same it keeps their order. */
const inOrder = (one: RequestRow, other: RequestRow): number => one.atMs - other.atMs

/** Unix time in ms when the last request that was read of each was written; before the first, that of the first one. */
type Sources = Map<ReturnType<typeof readLog>, number>

function furthestBehind(sources: Sources) {
  let least: readonly [ReturnType<typeof readLog>, number] | undefined
  for (const source of sources) if (least === undefined || source[1] < least[1]) least = source
  return least
}

/** Unix time in ms of the first request. -Infinity: read the log at once; it is a stream, or has no request near its beginning. */
async function firstMsOf(log: LogFile, parts: SourceParts): Promise<number> {
  if (log.bytes === undefined) return -Infinity
  const counts = noCounts()
  const times: number[] = []
  const take = (row: RequestRow): void => void times.push(row.atMs)
  const source = readLog(log, { ...parts, counts, take, note: () => undefined }, -Infinity)
  while (times.length === 0 && counts.readBytes < LOOK_BYTES && !(await source.next()).done);
  await source.return()
  return times.length === 0 ? -Infinity : Math.min(...times)
}

interface SourceParts {
  readonly read: ReturnType<typeof createLineReader>
  readonly counts: Counts
  readonly take: (row: RequestRow) => void
  readonly note: (note: LogNote) => void
}

/** Reads one log chunk by chunk: requests and notes are handed over, other lines are counted. Yields after each chunk when its last request was written. The log is opened with the first chunk. */
async function* readLog(
  log: LogFile,
  parts: SourceParts,
  firstMs: number,
): AsyncGenerator<number, void> {
  const { counts, read, take, note } = parts
  const lines = readLines(log, counts)
  let [positionMs, lineNumber, isLastUnreadable] = [firstMs, 0, false]
  const readLine = (text: string): void => {
    const line = read(text)
    counts.lines++
    lineNumber++
    isLastUnreadable = typeof line === 'string'
    if (line === undefined) counts.otherLines++
    else if (typeof line === 'string') {
      counts.unreadable++
      counts.firstUnreadable ??= { file: log.file, line: lineNumber, why: line }
    } else if ('event' in line) {
      counts.otherLines++
      note(line)
    } else {
      positionMs = line.writtenMs
      take(line)
    }
  }
  try {
    let next = await lines.next()
    for (; next.done !== true; next = await lines.next()) {
      for (const text of next.value) readLine(text)
      yield positionMs
    }
    // An unreadable last line without a newline was cut off.
    const { cutOff } = counts
    if (next.value && isLastUnreadable && !cutOff.includes(log.file)) cutOff.push(log.file)
  } finally {
    await lines.return(false)
  }
}
