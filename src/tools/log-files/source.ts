/** Reads one log chunk by chunk: requests and notes are handed over, other lines are counted. */
import { bytesOf, type LogFile, type Progress } from './input.ts'
import { Lines, type createLineReader, type LogNote } from './lines.ts'
import type { RequestRow } from './row.ts'
import { unpacked } from './unpack.ts'

/** Counts over all logs of what has been read so far. */
export interface Counts {
  /** Bytes on disk, packed or not. */
  readBytes: number
  lines: number
  /** Lines of Tollgate that are no requests, such as starts and reloads. */
  otherLines: number
  unreadable: number
  firstUnreadable:
    { readonly file: string; readonly line: number; readonly why: string } | undefined
  /** Requests that came later than the window allows; they are taken when they come. */
  late: number
  /** Notes beyond the bound of `notes`; differences that they explain may stay unexplained. */
  notesDropped: number
  /** Files that end within compressed data or within a line. */
  readonly cutOff: string[]
}

export const noCounts = (): Counts => ({
  readBytes: 0,
  lines: 0,
  otherLines: 0,
  unreadable: 0,
  firstUnreadable: undefined,
  late: 0,
  notesDropped: 0,
  cutOff: [],
})

export interface SourceParts {
  readonly read: ReturnType<typeof createLineReader>
  readonly counts: Counts
  readonly take: (row: RequestRow) => void
  readonly note: (note: LogNote) => void
}

export class Source {
  /** Unix time in ms when the last request read was written. */
  positionMs = -Infinity
  readonly #counts: Counts
  readonly #progress: Progress
  readonly #chunks: AsyncGenerator<Buffer, undefined>
  readonly #lines: Lines

  constructor(log: LogFile, parts: SourceParts) {
    const { counts, read, take, note } = parts
    const { file } = log
    this.#counts = counts
    this.#progress = { file, readBytes: 0, isCutOff: false }
    this.#chunks = unpacked(bytesOf(log, this.#progress), this.#progress)
    let lineNumber = 0
    this.#lines = new Lines((text) => {
      const line = read(text, file)
      counts.lines++
      lineNumber++
      if (line === undefined) counts.otherLines++
      else if ('why' in line) {
        counts.unreadable++
        counts.firstUnreadable ??= { file, line: lineNumber, why: line.why }
      } else if ('event' in line) {
        counts.otherLines++
        note(line)
      } else {
        this.positionMs = line.writtenMs
        take(line)
      }
    })
  }

  /** Reads one chunk. false: there was none left. */
  async pull(): Promise<boolean> {
    const counts = this.#counts
    const { readBytes } = this.#progress
    const { value: chunk } = await this.#chunks.next()
    counts.readBytes += this.#progress.readBytes - readBytes
    if (chunk !== undefined) {
      this.#lines.push(chunk)
      return true
    }
    const { unreadable } = counts
    this.#lines.end()
    // An unreadable last line without a newline was cut off.
    const { file, isCutOff } = this.#progress
    if (isCutOff || counts.unreadable > unreadable) counts.cutOff.push(file)
    return false
  }

  async close(): Promise<void> {
    await this.#chunks.return(undefined)
  }
}
