/** Many logs as one, by time, in bounded memory: a log is opened when its time has come, and read no further than the others are. */
import type { LogNote } from './batch.ts'
import type { Columns } from './columns.ts'
import type { Input, LogFile } from './input.ts'
import { LineReader } from './line-reader.ts'
import type { FieldNames } from './foreign-line.ts'
import type { Names } from './names.ts'
import { WaitingRows } from './queue.ts'
import type { Row } from './row.ts'
import { noCounts, Source, type Counts, type SourceParts } from './source.ts'

/** Requests that wait for others that may come before them: some 40 MB of them. More shorten the window. */
const MAX_WAITING = 500_000
/** So many logs of one time are read in large pieces. */
const FEW_LOGS = 16
const LARGE_CHUNK_BYTES = 256 * 1024
const SMALL_CHUNK_BYTES = 32 * 1024
/** Of the beginning of a log, in which a request is looked for. */
const LOOK_BYTES = 2 ** 20
/** Above any number of a line. */
const FILE_STEP = 2 ** 40

export interface MergeOptions {
  /** How much later than a request one may come that was decided before it. */
  readonly windowMs: number
  readonly fields: FieldNames | undefined
}

export interface Merging extends MergeOptions {
  readonly names: Names
  readonly counts: Counts
  note(note: LogNote): void
  /** Where the next batch may be put. */
  room(): Columns | Promise<Columns>
}

export interface Merged {
  readonly columns: Columns
  readonly count: number
}

interface Pending {
  readonly log: LogFile
  readonly firstMs: number
  readonly take: (row: Row, line: number) => void
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
    const take = (row: Row, line: number): void => {
      if (row.atMs < releasedMs) counts.late++
      waiting.add(row, file * FILE_STEP + line)
    }
    pending.push({ log, firstMs, take })
  }
  pending.sort((one, other) => one.firstMs - other.firstMs)
  const sources = new Set<Source>()
  let columns = await merging.room()
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
        columns = await merging.room()
        count = 0
      }
    }
    yield { columns, count }
  } finally {
    for (const source of sources) await source.close()
  }
}

/** That is behind all others; one that has not been opened is where it begins. */
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

/** Before which nothing comes, but for the window. */
function frontierOf(sources: Set<Source>, pending: readonly Pending[]): number {
  let least = pending[0]?.firstMs ?? Infinity
  for (const { positionMs } of sources) if (positionMs < least) least = positionMs
  return least
}

/** -Infinity: it is read at once, as it is a stream or tells no time soon. */
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
