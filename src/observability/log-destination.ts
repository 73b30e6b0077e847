/** Writes log lines to a file descriptor in batches, and never throws, blocks for good or grows without bound. */
import { write, writeSync } from 'node:fs'

const BATCH_CHARS = 16 * 1024
const FLUSH_AFTER_MS = 200
/** A reader that stands still costs this much memory, then lines. */
const PENDING_CHARS = 4 * 1024 * 1024
const RETRY_AFTER_MS = 20
const GIVE_UP_AFTER_MS = 1_000

const fullPipe = new Set(['EAGAIN', 'EBUSY'])
const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? ''

/**
 * sonic-boom, the destination of pino, is not used: its flushSync repeats a failed write for ever once
 * the reader of the descriptor is gone (EPIPE), which turns the end of a process into a hang.
 */
export class DescriptorDestination {
  readonly #fd: number
  /** Told once there is room again, with the number of lines that were not written. */
  readonly #dropped: (lines: number) => void
  /** Lines that no batch has taken yet. */
  #pending = ''
  /** Counted by write, told and set back by #finishBatch. */
  #droppedLines = 0
  /** When the batch under way began, as of flush; undefined once #finishBatch has ended it. */
  #writingSinceMs: number | undefined
  /** A flush came while a batch was under way. */
  #isFlushWanted = false
  /** A write has failed: whatever comes is let go. Never set back. */
  #isBroken = false
  /** Runs while lines are pending that do not fill a batch. */
  #timer: NodeJS.Timeout | undefined
  /** Set by close: called when nothing is pending or under way. */
  #idle: (() => void) | undefined

  constructor(fd: number, dropped: (lines: number) => void) {
    this.#fd = fd
    this.#dropped = dropped
  }

  /** One whole line or several, each with its end. */
  write(lines: string): void {
    if (this.#isBroken) return
    if (this.#pending.length > PENDING_CHARS) {
      this.#droppedLines += lines.split('\n').length - 1
      return
    }
    this.#pending += lines
    if (this.#pending.length >= BATCH_CHARS) this.flush()
    else this.#timer ??= setTimeout(() => this.flush(), FLUSH_AFTER_MS).unref()
  }

  /** Starts writing what is pending, without waiting for a full batch. */
  flush(): void {
    this.#stopTimer()
    this.#isFlushWanted = this.#writingSinceMs !== undefined
    if (this.#isFlushWanted || this.#pending === '') return
    this.#writingSinceMs = performance.now()
    this.#writeRest(this.#takePending())
  }

  /** Writes what is pending before it returns; gives up on a descriptor that does not take it. */
  flushSync(): void {
    this.#stopTimer()
    const nowMs = performance.now()
    // A blocking descriptor whose reader stands still would hold this process for as long.
    if (this.#isBroken || nowMs - (this.#writingSinceMs ?? nowMs) > GIVE_UP_AFTER_MS) return
    let rest = this.#takePending()
    const giveUpAtMs = nowMs + GIVE_UP_AFTER_MS
    while (rest.length > 0 && performance.now() < giveUpAtMs) {
      try {
        rest = rest.subarray(writeSync(this.#fd, rest))
      } catch (error) {
        this.#isBroken = !fullPipe.has(codeOf(error))
        if (this.#isBroken) return
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_AFTER_MS)
      }
    }
  }

  /** Resolves when everything is written, or after a second if the descriptor does not take it. */
  close(): Promise<void> {
    return new Promise((resolve) => {
      const giveUp = setTimeout(resolve, GIVE_UP_AFTER_MS)
      this.#idle = () => {
        clearTimeout(giveUp)
        resolve()
      }
      this.#flushThenIdle()
    })
  }

  #takePending(): Buffer {
    const lines = Buffer.from(this.#pending)
    this.#pending = ''
    return lines
  }

  #stopTimer(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #writeRest(batch: Buffer): void {
    write(this.#fd, batch, (error, written) => {
      if (error !== null && fullPipe.has(codeOf(error))) {
        setTimeout(() => this.#writeRest(batch), RETRY_AFTER_MS).unref()
        return
      }
      if (error !== null) this.#isBroken = true
      else if (written < batch.length) return this.#writeRest(batch.subarray(written))
      this.#finishBatch()
    })
  }

  #finishBatch(): void {
    this.#writingSinceMs = undefined
    if (this.#isBroken) this.#pending = ''
    if (this.#isFlushWanted || this.#pending.length >= BATCH_CHARS) this.flush()
    // After flush(), which made room for the line that tells it.
    if (this.#droppedLines > 0 && !this.#isBroken) {
      const lines = this.#droppedLines
      this.#droppedLines = 0
      this.#dropped(lines)
    }
    if (this.#idle !== undefined) this.#flushThenIdle()
  }

  #flushThenIdle(): void {
    this.flush()
    if (this.#writingSinceMs === undefined) this.#idle?.()
  }
}
