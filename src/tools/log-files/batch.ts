/** Requests of access logs in the order of decision, as columns because there are millions. */

/** Outcomes that a log can report of a request. */
export const outcomes = [
  /** The log is another server's: only the status is known. */
  'unknown',
  /** It was charged and sent to a backend, whatever the answer. */
  'admitted',
  'minute',
  'day',
  'ban',
  /** A known caller was refused for neither quota nor ban, uncharged: 404, 405, 410, 503 for load. */
  'free',
  /** No caller is known: 400, 401. */
  'nobody',
] as const
export type LoggedOutcome = (typeof outcomes)[number]

/** The first `count` values of each column are valid, until the next batch is requested. */
export interface LogBatch {
  readonly count: number
  /** Unix time in ms when the request was decided, with fractions if the log has them. It ascends, except where a request came later than the window allows. */
  readonly atMs: Float64Array
  /** Unix time in ms; NaN: not refunded. */
  readonly refundedAtMs: Float64Array
  /** Index into `names` of the key id (Tollgate's log) or of the client field's value; NO_NAME: none. */
  readonly caller: Uint32Array
  /** Indexes into `names` of the route's name, the revision, and the process that decided. */
  readonly route: Uint32Array
  readonly revision: Uint32Array
  readonly process: Uint32Array
  /** Index into `names` of the plan, if it is logged. */
  readonly plan: Uint32Array
  /** Index into `outcomes`. */
  readonly outcome: Uint8Array
  /** 1: decided without the store. */
  readonly degraded: Uint8Array
  /** Rest of each window after the decision, as logged; -1: it is not logged. */
  readonly minuteLeft: Float64Array
  readonly dayLeft: Float64Array
}
export const NO_NAME = 0xffff_ffff

/** Events of Tollgate's log that explain decisions. */
export const notedEvents = [
  'configTaken',
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
  'workerStopped',
  'workerCrashed',
  'drained',
  'crash',
] as const
export interface LogNote {
  /** Unix time in ms. */
  readonly atMs: number
  readonly event: (typeof notedEvents)[number]
  /** The process that wrote the line: its file, and its worker if it has several. */
  readonly process: string
  /** The whole line. */
  readonly fields: Readonly<Record<string, unknown>>
}

/** Counts of what has been read so far. */
export interface LogReading {
  readonly files: readonly string[]
  readonly bytes: number
  /** Size of all files on disk; undefined if one is a stream. */
  readonly totalBytes: number | undefined
  readonly readBytes: number
  readonly lines: number
  /** Lines of Tollgate that are no requests, such as starts and reloads. */
  readonly otherLines: number
  readonly unreadable: number
  readonly firstUnreadable:
    { readonly file: string; readonly line: number; readonly why: string } | undefined
  /** Requests that came later than the window allows; they are taken when they come. */
  readonly late: number
  /** Notes beyond the bound of `notes`; differences that they explain may stay unexplained. */
  readonly notesDropped: number
  /** Files that end within compressed data or within a line. */
  readonly cutOff: readonly string[]
}

export interface OpenedLogs {
  readonly names: readonly string[]
  readonly reading: LogReading
  /** Notes, up to a bound. A note stands here before the requests that follow it in its file. */
  readonly notes: readonly LogNote[]
  batches(): AsyncIterable<LogBatch>
  close(): Promise<void>
}
