/** Requests of access logs, in the order in which they were decided: columns, because there are millions. */

/** What a log says became of a request. */
export const outcomes = [
  /** A log that is not ours: only its status is known. */
  'unknown',
  /** Charged, and sent on, whatever came of it. */
  'admitted',
  'minute',
  'day',
  'ban',
  /** Known caller, refused for something that is neither quota nor ban, uncharged: 404, 405, 410, 503 for load. */
  'free',
  /** No caller is known: 400, 401. */
  'nobody',
] as const
export type LoggedOutcome = (typeof outcomes)[number]

/** The first `count` values of each column count; the rest is room. A batch is good until the next one is asked for. */
export interface LogBatch {
  readonly count: number
  /** Unix time in ms, with fractions where the log has them, when the request was decided. Ascending, but for what came later than the window allows. */
  readonly atMs: Float64Array
  /** Unix time in ms; NaN: not refunded. */
  readonly refundedAtMs: Float64Array
  /** Index into `names`: of the key id (our own log) or of the client field's value; NOBODY: none. */
  readonly caller: Uint32Array
  /** Index into `names`: of the route's name, the revision, and the process that decided. */
  readonly route: Uint32Array
  readonly revision: Uint32Array
  readonly process: Uint32Array
  /** Index into `names`: of the plan, where the line tells it. */
  readonly plan: Uint32Array
  /** Index into `outcomes`. */
  readonly outcome: Uint8Array
  /** 1: decided without the store. */
  readonly degraded: Uint8Array
  /** As the line tells, after the decision; -1: it does not. */
  readonly minuteLeft: Float64Array
  readonly dayLeft: Float64Array
}
export const NOBODY = 0xffff_ffff

/** A line of ours that is no request, and that says why requests were decided as they were. */
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
  /** Whose it is: its file, and the worker of that. */
  readonly process: string
  /** The whole line. */
  readonly fields: Readonly<Record<string, unknown>>
}

/** What the reading has come to; grows while it goes on. */
export interface LogReading {
  readonly files: readonly string[]
  readonly bytes: number
  /** Of all files together as they lie on disk; undefined where one is a stream. */
  readonly totalBytes: number | undefined
  readonly readBytes: number
  readonly lines: number
  /** Lines that are not requests but ours: started, reloaded. */
  readonly otherLines: number
  readonly unreadable: number
  readonly firstUnreadable:
    { readonly file: string; readonly line: number; readonly why: string } | undefined
  /** Requests that came later than the window allows, and were taken when they came. */
  readonly late: number
  /** Of `notes`, beyond its bound: differences that they explain may be unexplained. */
  readonly notesDropped: number
  /** Files that end in the midst of compressed data or of a line. */
  readonly cutOff: readonly string[]
}

export interface OpenedLogs {
  readonly names: readonly string[]
  readonly reading: LogReading
  /** Bounded. A note from a file stands here before the requests that follow it there. */
  readonly notes: readonly LogNote[]
  batches(): AsyncIterable<LogBatch>
  close(): Promise<void>
}
