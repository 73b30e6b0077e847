/** Reads lines of every supported form; the first character shows which one. */
import { createForeignLines, type FieldNames } from './foreign-line.ts'
import { readOwnLine } from './own-line.ts'
import type { RequestRow } from './row.ts'
import { MAX_LINE_CHARS } from './unpack.ts'

/** Events of Tollgate's log that explain decisions. */
const notedEvents = [
  'storeLost',
  'storeBack',
  'banStoreLost',
  'banStoreBack',
  'keyBanned',
  'audit',
  'linesSuppressed',
  'linesDropped',
  'clockWentBack',
  'listening',
  'workerStopped',
  'workerCrashed',
  'drained',
  'crash',
] as const
export interface LogNote {
  /** Unix time in ms. */
  readonly atMs: number
  readonly event: (typeof notedEvents)[number]
  /** The process that wrote the line: its file, and its worker if it has several. */
  readonly process: string
  /** The whole line. */
  readonly fields: Readonly<Record<string, unknown>>
}

const NO_JSON = 'begins as JSON and is none'
const TOO_LONG = 'is longer than 64 KiB'
const NO_EVENT = "has no event: it is not of Tollgate's log"

/** Text: why the line cannot be read. undefined: it is empty, or an event of Tollgate that explains no decision. */
type ReadLine = RequestRow | LogNote | string | undefined

/** Makes the function that reads lines. file: identifies the process that wrote a note. */
export function createLineReader(fields: FieldNames | undefined) {
  const foreign = createForeignLines(fields)
  return (line: string, file: string): ReadLine => {
    if (line.length > MAX_LINE_CHARS) return TOO_LONG
    if (!line.startsWith('{')) {
      const text = line.trimEnd()
      return text === '' ? undefined : foreign.text(text)
    }
    let parsed: Readonly<Record<string, unknown>>
    try {
      parsed = JSON.parse(line) as typeof parsed
    } catch {
      return NO_JSON
    }
    if (foreign.json !== undefined) return foreign.json(parsed)
    if (parsed['event'] === 'access') return readOwnLine(parsed)
    return typeof parsed['event'] === 'string' ? noteOf(parsed, file) : NO_EVENT
  }
}

function noteOf(fields: Readonly<Record<string, unknown>>, file: string): LogNote | undefined {
  const { time, worker } = fields
  const event = notedEvents.find((name) => name === fields['event'])
  const atMs = Date.parse(String(time))
  if (event === undefined || Number.isNaN(atMs)) return undefined
  return { atMs, event, process: typeof worker === 'number' ? `${file}/${worker}` : file, fields }
}
