/** One request as a line tells it, and what else a line may be. */
import { NOBODY, type LoggedOutcome } from './batch.ts'

/** One line's, overwritten by the next one. Columns of a batch by the same names. */
export class Row {
  atMs = 0
  /** When the line was written, by which files are merged. */
  writtenMs = 0
  refundedAtMs = Number.NaN
  caller = NOBODY
  route = NOBODY
  revision = NOBODY
  process = NOBODY
  plan = NOBODY
  outcome: LoggedOutcome = 'unknown'
  degraded = 0
  minuteLeft = -1
  dayLeft = -1
}

/** other: ours, but no request. */
export type Line = 'request' | 'other' | Unreadable
export interface Unreadable {
  readonly why: string
}

const MIN_STATUS = 100
const MAX_STATUS = 999
/** 0: ours, of a request whose client was gone before there was an answer. */
export const isStatus = (status: number): boolean =>
  status === 0 || (Number.isInteger(status) && status >= MIN_STATUS && status <= MAX_STATUS)
