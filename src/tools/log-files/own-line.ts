/** Reads requests from Tollgate's own lines: the caller, the time of the decision, and the outcome. */
import { NO_NAME, type LoggedOutcome } from './batch.ts'
import { FIELD, NUMBER, STRING, TRUE, type Fields, type OwnField } from './fields.ts'
import type { Names } from './names.ts'
import { isStatus, RequestRow, type LineKind, type Unreadable } from './row.ts'
import { createTimeReader, isTime } from './times.ts'

const NO_EVENT: Unreadable = { why: "has no event: it is not of Tollgate's log" }
const NO_TIME: Unreadable = { why: 'has no time' }
const NO_STATUS: Unreadable = { why: 'has no status' }

/** Refusals that charge a known caller nothing. */
const freeRefusals: ReadonlySet<string> = new Set([
  'not_found',
  'method_not_allowed',
  'operation_in_brownout',
  'operation_removed',
  'overloaded',
])

/** Makes the function that reads fields into the row. */
export function createOwnLines(names: Names, row: RequestRow) {
  const timeOf = createTimeReader()

  const nameOf = ({ kinds, bytes, starts, ends }: Fields, field: number): number =>
    kinds[field] === STRING ? names.numberOf(bytes, starts[field] ?? 0, ends[field] ?? 0) : NO_NAME

  const processOf = createProcesses(names)

  return function read(fields: Fields, file: string): LineKind {
    const { kinds, bytes, starts, ends } = fields
    if (kinds[FIELD.event] !== STRING) return NO_EVENT
    if (textOf(fields, 'event') !== 'access') return 'other'
    row.writtenMs =
      kinds[FIELD.time] === STRING
        ? timeOf(bytes, starts[FIELD.time] ?? 0, ends[FIELD.time] ?? 0)
        : Number.NaN
    if (!isTime(row.writtenMs)) return NO_TIME
    if (!isStatus(numberOf(fields, 'status') ?? -1)) return NO_STATUS
    const agoMs = numberOf(fields, 'agoMs')
    row.atMs = before(row.writtenMs, agoMs ?? numberOf(fields, 'totalMs') ?? 0)
    if (!isTime(row.atMs)) return NO_TIME
    // A caller without a plan was refused because of the key itself.
    const isKnown = kinds[FIELD.plan] === STRING
    row.caller = isKnown ? nameOf(fields, FIELD.key) : NO_NAME
    row.route = nameOf(fields, FIELD.route)
    row.revision = nameOf(fields, FIELD.rev)
    row.process = processOf(fields, file)
    row.plan = isKnown ? nameOf(fields, FIELD.plan) : NO_NAME
    row.minuteLeft = numberOf(fields, 'minuteLeft') ?? -1
    row.dayLeft = numberOf(fields, 'dayLeft') ?? -1
    row.refundedAtMs = isKnown ? refundedAt(fields, row) : Number.NaN
    row.outcome = isKnown ? outcomeOf(fields, row) : 'nobody'
    row.degraded = kinds[FIELD.degraded] === TRUE ? 1 : 0
    return 'request'
  }
}

function outcomeOf(fields: Fields, { dayLeft, refundedAtMs }: RequestRow): LoggedOutcome {
  const { kinds } = fields
  const refusal = kinds[FIELD.refusal] === STRING ? textOf(fields, 'refusal') : undefined
  if (refusal === 'rate_limit_exceeded') {
    if (kinds[FIELD.window] === STRING) return textOf(fields, 'window') === 'day' ? 'day' : 'minute'
    return dayLeft === 0 ? 'day' : 'minute'
  }
  if (refusal === 'api_key_banned') return 'ban'
  // A charged request went to a backend, or was refunded.
  if (kinds[FIELD.agoMs] === NUMBER)
    return kinds[FIELD.backend] === STRING || !Number.isNaN(refundedAtMs) ? 'admitted' : 'free'
  if (refusal === undefined) return 'admitted'
  // Without the store nothing was charged; if only the backend was unreachable, the request was charged.
  const isStoreLost = refusal === 'service_unavailable' && kinds[FIELD.degraded] === TRUE
  return isStoreLost || freeRefusals.has(refusal) ? 'free' : 'admitted'
}

/** Unix time in ms; NaN: not refunded. Older lines do not say when; in those, a charged request without a backend was refunded. */
function refundedAt(fields: Fields, { writtenMs }: RequestRow): number {
  const { kinds } = fields
  const agoMs = numberOf(fields, 'refundAgoMs')
  if (agoMs !== undefined) return before(writtenMs, agoMs)
  if (kinds[FIELD.agoMs] === NUMBER || kinds[FIELD.backend] === STRING) return Number.NaN
  const refusal = kinds[FIELD.refusal] === STRING ? textOf(fields, 'refusal') : undefined
  const isCharged = refusal !== undefined && outcomeOf(fields, NOT_REFUNDED) === 'admitted'
  return isCharged ? writtenMs : Number.NaN
}
const NOT_REFUNDED = Object.assign(new RequestRow(), { dayLeft: 0 })

/** Fractions of a millisecond keep the order of decisions within it. */
const before = (atMs: number, ms: number): number => Math.round((atMs - ms) * 1000) / 1000

const DASH = 0x2d
const MAX_WORKERS = 10_000

/** Identifies the process of a line: by `process`, else by the middle of the id, and by the worker's number. Older lines have the file instead. */
function createProcesses(names: Names) {
  const workers = new Map<number, number>()
  const gatewayOf = (fields: Fields, file: string): number => {
    const { kinds, bytes, starts, ends } = fields
    const field = kinds[FIELD.process] === STRING ? FIELD.process : FIELD.id
    if (kinds[FIELD.agoMs] !== NUMBER || kinds[field] !== STRING) return names.numberOfText(file)
    let from = starts[field] ?? 0
    let to = ends[field] ?? 0
    if (field === FIELD.id) {
      while (from < to && bytes[from] !== DASH) from++
      while (to > from && bytes[to] !== DASH) to--
      from++
    }
    return names.numberOf(bytes, Math.min(from, to), to)
  }
  return (fields: Fields, file: string): number => {
    const gateway = gatewayOf(fields, file)
    const worker = numberOf(fields, 'worker')
    if (worker === undefined) return gateway
    const place = gateway * MAX_WORKERS + worker
    const known = workers.get(place) ?? names.numberOfText(`${names.text(gateway)}/${worker}`)
    workers.set(place, known)
    return known
  }
}

function numberOf({ kinds, numbers }: Fields, name: OwnField): number | undefined {
  const field = FIELD[name]
  return kinds[field] === NUMBER ? numbers[field] : undefined
}

/** Reads a short word in ASCII. */
function textOf({ bytes, starts, ends }: Fields, name: OwnField): string {
  const field = FIELD[name]
  let text = ''
  const end = Math.min(ends[field] ?? 0, (starts[field] ?? 0) + LONGEST_WORD)
  for (let at = starts[field] ?? 0; at < end; at++) text += String.fromCharCode(bytes[at] ?? 0)
  return text
}
const LONGEST_WORD = 40
