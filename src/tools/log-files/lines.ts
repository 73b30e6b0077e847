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
] as const
export interface LogNote {
  /** Unix time in ms. */
  readonly atMs: number
  readonly event: (typeof notedEvents)[number]
  /** The whole line. */
  readonly fields: Readonly<Record<string, unknown>>
}

const NO_JSON = 'begins as JSON and is none'
const TOO_LONG = 'is longer than 64 KiB'
const NO_EVENT = "has no event: it is not of Tollgate's log"

/** Text: why the line cannot be read. undefined: it is empty, or an event of Tollgate that explains no decision. */
type ReadLine = RequestRow | LogNote | string | undefined

export function createLineReader(fields: FieldNames | undefined) {
  const foreign = createForeignLines(fields)
  return (line: string): ReadLine => {
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
    return typeof parsed['event'] === 'string' ? noteOf(parsed) : NO_EVENT
  }
}

function noteOf(fields: Readonly<Record<string, unknown>>): LogNote | undefined {
  const event = notedEvents.find((name) => name === fields['event'])
  const atMs = Date.parse(String(fields['time']))
  return event === undefined || Number.isNaN(atMs) ? undefined : { atMs, event, fields }
}
