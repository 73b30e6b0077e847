/** Writes log lines to a file descriptor in batches, and never throws, blocks for good or grows without bound. */
import { write, writeSync } from 'node:fs'

export interface LogDestination {
  /** One whole line or several, each with its end. */
  write(lines: string): void
  /** Starts writing what is pending, without waiting for a full batch. */
  flush(): void
  /** Writes what is pending before it returns; gives up on a descriptor that does not take it. */
  flushSync(): void
  /** Resolves when everything is written, or after a second if the descriptor does not take it. */
  close(): Promise<void>
}

const BATCH_CHARS = 16 * 1024
const FLUSH_AFTER_MS = 200
/** A reader that stands still costs this much memory, then lines. */
const PENDING_CHARS = 4 * 1024 * 1024
const RETRY_AFTER_MS = 20
const GIVE_UP_AFTER_MS = 1_000

const fullPipe = new Set(['EAGAIN', 'EBUSY'])
const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? ''

/**
 * `dropped` is called once there is room again, with the number of lines that were not written.
 * pino's own destination is not used: its flushSync repeats a failed write for ever once the reader
 * of the descriptor is gone (EPIPE), which turns the end of a process into a hang.
 */
export function createLogDestination(fd: number, dropped: (lines: number) => void): LogDestination {
  let pending = ''
  let droppedLines = 0
  /** When the write under way began; undefined while there is none. */
  let writingSinceMs: number | undefined
  let flushWanted = false
  let broken = false
  let timer: NodeJS.Timeout | undefined
  let idle: (() => void) | undefined

  function writeLines(lines: string): void {
    if (broken) return
    if (pending.length > PENDING_CHARS) {
      droppedLines += lines.split('\n').length - 1
      return
    }
    pending += lines
    if (pending.length >= BATCH_CHARS) flush()
    else timer ??= setTimeout(flush, FLUSH_AFTER_MS).unref()
  }

  function flush(): void {
    clearTimeout(timer)
    timer = undefined
    flushWanted = writingSinceMs !== undefined
    if (flushWanted || pending === '') return
    writingSinceMs = performance.now()
    const batch = Buffer.from(pending)
    pending = ''
    writeRest(batch)
  }

  function writeRest(batch: Buffer): void {
    write(fd, batch, (error, written) => {
      if (error !== null && !fullPipe.has(codeOf(error))) broken = true
      else if (error !== null) return void setTimeout(writeRest, RETRY_AFTER_MS, batch).unref()
      else if (written < batch.length) return writeRest(batch.subarray(written))
      finishBatch()
    })
  }

  function finishBatch(): void {
    writingSinceMs = undefined
    if (broken) pending = ''
    if (flushWanted || pending.length >= BATCH_CHARS) flush()
    // After flush(), which made room for the line that tells it.
    if (droppedLines > 0 && !broken) {
      const lines = droppedLines
      droppedLines = 0
      dropped(lines)
    }
    if (idle === undefined) return
    flush()
    if (writingSinceMs === undefined) idle()
  }

  function flushSync(): void {
    clearTimeout(timer)
    timer = undefined
    const stalledMs = writingSinceMs === undefined ? 0 : performance.now() - writingSinceMs
    // A blocking descriptor whose reader stands still would hold this process for as long.
    if (broken || stalledMs > GIVE_UP_AFTER_MS) return
    let rest = Buffer.from(pending)
    pending = ''
    const giveUpAtMs = performance.now() + GIVE_UP_AFTER_MS
    while (rest.length > 0 && performance.now() < giveUpAtMs) {
      try {
        rest = rest.subarray(writeSync(fd, rest))
      } catch (error) {
        if (!fullPipe.has(codeOf(error))) {
          broken = true
          return
        }
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_AFTER_MS)
      }
    }
  }

  function close(): Promise<void> {
    return new Promise((resolve) => {
      const giveUp = setTimeout(resolve, GIVE_UP_AFTER_MS)
      idle = () => {
        clearTimeout(giveUp)
        resolve()
      }
      flush()
      if (writingSinceMs === undefined) idle()
    })
  }

  return { write: writeLines, flush, flushSync, close }
}
