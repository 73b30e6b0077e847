/** The thread that open.ts starts: reads logs and hands over batches, as long as they come back. */
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
  /** Room of the batches that go back and forth. */
  readonly buffers: readonly ArrayBuffer[]
}

export interface ThreadMessage {
  readonly counts: Counts
  /** That came since the last message. */
  readonly names: readonly string[]
  readonly notes: readonly LogNote[]
  readonly batch?: { readonly buffer: ArrayBuffer; readonly count: number }
  readonly fault?: Pick<LogFileFault, 'file' | 'reason' | 'remedy'>
  readonly isEnd?: true
}

/** In which the reading is told of where no batch comes. */
const TELL_MS = 200
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

const room = async (): Promise<Columns> => {
  const buffer = free.pop()
  return columnsOf(buffer ?? (await new Promise<ArrayBuffer>((resolve) => (freed = resolve))))
}
port.on('message', (buffer: ArrayBuffer) => {
  if (freed === undefined) free.push(buffer)
  else freed(buffer)
  freed = undefined
})

const tell = (message: Partial<ThreadMessage>, transfer: ArrayBuffer[] = []): void => {
  port.postMessage({ counts, names: names.takeNew(), notes, ...message }, transfer)
  notes = []
}

/** Throws what is a fault of ours. */
function explain(error: unknown): LogFileFault {
  if (error instanceof LogFileFault) return error
  if (!(error instanceof TooManyNames)) throw error
  const reason = 'it has more names than there can be clients'
  return new LogFileFault(logs[0]?.file ?? '', reason, 'name the field that tells the client')
}

const timer = setInterval(() => tell({}), TELL_MS)
try {
  for await (const { columns, count } of merge(logs, { ...options, names, counts, note, room })) {
    const buffer = columns.atMs.buffer as ArrayBuffer
    tell({ batch: { buffer, count } }, [buffer])
  }
  tell({ isEnd: true })
} catch (error) {
  const { file, reason, remedy } = explain(error)
  tell({ fault: { file, reason, remedy } })
}
clearInterval(timer)
port.close()
