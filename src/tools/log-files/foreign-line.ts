/** Reads lines of other servers: the combined format of nginx and Apache, and JSON with given fields. */
import { isStatus, isTime, parseTime, unixMs, type RequestRow } from './row.ts'

export interface FieldNames {
  /** The client: a field of JSON, such as `user` or `request.headers.key`; in the combined format `user` (default) or `address`. */
  readonly client: string
  /** Field of JSON, as is `status`; undefined: the usual ones. */
  readonly time?: string | undefined
  readonly status?: string | undefined
}

const USUAL_TIMES = ['time', 'timestamp', '@timestamp', 'ts', 'time_iso8601', 'msec', 'StartUTC']
const USUAL_STATUSES = ['status', 'status_code', 'response.status', 'DownstreamStatus']

// Each part is bounded, because a line of brackets alone must not take long. A host with its port may come first: an IPv6 address is
// none, nor is a word before ` - `, which is the client's address.
const combined =
  /^(?:(?:[^\s:]{1,253}|\[[^\s\]]{1,45}\]):\d{1,5} (?!- ))?(\S{1,255}) \S{1,255} (.{1,255}?) \[([^\]]{20,40})\] "(?:[^"\\]|\\.)*" (\d{3}) (?:\d+|-)(?: |$)/
/** The beginning of a line that `log.format: text` writes. */
const readable = /^\[\d\d:\d\d:\d\d\.\d{3}\] [A-Z]+\b/

/** Statuses of requests without a valid credential, which use no quota. */
const NO_CALLER: ReadonlySet<number> = new Set([401, 403])

const NO_FORM = 'is neither JSON nor in the combined format'
const READABLE = 'is in the form for terminals, which lacks fields: log with log.format: json'
const NO_FIELD = 'the combined format has the client fields user and address'

/** Text: why the line cannot be read. */
type Read = RequestRow | string

export function createForeignLines(fields: FieldNames | undefined) {
  const rowOf = (client: string | number | undefined, atMs: number, status: number): Read => {
    if (!isTime(atMs)) return 'has no time that can be read'
    if (!isStatus(status)) return 'has no status'
    const isNobody = client === undefined || client === '' || client === '-'
    return {
      atMs,
      writtenMs: atMs,
      refundedAtMs: Number.NaN,
      outcome: NO_CALLER.has(status) ? 'nobody' : 'unknown',
      caller: isNobody ? undefined : String(client),
      process: '',
      isDegraded: false,
    }
  }
  return {
    text(text: string): Read {
      const [, address, user, time = '', status] = combined.exec(text) ?? []
      if (status === undefined) return readable.test(text) ? READABLE : NO_FORM
      const field = fields?.client ?? 'user'
      if (field !== 'user' && field !== 'address') return NO_FIELD
      return rowOf(field === 'user' ? user : address, parseTime(time), Number(status))
    },
    /** undefined: no fields are given, so JSON lines are Tollgate's. */
    json:
      fields &&
      ((line: object): Read => {
        const first = (candidates: readonly string[]) =>
          candidates.map((name) => valueAt(line, name)).find((value) => value !== undefined)
        const time = first(fields.time === undefined ? USUAL_TIMES : [fields.time])
        const status = first(fields.status === undefined ? USUAL_STATUSES : [fields.status])
        const atMs = typeof time === 'number' ? unixMs(time) : parseTime(time ?? '')
        return rowOf(valueAt(line, fields.client), atMs, Number(status))
      }),
  }
}

/** Finds a value by its whole name, else by the parts of the name between its points. */
function valueAt(line: object, name: string): string | number | undefined {
  let value: unknown = line
  for (const step of Object.hasOwn(line, name) ? [name] : name.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return undefined
    value = (value as Record<string, unknown>)[step]
  }
  return typeof value === 'string' || typeof value === 'number' ? value : undefined
}
