/** Writes log lines to a file descriptor in batches, and never throws, blocks for good or grows without bound. */
import { fstatSync, write, writeSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

const writeTo = promisify(write)

const BATCH_CHARS = 16 * 1024
const FLUSH_AFTER_MS = 200
/** Characters that wait at most for a reader that stands still; further lines are dropped. */
const PENDING_CHARS = 4 * 1024 * 1024
const RETRY_AFTER_MS = 20
/** Pause before the next attempt after the disk has refused a batch. */
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
  /** Names the lost lines in a line, which it queues by write() before it returns; it queues none where that level is off. */
  readonly #sayLost: (lines: number) => void
  /** Most bytes of one write, unless a single line is longer. */
  readonly #mostBytes: number
  /** Lines that no batch has taken yet. */
  #pending = ''
  /** Lines lost since the start: there was no room in memory, or the descriptor refused them. Written by #lose and #fail. */
  lostLines = 0
  /** How many lost lines the log has named: `written` by lines that stand in it, `all` by the line under way as well. */
  #namedLines = { written: 0, all: 0 }
  /** Writes one batch after the other; undefined: none is under way. */
  #running: Promise<void> | undefined
  /** What is pending is written after the batch under way, even if it does not fill a batch. */
  #isDue = false
  /** When the batch under way began; undefined: there is none. A batch of flushSync does not count. */
  #writingSinceMs: number | undefined
  /** Error code of the latest batch: a full or faulty disk, which is tried again, or a final fault. */
  #fault: string | undefined
  readonly #isShared: boolean
  /** The last byte written is not the end of a line, as the disk took only a part of a batch. */
  #isLineCut = false
  /** Runs while lines are pending that do not fill a batch. */
  #timer: NodeJS.Timeout | undefined

  /** isShared: other processes write lines to it as well. */
  constructor(fd: number, isShared: boolean, dropped: (lines: number) => void) {
    this.#fd = fd
    this.#sayLost = dropped
    this.#isShared = isShared
    this.#mostBytes = isShared && !isFile(fd) ? WHOLE_BYTES : Infinity
  }

  /** The reason why lines are being lost at the moment, and its remedy; undefined while they are written. */
  get fault(): string | undefined {
    if (this.#fault === undefined) return undefined
    return this.#isOver
      ? `the log cannot be written any more (${this.#fault}), as nobody reads it; start the gateway again with a log that is read`
      : `the log cannot be written (${this.#fault}), and its lines are lost until it can; make room, or mend its disk`
  }

  /** Queues one or more whole lines, line ends included. */
  write(lines: string): void {
    if (this.#isOver || this.#pending.length > PENDING_CHARS) return this.#lose(lines)
    this.#pending += lines
    if (this.#pending.length >= BATCH_CHARS && this.#fault === undefined) this.flush()
    else this.#writeAfter(FLUSH_AFTER_MS)
  }

  /** Starts writing what is pending, without waiting for a full batch; a disk that refused a batch has its pause first. */
  flush(): void {
    if (this.#fault === undefined) this.#write()
  }

  /** Writes what is pending before it returns, but not a batch under way; drops what the descriptor does not take within a second. */
  flushSync(): void {
    this.#stopTimer()
    const nowMs = performance.now()
    // A blocking descriptor whose reader stands still would hold this process for as long.
    if (this.#isOver || nowMs - (this.#writingSinceMs ?? nowMs) > GIVE_UP_AFTER_MS) return
    let rest = this.#takePending()
    const giveUpAtMs = nowMs + GIVE_UP_AFTER_MS
    while (rest.length > 0 && performance.now() < giveUpAtMs) {
      try {
        rest = this.#afterPart(rest, writeSync(this.#fd, rest, 0, this.#nextBytes(rest)))
      } catch (error) {
        if (!fullPipe.has(codeOf(error))) return this.#fail(error, rest)
        Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, RETRY_AFTER_MS)
      }
    }
    this.#lose(rest.toString())
  }

  /** Resolves when everything is written, or after a second if the descriptor, which stays open, does not take it. */
  async close(): Promise<void> {
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(late.resolve, GIVE_UP_AFTER_MS)
    // There may be room again, and there will be no later attempt.
    this.#tryAgain()
    await Promise.race([this.#idle(), late.promise])
    clearTimeout(timer)
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

  #writeAfter(ms: number): void {
    this.#timer ??= setTimeout(() => this.#tryAgain(), ms).unref()
  }

  #tryAgain(): void {
    this.#stopTimer()
    // After a fault the line about lost lines is written first, even where there are no other lines.
    if (this.#fault !== undefined) this.#nameLost()
    this.#write()
  }

  #stopTimer(): void {
    clearTimeout(this.#timer)
    this.#timer = undefined
  }

  #write(): void {
    this.#isDue = true
    if (this.#pending !== '') this.#running ??= this.#writeDue()
  }

  async #writeDue(): Promise<void> {
    do {
      this.#stopTimer()
      this.#isDue = false
      this.#writingSinceMs = performance.now()
      await this.#writeBatch(this.#takePending())
      this.#writingSinceMs = undefined
      if (this.#fault !== undefined) break
      this.#nameLost()
      this.#isDue ||= this.#pending.length >= BATCH_CHARS
    } while (this.#isDue && this.#pending !== '')
    this.#running = undefined
  }

  #takePending(): Buffer {
    // Half a line may stand there, also of another process whose disk was full too: the next one begins on a line of its own.
    const mayFollowCut = this.#isLineCut || (this.#isShared && this.#fault !== undefined)
    const lines = Buffer.from(mayFollowCut ? `\n${this.#pending}` : this.#pending)
    this.#pending = ''
    return lines
  }

  async #writeBatch(batch: Buffer): Promise<void> {
    let rest = batch
    while (rest.length > 0) {
      try {
        const { bytesWritten } = await writeTo(this.#fd, rest, 0, this.#nextBytes(rest), null)
        rest = this.#afterPart(rest, bytesWritten)
      } catch (error) {
        if (!fullPipe.has(codeOf(error))) return this.#fail(error, rest)
        await sleep(RETRY_AFTER_MS, undefined, { ref: false })
      }
    }
    this.#fault = undefined
    this.#namedLines.written = this.#namedLines.all
  }

  /** Number of bytes, in whole lines, that are written at once. */
  #nextBytes(batch: Buffer): number {
    if (batch.length <= this.#mostBytes) return batch.length
    const end = batch.lastIndexOf(NEWLINE, this.#mostBytes - 1)
    return 1 + (end >= 0 ? end : batch.indexOf(NEWLINE))
  }

  #afterPart(batch: Buffer, written: number): Buffer {
    if (written > 0) this.#isLineCut = batch[written - 1] !== NEWLINE
    return batch.subarray(written)
  }

  /** Drops the rest of a batch. Later lines are tried again within a second, when the disk may have room. */
  #fail(error: unknown, rest: Buffer): void {
    this.#fault = codeOf(error)
    this.#lose(rest.toString())
    const { written, all } = this.#namedLines
    // The line that named them is lost too; it does not count as a lost line itself.
    if (all > written) this.lostLines -= 1
    this.#namedLines.all = written
    this.#stopTimer()
    if (this.#isOver) {
      this.#lose(this.#pending)
      this.#pending = ''
    } else this.#writeAfter(RETRY_DISK_AFTER_MS)
  }

  #lose(lines: string): void {
    // A batch may begin with the end of a line that was cut.
    this.lostLines += lines.split('\n').length - (lines.startsWith('\n') ? 2 : 1)
  }

  /** Called while no batch is under way: the line is in the next. */
  #nameLost(): void {
    const { written, all } = this.#namedLines
    if (this.lostLines === all || all > written) return
    this.#namedLines.all = this.lostLines
    const before = this.#pending
    this.#sayLost(this.lostLines - all)
    // Lines of this level may be switched off.
    if (this.#pending === before) this.#namedLines.written = this.#namedLines.all
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
