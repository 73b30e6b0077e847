/** Merges logs by time in bounded memory: a log is opened when its time has come, and is read no further than the others. */
import type { LogNote } from './batch.ts'
import type { Columns } from './columns.ts'
import type { Input, LogFile } from './input.ts'
import { LineReader } from './line-reader.ts'
import type { FieldNames } from './foreign-line.ts'
import type { Names } from './names.ts'
import { WaitingRows } from './queue.ts'
import type { RequestRow } from './row.ts'
import { noCounts, Source, type Counts, type SourceParts } from './source.ts'

/** Most requests that wait for earlier ones, some 40 MB; more of them shorten the window. */
const MAX_WAITING = 500_000
/** Up to so many logs are read in large chunks. */
const FEW_LOGS = 16
const LARGE_CHUNK_BYTES = 256 * 1024
const SMALL_CHUNK_BYTES = 32 * 1024
/** Bytes at the beginning of a log in which its first request is looked for. */
const LOOK_BYTES = 2 ** 20
/** Larger than any line number. */
const FILE_STEP = 2 ** 40

export interface MergeOptions {
  /** How many ms later than a request one that was decided before it may be logged. */
  readonly windowMs: number
  readonly fields: FieldNames | undefined
}

export interface Merging extends MergeOptions {
  readonly names: Names
  readonly counts: Counts
  note(note: LogNote): void
  /** Returns empty columns for the next batch. */
  empty(): Columns | Promise<Columns>
}

export interface Merged {
  readonly columns: Columns
  readonly count: number
}

interface Pending {
  readonly log: LogFile
  readonly firstMs: number
  readonly take: (row: RequestRow, line: number) => void
}

export async function* merge(logs: readonly LogFile[], merging: Merging): AsyncGenerator<Merged> {
  const { counts, names, windowMs } = merging
  const chunkBytes = logs.length > FEW_LOGS ? SMALL_CHUNK_BYTES : LARGE_CHUNK_BYTES
  const reader = new LineReader(names, merging.fields)
  const parts = { reader, counts, open: new Set<Input>(), chunkBytes, note: merging.note }
  const waiting = new WaitingRows()
  let releasedMs = -Infinity
  const pending: Pending[] = []
  for (const [file, log] of logs.entries()) {
    const firstMs = logs.length === 1 ? -Infinity : await firstMsOf(log, parts)
    const take = (row: RequestRow, line: number): void => {
      if (row.atMs < releasedMs) counts.late++
      waiting.add(row, file * FILE_STEP + line)
    }
    pending.push({ log, firstMs, take })
  }
  pending.sort((one, other) => one.firstMs - other.firstMs)
  const sources = new Set<Source>()
  let columns = await merging.empty()
  let count = 0
  try {
    while (sources.size + pending.length > 0) {
      const source = nextSource(sources, pending, parts)
      if (!(await source.pull())) sources.delete(source)
      const surelyMs = frontierOf(sources, pending) - windowMs
      while (waiting.firstMs < surelyMs || waiting.size > MAX_WAITING) {
        releasedMs = Math.max(releasedMs, waiting.firstMs)
        waiting.moveFirst(columns, count++)
        if (count < columns.atMs.length) continue
        yield { columns, count }
        columns = await merging.empty()
        count = 0
      }
    }
    yield { columns, count }
  } finally {
    for (const source of sources) await source.close()
  }
}

/** Returns the log that is furthest behind; one that is not open yet is at its first request. */
function nextSource(sources: Set<Source>, pending: Pending[], parts: SourceParts): Source {
  let least: Source | undefined
  for (const source of sources)
    if (least === undefined || source.positionMs < least.positionMs) least = source
  const [next] = pending
  if (next === undefined || (least !== undefined && least.positionMs < next.firstMs))
    return least as Source
  pending.shift()
  const opened = new Source(next.log, parts, next.take)
  opened.positionMs = next.firstMs
  sources.add(opened)
  return opened
}

/** The time that all logs have reached; an earlier request may only come within the window. */
function frontierOf(sources: Set<Source>, pending: readonly Pending[]): number {
  let least = pending[0]?.firstMs ?? Infinity
  for (const { positionMs } of sources) if (positionMs < least) least = positionMs
  return least
}

/** Unix time in ms of the first request. -Infinity: read the log at once; it is a stream, or has no request near its beginning. */
async function firstMsOf(log: LogFile, parts: SourceParts): Promise<number> {
  if (log.disk === undefined) return -Infinity
  const counts = noCounts()
  const chunkBytes = SMALL_CHUNK_BYTES
  const times: number[] = []
  const source = new Source(log, { ...parts, counts, chunkBytes, note: () => undefined }, (row) =>
    times.push(row.atMs),
  )
  while (times.length === 0 && counts.bytes < LOOK_BYTES && (await source.pull()));
  await source.close()
  return times.length === 0 ? -Infinity : Math.min(...times)
}
