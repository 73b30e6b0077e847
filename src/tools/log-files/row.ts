/** What a line of a log says of one request. */

/** Outcomes that a log can report of a request. */
export type LoggedOutcome =
  /** The log is another server's: only the status is known. */
  | 'unknown'
  /** It was charged and sent to a backend, whatever the answer. */
  | 'admitted'
  | 'minute'
  | 'day'
  | 'ban'
  /** A known caller was refused for neither quota nor ban, uncharged: 404, 405, 410, 503 for load. */
  | 'free'
  /** No caller is known: 400, 401. */
  | 'nobody'

export interface RequestRow {
  /** Unix time in ms when the request was decided, with fractions if the log has them. */
  readonly atMs: number
  /** Unix time in ms when the line was written; files are merged by it. */
  readonly writtenMs: number
  /** Unix time in ms; NaN: not refunded. */
  readonly refundedAtMs: number
  readonly outcome: LoggedOutcome
  /** The key id (Tollgate's log) or the value of the client field. */
  readonly caller: string | undefined
  readonly plan: string | undefined
  readonly route: string | undefined
  /** The first digits of the revision that decided; undefined: the line does not name it. */
  readonly revision: string | undefined
  /** The process that decided; '': another server. */
  readonly process: string
  /** Whether it was decided without the store. */
  readonly isDegraded: boolean
  /** Rest of each window after the decision; undefined: it is not logged. */
  readonly minuteLeft: number | undefined
  readonly dayLeft: number | undefined
}

/** Tollgate logs 0 if the client left before there was an answer. */
export const isStatus = (status: unknown): boolean =>
  status === 0 || (Number.isInteger(status) && Number(status) >= 100 && Number(status) <= 999)
