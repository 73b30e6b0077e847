/** Lines of other servers: the combined format of nginx and Apache, and JSON by the names of its fields. */
import { NOBODY } from './batch.ts'
import type { Names } from './names.ts'
import { isStatus, type Line, type Row, type Unreadable } from './row.ts'
import { isTime, parseTime, unixMs } from './times.ts'

export interface FieldNames {
  /** Of JSON: who asked, such as `user` or `request.headers.key`. Of the combined format: `user` (default) or `address`. */
  readonly client: string
  /** Of JSON; undefined: the usual ones. */
  readonly time?: string | undefined
  readonly status?: string | undefined
}

const USUAL_TIMES = ['time', 'timestamp', '@timestamp', 'ts', 'time_iso8601', 'msec', 'StartUTC']
const USUAL_STATUSES = ['status', 'status_code', 'response.status', 'DownstreamStatus']

// Each part is bounded: a line of brackets alone must not take long. The name and port of a host may come first, which an IPv6
// address is not, nor what only `-` follows.
const combined =
  /^(?:(?:[^\s:]{1,253}|\[[^\s\]]{1,45}\]):\d{1,5} (?!- ))?(\S{1,255}) \S{1,255} (.{1,255}?) \[([^\]]{20,40})\] "(?:[^"\\]|\\.)*" (\d{3}) (?:\d+|-)(?: |$)/
/** As log.format: text writes them. */
const readable = /^\[\d\d:\d\d:\d\d\.\d{3}\] [A-Z]+\b/

/** Their server let nobody in: such a request is no use of a limit. */
const NO_CALLER: ReadonlySet<number> = new Set([401, 403])

const NO_FORM: Unreadable = { why: 'is neither JSON nor in the combined format' }
const READABLE: Unreadable = {
  why: 'is in the form for terminals, which lacks fields: log with log.format: json',
}
const NO_FIELD: Unreadable = { why: 'the combined format has the client fields user and address' }
const NO_TIME: Unreadable = { why: 'has no time that can be read' }
const NO_STATUS: Unreadable = { why: 'has no status' }

export function createForeignLines(names: Names, row: Row, fields: FieldNames | undefined) {
  const take = (client: string | number | undefined, atMs: number, status: number): Line => {
    if (!isTime(atMs)) return NO_TIME
    if (!isStatus(status)) return NO_STATUS
    const isNobody = client === undefined || client === '' || client === '-'
    Object.assign(row, foreign)
    row.atMs = row.writtenMs = atMs
    row.outcome = NO_CALLER.has(status) ? 'nobody' : 'unknown'
    row.caller = isNobody ? NOBODY : names.ofText(String(client))
    return 'request'
  }
  return {
    plain(text: string): Line {
      const [, address, user, time = '', status] = combined.exec(text) ?? []
      if (status === undefined) return readable.test(text) ? READABLE : NO_FORM
      const field = fields?.client ?? 'user'
      if (field !== 'user' && field !== 'address') return NO_FIELD
      return take(field === 'user' ? user : address, parseTime(time), Number(status))
    },
    /** undefined: by no names, so it is one of our own. */
    json:
      fields &&
      ((line: object): Line => {
        const first = (candidates: readonly string[]) =>
          candidates.map((name) => valueAt(line, name)).find((value) => value !== undefined)
        const time = first(fields.time === undefined ? USUAL_TIMES : [fields.time])
        const status = first(fields.status === undefined ? USUAL_STATUSES : [fields.status])
        const atMs = typeof time === 'number' ? unixMs(time) : parseTime(time ?? '')
        return take(valueAt(line, fields.client), atMs, Number(status))
      }),
  }
}

const foreign = {
  route: NOBODY,
  revision: NOBODY,
  process: NOBODY,
  refundedAtMs: Number.NaN,
  degraded: 0,
  minuteLeft: -1,
  dayLeft: -1,
} as const satisfies Partial<Row>

/** By its whole name, else by one step after the other at its points. */
function valueAt(line: object, name: string): string | number | undefined {
  let value: unknown = line
  for (const step of Object.hasOwn(line, name) ? [name] : name.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return undefined
    value = (value as Record<string, unknown>)[step]
  }
  return typeof value === 'string' || typeof value === 'number' ? value : undefined
}
