/** Reads lines of every supported form; the first byte shows which one. */
import { notedEvents, type LogNote } from './batch.ts'
import { Fields } from './fields.ts'
import { createForeignLines, type FieldNames } from './foreign-line.ts'
import type { Names } from './names.ts'
import { createOwnLines } from './own-line.ts'
import { readParsed } from './parsed.ts'
import { RequestRow, type LineKind, type Unreadable } from './row.ts'
import { scan } from './scan.ts'

/** Ten times as much as Tollgate writes on a line. */
export const MAX_LINE_BYTES = 64 * 1024

const NEWLINE = 0x0a
const BRACE = 0x7b

const NO_JSON: Unreadable = { why: 'begins as JSON and is none' }
const TOO_LONG: Unreadable = { why: 'is longer than 64 KiB' }

export class LineReader {
  /** The request that was read last. */
  readonly row = new RequestRow()
  /** The note on the line that was read last; undefined: there is none. */
  note: LogNote | undefined
  /** Index of the newline of the line that was read last. */
  end = 0
  readonly #fields = new Fields()
  readonly #own
  readonly #foreign

  constructor(names: Names, fields: FieldNames | undefined) {
    this.#own = createOwnLines(names, this.row)
    this.#foreign = createForeignLines(names, this.row, fields)
  }

  /** Reads the line from `from` to the next newline, which must follow. file: identifies the process of lines that do not name it. */
  read(bytes: Buffer, from: number, file: string): LineKind {
    this.end = this.#foreign.json === undefined ? scan(bytes, from, this.#fields) : 0
    const isScanned = this.end !== 0
    if (!isScanned) this.end = bytes.indexOf(NEWLINE, from)
    if (this.end - from > MAX_LINE_BYTES) return TOO_LONG
    this.note = undefined
    if (isScanned) {
      const line = this.#own(this.#fields, file)
      // Lines that are no requests are few.
      return line === 'other' ? this.#readJson(bytes.toString('utf8', from, this.end), file) : line
    }
    const text = bytes.toString('utf8', from, this.end).trimEnd()
    if (text === '') return 'other'
    return bytes[from] === BRACE ? this.#readJson(text, file) : this.#foreign.plain(text)
  }

  #readJson(text: string, file: string): LineKind {
    let line
    try {
      line = JSON.parse(text) as Record<string, unknown>
    } catch {
      return NO_JSON
    }
    if (this.#foreign.json !== undefined) return this.#foreign.json(line)
    readParsed(line, this.#fields)
    const event = notedEvents.find((name) => name === line['event'])
    const atMs = Date.parse(String(line['time']))
    const { worker } = line
    const process = typeof worker === 'number' ? `${file}/${worker}` : file
    if (event !== undefined && !Number.isNaN(atMs))
      this.note = { atMs, event, process, fields: line }
    return this.#own(this.#fields, file)
  }
}
