/** Reads requests from Tollgate's own lines: the caller, the time of the decision, and the outcome. */
import { isStatus, type LoggedOutcome, type RequestRow } from './row.ts'
import { isTime, parseTime } from './times.ts'

type Fields = Readonly<Record<string, unknown>>

const NO_TIME = 'has no time'
const NO_STATUS = 'has no status'

/** Reads the line of a request; text: why it cannot be read. */
export function readOwnLine(fields: Fields): RequestRow | string {
  const { time, status } = fields
  const writtenMs = typeof time === 'string' ? parseTime(time) : Number.NaN
  if (!isTime(writtenMs)) return NO_TIME
  if (!isStatus(status)) return NO_STATUS
  const atMs = before(writtenMs, numberOf(fields['agoMs']) ?? 0)
  if (!isTime(atMs)) return NO_TIME
  // A caller without a plan was refused because of the key itself.
  const plan = textOf(fields['plan'])
  const isKnown = plan !== undefined
  const refundAgoMs = numberOf(fields['refundAgoMs'])
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
    minuteLeft: numberOf(fields['minuteLeft']),
    dayLeft: numberOf(fields['dayLeft']),
  }
}

export const textOf = (value: unknown): string | undefined =>
  typeof value === 'string' ? value : undefined

export const numberOf = (value: unknown): number | undefined =>
  typeof value === 'number' ? value : undefined

function outcomeOf(
  { refusal, window, dayLeft, backend }: Fields,
  isRefunded: boolean,
): LoggedOutcome {
  if (refusal === 'rate_limit_exceeded') {
    if (typeof window === 'string') return window === 'day' ? 'day' : 'minute'
    return dayLeft === 0 ? 'day' : 'minute'
  }
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
