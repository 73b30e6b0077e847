/** Reads one log chunk by chunk: requests and notes are handed over, other lines are counted. */
import { bytesOf, type LogFile } from './input.ts'
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

/** The file is opened when the first chunk is read. */
export class Source {
  /** Unix time in ms when the last request read was written; before the first, that of the first one. */
  positionMs: number
  readonly #file: string
  readonly #counts: Counts
  readonly #chunks: AsyncGenerator<Buffer, undefined>
  readonly #lines: Lines

  constructor(log: LogFile, { counts, read, take, note }: SourceParts, firstMs: number) {
    const { file } = log
    this.positionMs = firstMs
    this.#file = file
    this.#counts = counts
    this.#chunks = unpacked(bytesOf(log, counts), file, counts.cutOff)
    let lineNumber = 0
    this.#lines = new Lines((text) => {
      const line = read(text, file)
      counts.lines++
      lineNumber++
      if (line === undefined) counts.otherLines++
      else if (typeof line === 'string') {
        counts.unreadable++
        counts.firstUnreadable ??= { file, line: lineNumber, why: line }
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
    const { value: chunk } = await this.#chunks.next()
    if (chunk !== undefined) {
      this.#lines.push(chunk)
      return true
    }
    const { unreadable, cutOff } = this.#counts
    this.#lines.end()
    // An unreadable last line without a newline was cut off.
    if (this.#counts.unreadable > unreadable && !cutOff.includes(this.#file))
      cutOff.push(this.#file)
    return false
  }

  async close(): Promise<void> {
    await this.#chunks.return(undefined)
  }
}
