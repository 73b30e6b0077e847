/** Writes log lines to a file descriptor in batches, and never throws, blocks for good or grows without bound. */
import { fstatSync, write, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { endedWithin } from '../../state/timers.ts'

const writeTo = promisify(write)

const BATCH_BYTES = 16 * 1024
const BLOCK_BYTES = 24 * 1024
const FLUSH_AFTER_MS = 200
/** Bytes that wait at most for a reader that stands still, or a disk that is full; further lines are dropped. */
const PENDING_BYTES = 4 * 1024 * 1024
const RETRY_AFTER_MS = 20
/** Pause before the next attempt after the disk has refused lines. */
const RETRY_DISK_AFTER_MS = 1_000
const GIVE_UP_AFTER_MS = 1_000
/** Bytes that a pipe takes whole in one write, whatever other processes write (PIPE_BUF of Linux, pipe(7)); so does a local socket. */
const WHOLE_BYTES = 4_096

const fullPipe = new Set(['EAGAIN', 'EBUSY'])
/** The descriptor is closed, or its reader is gone: nothing will ever be written to it again. */
const final = new Set(['EPIPE', 'EBADF'])
const codeOf = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? String(error)

const NEWLINE = 0x0a

/**
 * sonic-boom, the destination of pino, is not used: its flushSync repeats a failed write for ever once
 * the reader of the descriptor is gone (EPIPE), which turns the end of a process into a hang.
 */
export class DescriptorDestination {
  readonly #fd: number
  /** Returns the line that names so many lost lines; '' where lines of its level are off. */
  readonly #lineOfLost: (lines: number) => string
  /** Most bytes of one write, unless a single line is longer. */
  readonly #mostBytes: number
  /** Its first #pendingBytes are lines that no batch has taken yet: strings that wait would be garbage of the heap. */
  #block = Buffer.allocUnsafeSlow(BLOCK_BYTES)
  #pendingBytes = 0
  /** Lines lost since the start: there was no room in memory, or the descriptor took nothing to the end. Written by #lose. */
  lostLines = 0
  /** How many of them lines of the log have named. Written by #takePending. */
  #named = 0
  /** Writes one batch after the other; undefined: none is under way. */
  #running: Promise<void> | undefined
  /** What is pending is written after the batch under way, even if it does not fill a batch. */
  #isDue = false
  /** When the batch under way began; undefined: there is none. A batch of flushSync does not count. */
  #writingSinceMs: number | undefined
  /** Error code of the batch under way or the latest: a full or faulty disk, which is tried again, or a final fault. */
  #fault: string | undefined
  readonly #isShared: boolean
  /** The batch under way has been written up to the midst of a line. */
  #isLineCut = false
  /** Runs while lines are pending that do not fill a batch. */
  #timer: NodeJS.Timeout | undefined

  /** isShared: other processes write lines to it as well. */
  constructor(fd: number, isShared: boolean, lineOfLost: (lines: number) => string) {
    this.#fd = fd
    this.#lineOfLost = lineOfLost
    this.#isShared = isShared
    this.#mostBytes = isShared && !isFile(fd) ? WHOLE_BYTES : Infinity
  }

  /** The reason why lines cannot be written at the moment, and its remedy; undefined while they are written. */
  get fault(): string | undefined {
    if (this.#fault === undefined) return undefined
    return this.#isOver
      ? `the log cannot be written any more (${this.#fault}), as nobody reads it; start the gateway again with a log that is read`
      : `the log cannot be written (${this.#fault}): its lines wait in memory, and those beyond 4 MiB are lost; make room, or mend its disk`
  }

  /** Queues one or more whole lines, line ends included, in any number of parts. */
  write(...parts: readonly string[]): void {
    if (this.#isOver || this.#pendingBytes > PENDING_BYTES) return this.#lose(parts.join(''))
    for (const part of parts) {
      // In UTF-8 a character takes three bytes at most.
      const neededBytes = this.#pendingBytes + 3 * part.length
      if (neededBytes > this.#block.length) {
        const larger = Buffer.allocUnsafeSlow(Math.max(neededBytes, 2 * this.#block.length))
        this.#block.copy(larger)
        this.#block = larger
      }
      this.#pendingBytes += this.#block.write(part, this.#pendingBytes)
    }
    if (this.#pendingBytes >= BATCH_BYTES) this.flush()
    else this.#timer ??= setTimeout(() => this.flush(), FLUSH_AFTER_MS).unref()
  }

  /** Starts writing what is pending, without waiting for a full batch; a batch under way comes first. */
  flush(): void {
    this.#isDue = true
    if (this.#pendingBytes > 0) this.#running ??= this.#writeDue()
  }

  /** Writes what is pending before it returns, but not a batch under way; drops what the descriptor does not take within a second. */
  flushSync(): void {
    const nowMs = performance.now()
    // A blocking descriptor whose reader stands still would hold this process for as long; a disk that refuses lines does not.
    const isBlocked =
      this.#fault === undefined && nowMs - (this.#writingSinceMs ?? nowMs) > GIVE_UP_AFTER_MS
    if (this.#isOver || isBlocked) return
    let rest = this.#takePending()
    const giveUpAtMs = nowMs + GIVE_UP_AFTER_MS
    while (rest.length > 0 && performance.now() < giveUpAtMs) {
      try {
        rest = rest.subarray(writeSync(this.#fd, rest, 0, this.#nextBytes(rest)))
      } catch (error) {
        if (!fullPipe.has(codeOf(error))) break
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_AFTER_MS)
      }
    }
    this.#lose(rest.toString())
  }

  /** Resolves when everything is written, or after a second if the descriptor, which stays open, does not take it. */
  async close(): Promise<void> {
    this.flush()
    await endedWithin(this.#idle(), GIVE_UP_AFTER_MS)
  }

  async #idle(): Promise<void> {
    while (this.#running !== undefined) {
      await this.#running
      this.flush()
    }
  }

  get #isOver(): boolean {
    return this.#fault !== undefined && final.has(this.#fault)
  }

  async #writeDue(): Promise<void> {
    do {
      this.#isDue = false
      this.#writingSinceMs = performance.now()
      await this.#writeBatch(this.#takePending())
      this.#writingSinceMs = undefined
      this.#isDue ||= this.#pendingBytes >= BATCH_BYTES
    } while (this.#isDue && this.#pendingBytes > 0)
    this.#running = undefined
  }

  /** Returns what is pending, behind a line that names those lost before. */
  #takePending(): Buffer {
    clearTimeout(this.#timer)
    this.#timer = undefined
    const lost = this.lostLines - this.#named
    this.#named = this.lostLines
    // Half a line of a batch under way may stand there: this one begins on a line of its own.
    const head = (this.#isLineCut ? '\n' : '') + (lost > 0 ? this.#lineOfLost(lost) : '')
    const batch = Buffer.concat([Buffer.from(head), this.#block.subarray(0, this.#pendingBytes)])
    if (this.#block.length > BLOCK_BYTES) this.#block = Buffer.allocUnsafeSlow(BLOCK_BYTES)
    this.#pendingBytes = 0
    return batch
  }

  async #writeBatch(batch: Buffer): Promise<void> {
    let lines = batch
    let rest = batch
    while (rest.length > 0) {
      try {
        const { bytesWritten } = await writeTo(this.#fd, rest, 0, this.#nextBytes(rest), null)
        rest = rest.subarray(bytesWritten)
        this.#isLineCut = rest.length > 0 && lines.at(-rest.length - 1) !== NEWLINE
      } catch (error) {
        const code = codeOf(error)
        if (fullPipe.has(code)) {
          await sleep(RETRY_AFTER_MS, undefined, { ref: false })
          continue
        }
        this.#fault = code
        if (this.#isOver) {
          this.#lose(Buffer.concat([rest, this.#block.subarray(0, this.#pendingBytes)]).toString())
          this.#pendingBytes = 0
          return
        }
        lines = this.#fromCutLine(lines, lines.length - rest.length)
        rest = lines
        await sleep(RETRY_DISK_AFTER_MS, undefined, { ref: false })
      }
    }
    this.#fault = undefined
  }

  /** Number of bytes, in whole lines, that are written at once. */
  #nextBytes(batch: Buffer): number {
    if (batch.length <= this.#mostBytes) return batch.length
    const end = batch.lastIndexOf(NEWLINE, this.#mostBytes - 1)
    return 1 + (end >= 0 ? end : batch.indexOf(NEWLINE))
  }

  /** Returns what a disk has yet to take of these lines. A line that it took in part is written again, on a line of its own. */
  #fromCutLine(lines: Buffer, written: number): Buffer {
    const begin = lines.subarray(0, written).lastIndexOf(NEWLINE) + 1
    const left = lines.subarray(begin)
    // Half a line may stand there, also of another process whose disk was full too.
    const mayFollowCut = begin < written || this.#isShared
    return mayFollowCut && left[0] !== NEWLINE ? Buffer.concat([Buffer.of(NEWLINE), left]) : left
  }

  #lose(lines: string): void {
    // They may begin with the end of a line that was cut.
    this.lostLines += lines.split('\n').length - (lines.startsWith('\n') ? 2 : 1)
  }
}

/** Whether it is a file, which takes each write whole as long as there is room. */
function isFile(fd: number): boolean {
  try {
    return fstatSync(fd).isFile()
  } catch {
    // It is closed, as the first write will show.
    return true
  }
}
