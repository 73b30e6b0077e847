/** What a line of a log says of one request, and how its time is read: as Unix time in ms; NaN: no time. */
import { windowNames, type WindowName } from '../../config/time.ts'

/** Outcomes that a log can report of a request. */
export type LoggedOutcome =
  /** The log is another server's: only the status is known. */
  | 'unknown'
  /** It was charged and sent to a backend, whatever the answer. */
  | 'admitted'
  | WindowName
  | 'ban'
  /** A known caller was refused for neither quota nor ban, uncharged: 404, 405, 410, 503 for load. */
  | 'free'
  /** No caller is known: 400, 401. */
  | 'nobody'

/** Fields with the rest of each window after the decision, here and in Tollgate's log. */
export const leftFields = windowNames.map((name) => `${name}Left` as const)
/** undefined: it is not logged. */
export type WindowsLeft = Partial<Record<(typeof leftFields)[number], number | undefined>>

export interface RequestRow extends Readonly<WindowsLeft> {
  /** Unix time in ms when the request was decided, with fractions if the log has them. */
  readonly atMs: number
  /** Unix time in ms when the line was written; files are merged by it. */
  readonly writtenMs: number
  /** Unix time in ms; NaN: not refunded. */
  readonly refundedAtMs: number
  readonly outcome: LoggedOutcome
  /** The key id (Tollgate's log) or the value of the client field. */
  readonly caller: string | undefined
  readonly plan?: string | undefined
  readonly route?: string | undefined
  /** The first digits of the revision that decided; undefined: the line does not name it. */
  readonly revision?: string | undefined
  /** The process that decided; '': another server. */
  readonly process: string
  /** Whether it was decided without the store. */
  readonly isDegraded: boolean
}

/** Tollgate logs 0 if the client left before there was an answer. */
export const isStatus = (status: unknown): boolean =>
  status === 0 || (Number.isInteger(status) && Number(status) >= 100 && Number(status) <= 999)

/** Bounds of RFC 3339, which hold for all forms. */
const CLOCK = String.raw`(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d`
const OFFSET = String.raw`[+-](?:[01]\d|2[0-3]):?[0-5]\d`
const RFC_3339 = new RegExp(String.raw`^\d{4}-\d\d-\d\d[T ]${CLOCK}(?:\.\d+)?(?:Z|${OFFSET})$`, 'i')
const NUMBER = /^\d{9,19}(\.\d+)?$/
/** The form of Apache's %t and nginx's $time_local. */
const COMMON = new RegExp(String.raw`^\[?(\d\d)/([A-Z][a-z]{2})/(\d{4}):(${CLOCK}) (${OFFSET})\]?$`)

/** Parses RFC 3339, the time of the combined format, or a number: Unix time in s, ms, us or ns, depending on its size. */
export function parseTime(text: string): number {
  if (RFC_3339.test(text)) return Date.parse(text.replace(' ', 'T'))
  if (NUMBER.test(text)) return unixMs(Number(text))
  const [, day, month, year, time, offset] = COMMON.exec(text) ?? []
  return Date.parse(`${day} ${month} ${year} ${time} GMT${offset}`)
}

/** Converts a number to ms; in each unit it covers the years 1973 to 5138. */
export function unixMs(value: number): number {
  if (!(value >= 1e8)) return Number.NaN
  if (value < 1e11) return value * 1_000
  if (value < 1e14) return value
  return value < 1e17 ? value / 1_000 : value / 1_000_000
}

/** Whether a Date can hold this time. */
export const isTime = (ms: number): boolean => ms > 0 && ms < 8.64e15
