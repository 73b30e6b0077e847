/** Reads one log chunk by chunk: requests are handed over, other lines are counted. */
import type { LogNote, LogReading } from './batch.ts'
import { Input, type LogFile, type OpenInputs } from './input.ts'
import type { LineReader } from './line-reader.ts'
import { Lines } from './lines.ts'
import type { RequestRow, Unreadable } from './row.ts'
import { unpacked, type Unpacking } from './unpack.ts'

type Counted = Omit<LogReading, 'files' | 'totalBytes' | 'cutOff'>
/** Counts over all logs. */
export type Counts = { -readonly [Name in keyof Counted]: Counted[Name] } & { cutOff: string[] }

export const noCounts = (): Counts => ({
  bytes: 0,
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
  readonly reader: LineReader
  readonly counts: Counts
  readonly open: OpenInputs
  readonly chunkBytes: number
  note(note: LogNote): void
}

export class Source {
  /** Unix time in ms when the last request read was written. */
  positionMs = -Infinity
  readonly #parts: SourceParts
  readonly #state: Unpacking
  readonly #input: Input
  readonly #chunks: AsyncGenerator<Buffer, void>
  readonly #lines: Lines
  #lineNumber = 0

  /** take: called with each request and its line number. */
  constructor(log: LogFile, parts: SourceParts, take: (row: RequestRow, line: number) => void) {
    this.#parts = parts
    this.#state = { file: log.file, readBytes: 0, isCutOff: false }
    this.#input = new Input(log, parts.open)
    this.#chunks = unpacked(this.#input, this.#state, parts.chunkBytes)
    const { reader, counts } = parts
    this.#lines = new Lines((bytes, from) => {
      const line = reader.read(bytes, from, log.file)
      counts.lines++
      this.#lineNumber++
      if (line === 'request') {
        this.positionMs = reader.row.writtenMs
        take(reader.row, this.#lineNumber)
      } else if (line === 'other') {
        counts.otherLines++
        if (reader.note !== undefined) parts.note(reader.note)
      } else this.#unreadable(line)
      return reader.end
    })
  }

  /** Reads one chunk. false: there was none left. */
  async pull(): Promise<boolean> {
    const { counts } = this.#parts
    const before = this.#state.readBytes
    const { value: chunk } = await this.#chunks.next()
    counts.readBytes += this.#state.readBytes - before
    if (chunk !== undefined) {
      counts.bytes += chunk.length
      this.#lines.push(chunk)
      return true
    }
    const unreadable = counts.unreadable
    this.#lines.end()
    // An unreadable last line without a newline was cut off.
    if (this.#state.isCutOff || counts.unreadable > unreadable) counts.cutOff.push(this.#state.file)
    await this.close()
    return false
  }

  async close(): Promise<void> {
    await this.#chunks.return()
    this.#input.close()
  }

  #unreadable({ why }: Unreadable): void {
    const { counts } = this.#parts
    counts.unreadable++
    counts.firstUnreadable ??= { file: this.#state.file, line: this.#lineNumber, why }
  }
}
