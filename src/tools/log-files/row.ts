/** A request as a line describes it, and the other kinds of lines. */
import { NO_NAME, type LoggedOutcome } from './batch.ts'

/** The request of the last line read; the next one overwrites it. Batches have columns of the same names. */
export class RequestRow {
  atMs = 0
  /** Unix time in ms when the line was written; files are merged by it. */
  writtenMs = 0
  refundedAtMs = Number.NaN
  caller = NO_NAME
  route = NO_NAME
  revision = NO_NAME
  process = NO_NAME
  plan = NO_NAME
  outcome: LoggedOutcome = 'unknown'
  degraded = 0
  minuteLeft = -1
  dayLeft = -1
}

/** other: a line of Tollgate that is no request. */
export type LineKind = 'request' | 'other' | Unreadable
export interface Unreadable {
  readonly why: string
}

const MIN_STATUS = 100
const MAX_STATUS = 999
/** Tollgate logs 0 if the client left before there was an answer. */
export const isStatus = (status: number): boolean =>
  status === 0 || (Number.isInteger(status) && status >= MIN_STATUS && status <= MAX_STATUS)
