/** What a line of our own log says in the fields that a replay needs, whichever way the line was read. */

export const ownFields = [
  'event',
  'time',
  'worker',
  'key',
  'plan',
  'route',
  'status',
  'backend',
  'totalMs',
  'minuteLeft',
  'dayLeft',
  'refusal',
  'degraded',
  'agoMs',
  'refundAgoMs',
  'window',
  'rev',
  'process',
  'id',
] as const
export type OwnField = (typeof ownFields)[number]

/** Number of each field. */
export const FIELD = Object.fromEntries(ownFields.map((name, at) => [name, at])) as Readonly<
  Record<OwnField, number>
>

export const NOTHING = 0
export const STRING = 1
export const NUMBER = 2
export const TRUE = 3

/** One line's, overwritten by the next one. */
export class Fields {
  readonly kinds = new Uint8Array(ownFields.length)
  /** Of a NUMBER. */
  readonly numbers = new Float64Array(ownFields.length)
  /** Of a STRING, where it stands in `bytes`, without quotes. */
  readonly starts = new Int32Array(ownFields.length)
  readonly ends = new Int32Array(ownFields.length)
  bytes: Buffer = Buffer.alloc(0)
}
