/** Fields of Tollgate's own lines that a replay needs, whether scan() or JSON.parse has read the line. */

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

export const FIELD = Object.fromEntries(ownFields.map((name, at) => [name, at])) as Readonly<
  Record<OwnField, number>
>

export const NOTHING = 0
export const STRING = 1
export const NUMBER = 2
export const TRUE = 3

/** Fields of the last line read; the next one overwrites them. */
export class Fields {
  readonly kinds = new Uint8Array(ownFields.length)
  /** Value of each NUMBER. */
  readonly numbers = new Float64Array(ownFields.length)
  /** Where each STRING begins and ends in `bytes`, without quotes. */
  readonly starts = new Int32Array(ownFields.length)
  readonly ends = new Int32Array(ownFields.length)
  bytes: Buffer = Buffer.alloc(0)
}
