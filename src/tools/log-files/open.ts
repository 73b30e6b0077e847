/** Opens access logs, whose requests come in the order of decision. */
import type { FieldNames } from './foreign-line.ts'
import { findLogs } from './input.ts'
import { createLineReader, type LogNote } from './lines.ts'
import { merge } from './merge.ts'
import type { RequestRow } from './row.ts'
import { noCounts, type Counts } from './source.ts'

export interface LogOptions {
  /** How many ms later than a request one that was decided before it may be logged. Default 60,000. */
  readonly windowMs?: number
  /** Fields of JSON logs of other servers, and of the combined format. undefined: JSON lines are Tollgate's. */
  readonly fields?: FieldNames | undefined
}

export interface LogReading extends Readonly<Counts> {
  readonly files: readonly string[]
  /** Size of all files on disk; undefined if one is a stream. */
  readonly totalBytes: number | undefined
}

export interface OpenedLogs {
  readonly reading: LogReading
  /** Notes, up to a bound. A note stands here before the requests that follow it in its file. */
  readonly notes: readonly LogNote[]
  /** Requests, some at a time; `atMs` ascends, except where one came later than the window allows. Throws a LogFileFault for a log that cannot be read. */
  batches(): AsyncIterable<readonly RequestRow[]>
}

const WINDOW_MS = 60_000
const MAX_NOTES = 100_000

/** Throws a LogFileFault for a log that does not exist. */
export function openLogs(
  files: readonly string[],
  { windowMs = WINDOW_MS, fields }: LogOptions = {},
): OpenedLogs {
  const logs = findLogs(files)
  const counts = noCounts()
  const notes: LogNote[] = []
  const note = (line: LogNote): void => {
    if (notes.length < MAX_NOTES) notes.push(line)
    else counts.notesDropped++
  }
  const disks = logs.map(({ disk }) => disk?.bytes)
  const totalBytes = disks.includes(undefined)
    ? undefined
    : disks.reduce((sum: number, bytes = 0) => sum + bytes, 0)
  return {
    notes,
    get reading() {
      return { files, totalBytes, ...counts }
    },
    batches: () => merge(logs, { windowMs, read: createLineReader(fields), counts, note }),
  }
}
