/** Reads access logs in a thread of their own, so that the replay has another core. Requests come as columns, in the order of decision. */
import { on } from 'node:events'
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import type { LogBatch, LogNote, LogReading, OpenedLogs } from './batch.ts'
import { BATCH_BYTES, columnsOf } from './columns.ts'
import { LogFileFault } from './fault.ts'
import type { FieldNames } from './foreign-line.ts'
import { findLogs } from './input.ts'
import { noCounts, type Counts } from './source.ts'
import type { ThreadData, ThreadMessage } from './thread.ts'

export interface LogOptions {
  /** How many ms later than a request one that was decided before it may be logged. Default 60,000. */
  readonly windowMs?: number
  /** Fields of JSON logs of other servers, and of the combined format. undefined: JSON lines are Tollgate's. */
  readonly fields?: FieldNames | undefined
}

const WINDOW_MS = 60_000
/** Heap of the thread; names take most of it. */
const HEAP_MB = 768
/** Batches on their way between the threads. */
const BATCHES = 3

/** Throws a LogFileFault for a log that does not exist; batches() throws one for a log that cannot be read. */
export function openLogs(files: readonly string[], options: LogOptions = {}): OpenedLogs {
  const { windowMs = WINDOW_MS, fields } = options
  const logs = findLogs(files)
  const buffers = Array.from({ length: BATCHES }, () => new ArrayBuffer(BATCH_BYTES))
  const workerData: ThreadData = { logs, windowMs, fields, buffers }
  // The program has the same extension as this file, in the source and in the build.
  const program = new URL(`./thread${extname(import.meta.filename)}`, import.meta.url)
  const thread = new Worker(program, {
    workerData,
    transferList: buffers,
    resourceLimits: { maxOldGenerationSizeMb: HEAP_MB },
  })
  const messages = on(thread, 'message', { close: ['exit'] }) as AsyncIterable<[ThreadMessage]>
  const names: string[] = []
  const notes: LogNote[] = []
  let counts: Counts = noCounts()
  const disks = logs.map(({ disk }) => disk?.bytes)
  const totalBytes = disks.includes(undefined)
    ? undefined
    : disks.reduce((sum: number, bytes = 0) => sum + bytes, 0)

  async function* batches(): AsyncGenerator<LogBatch, void> {
    for await (const [message] of messages) {
      counts = message.counts
      for (const name of message.names) names.push(name)
      for (const note of message.notes) notes.push(note)
      const { batch, fault, isEnd } = message
      if (fault !== undefined) throw new LogFileFault(fault.file, fault.reason, fault.remedy)
      if (isEnd === true) return
      if (batch === undefined) continue
      yield { count: batch.count, ...columnsOf(batch.buffer) }
      thread.postMessage(batch.buffer, [batch.buffer])
    }
  }

  return {
    names,
    notes,
    get reading(): LogReading {
      return { files, totalBytes, ...counts }
    },
    batches,
    close: async () => void (await thread.terminate()),
  }
}
