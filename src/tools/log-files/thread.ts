/** The thread that open.ts starts: it reads logs into batches, whose buffers come back to be filled again. */
import { parentPort, workerData } from 'node:worker_threads'
import type { LogNote } from './batch.ts'
import { columnsOf, type Columns } from './columns.ts'
import { LogFileFault } from './fault.ts'
import type { LogFile } from './input.ts'
import { merge, type MergeOptions } from './merge.ts'
import { Names, TooManyNames } from './names.ts'
import { noCounts, type Counts } from './source.ts'

export interface ThreadData extends MergeOptions {
  readonly logs: readonly LogFile[]
  /** Buffers of the batches that go back and forth. */
  readonly buffers: readonly ArrayBuffer[]
}

export interface ThreadMessage {
  readonly counts: Counts
  /** Names that are new since the last message. */
  readonly names: readonly string[]
  readonly notes: readonly LogNote[]
  readonly batch?: { readonly buffer: ArrayBuffer; readonly count: number }
  readonly fault?: Pick<LogFileFault, 'file' | 'reason' | 'remedy'>
  readonly isEnd?: true
}

/** Progress interval while no batch is ready. */
const PROGRESS_MS = 200
const MAX_NOTES = 100_000

const { logs, buffers, ...options } = workerData as ThreadData
const port = parentPort as NonNullable<typeof parentPort>
const names = new Names()
const counts = noCounts()
let notes: LogNote[] = []
let noted = 0
const note = (line: LogNote): void => {
  if (noted++ < MAX_NOTES) notes.push(line)
  else counts.notesDropped++
}
const free = [...buffers]
let freed: ((buffer: ArrayBuffer) => void) | undefined

const empty = async (): Promise<Columns> => {
  const buffer = free.pop()
  return columnsOf(buffer ?? (await new Promise<ArrayBuffer>((resolve) => (freed = resolve))))
}
port.on('message', (buffer: ArrayBuffer) => {
  if (freed === undefined) free.push(buffer)
  else freed(buffer)
  freed = undefined
})

const post = (message: Partial<ThreadMessage>, transfer: ArrayBuffer[] = []): void => {
  port.postMessage({ counts, names: names.takeNew(), notes, ...message }, transfer)
  notes = []
}

/** Returns the fault of a log that this error means; throws any other error. */
function explain(error: unknown): LogFileFault {
  if (error instanceof LogFileFault) return error
  if (!(error instanceof TooManyNames)) throw error
  const reason = 'it has more names than there can be clients'
  return new LogFileFault(logs[0]?.file ?? '', reason, 'name the field that tells the client')
}

const timer = setInterval(() => post({}), PROGRESS_MS)
try {
  for await (const { columns, count } of merge(logs, { ...options, names, counts, note, empty })) {
    const buffer = columns.atMs.buffer as ArrayBuffer
    post({ batch: { buffer, count } }, [buffer])
  }
  post({ isEnd: true })
} catch (error) {
  const { file, reason, remedy } = explain(error)
  post({ fault: { file, reason, remedy } })
}
clearInterval(timer)
port.close()
