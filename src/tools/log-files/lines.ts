/** Reads lines of every supported form; the first character shows which one. */
import { createForeignLines, type FieldNames } from './foreign-line.ts'
import { MAX_LINE_CHARS } from './input.ts'
import { windowNames, type WindowName } from '../../config/time.ts'
import { isStatus, isTime, leftFields, parseTime } from './row.ts'
import type { LoggedOutcome, RequestRow, WindowsLeft } from './row.ts'

export type Fields = Readonly<Record<string, unknown>>

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
  'configTaken',
  'startFailed',
] as const
export interface LogNote {
  /** Unix time in ms. */
  readonly atMs: number
  readonly event: (typeof notedEvents)[number]
  /** The whole line. */
  readonly fields: Fields
}

const NO_TIME = 'has no time'

/** Text: why the line cannot be read. undefined: it is empty, or an event of Tollgate that explains no decision. */
type ReadLine = RequestRow | LogNote | string | undefined

export function createLineReader(fields: FieldNames | undefined) {
  const foreign = createForeignLines(fields)
  return (line: string): ReadLine => {
    if (line.length > MAX_LINE_CHARS) return 'is longer than 64 KiB'
    if (!line.startsWith('{')) {
      const text = line.trimEnd()
      return text === '' ? undefined : foreign.text(text)
    }
    const parsed = parseFields(line)
    if (parsed === undefined) return 'begins as JSON and is none'
    if (foreign.json !== undefined) return foreign.json(parsed)
    if (parsed['event'] === 'access') return readOwnLine(parsed)
    if (typeof parsed['event'] === 'string') return noteOf(parsed)
    return "has no event: it is not of Tollgate's log"
  }
}

/** undefined: the line is torn, or of another program. */
export function parseFields(line: string): Fields | undefined {
  try {
    const fields: unknown = JSON.parse(line)
    return typeof fields === 'object' && fields !== null ? (fields as Fields) : undefined
  } catch {
    return undefined
  }
}

function noteOf(fields: Fields): LogNote | undefined {
  const event = notedEvents.find((name) => name === fields['event'])
  const atMs = Date.parse(String(fields['time']))
  return event === undefined || Number.isNaN(atMs) ? undefined : { atMs, event, fields }
}

/** Reads a request from Tollgate's own line: the caller, the time of the decision, and the outcome. Text: why it cannot be read. */
export function readOwnLine(fields: Fields): RequestRow | string {
  const { time, status } = fields
  const writtenMs = typeof time === 'string' ? parseTime(time) : Number.NaN
  if (!isTime(writtenMs)) return NO_TIME
  if (!isStatus(status)) return 'has no status'
  const atMs = before(writtenMs, numberOf(fields['agoMs']) ?? 0)
  if (!isTime(atMs)) return NO_TIME
  // A caller without a plan was refused because of the key itself.
  const plan = textOf(fields['plan'])
  const isKnown = plan !== undefined
  const refundAgoMs = numberOf(fields['refundAgoMs'])
  const left: WindowsLeft = {}
  for (const field of leftFields) left[field] = numberOf(fields[field])
  return {
    atMs,
    writtenMs,
    refundedAtMs: refundAgoMs === undefined ? Number.NaN : before(writtenMs, refundAgoMs),
    outcome: isKnown ? outcomeOf(fields, refundAgoMs !== undefined) : 'nobody',
    caller: isKnown ? textOf(fields['key']) : undefined,
    plan,
    route: textOf(fields['route']),
    revision: textOf(fields['rev']),
    process: processOf(fields),
    isDegraded: fields['degraded'] === true,
    ...left,
  }
}

export const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' ? value : undefined

export const numberOf = (value: unknown): number | undefined =>
  typeof value === 'number' ? value : undefined

function outcomeOf(fields: Fields, isRefunded: boolean): LoggedOutcome {
  const { refusal, window, backend } = fields
  const hasRefused = (name: WindowName): boolean =>
    typeof window === 'string' ? window === name : fields[`${name}Left`] === 0
  if (refusal === 'rate_limit_exceeded') return windowNames.findLast(hasRefused) ?? 'minute'
  if (refusal === 'api_key_banned') return 'ban'
  // A charged request went to a backend, or was refunded.
  return typeof backend === 'string' || isRefunded ? 'admitted' : 'free'
}

/** Fractions of a millisecond keep the order of decisions within it. */
const before = (atMs: number, ms: number): number => Math.round((atMs - ms) * 1000) / 1000

/** Identifies the process of a line: by `process`, else by the middle of the id, and by the worker's number. */
function processOf({ process, id, worker }: Fields): string {
  const ofId = textOf(id) ?? ''
  const gateway = textOf(process) ?? ofId.slice(ofId.indexOf('-') + 1, ofId.lastIndexOf('-'))
  return typeof worker === 'number' ? `${gateway}/${worker}` : gateway
}
