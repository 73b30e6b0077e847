/**
 * Reads values of plain form from bytes, as src/config/scalars.ts takes them: what this takes is right and means the same there.
 * What it does not take may still be right, or is wrong in a way that others tell.
 */
import { MAX_PER_DAY, MAX_PER_MINUTE } from '../config/client.ts'
import { isReservedName } from '../config/scalars.ts'
import type { Columns } from './columns.ts'
import type { Scratch } from './scratch.ts'

const tableOf = (shape: RegExp): Uint8Array =>
  Uint8Array.from({ length: 256 }, (_, byte) => Number(shape.test(String.fromCharCode(byte))))

const isIdByte = tableOf(/[A-Za-z0-9_.:@+-]/)
const isFirstIdByte = tableOf(/[A-Za-z0-9]/)
/** 255: no hex digit. */
const hexValue = Uint8Array.from({ length: 256 }, (_, byte) => {
  const digit = String.fromCharCode(byte)
  return /[0-9A-Fa-f]/.test(digit) ? Number.parseInt(digit, 16) : 255
})

/** First and last byte and length of the names that nothing may have: seldom met, and then left to others. */
const markOf = (first: number, last: number, length: number): number =>
  (first << 16) | (last << 8) | length
const reserved = new Set(
  Object.getOwnPropertyNames(Object.prototype)
    .filter(isReservedName)
    .map((name) => markOf(name.charCodeAt(0), name.charCodeAt(name.length - 1), name.length)),
)

export const LONGEST_CLIENT_ID = 128
export const LONGEST_KEY_ID = 160

const jwt = Buffer.from('jwt:')
const daysIn = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31]

export interface PlainPlan {
  readonly name: Buffer
  readonly isCustom: boolean
}

export class PlainLeaves {
  protected readonly scratch: Scratch
  protected readonly columns: Columns
  protected readonly plans: readonly PlainPlan[]
  /** Behind the end stands a line feed, which no value has. */
  protected bytes: Uint8Array = new Uint8Array(0)
  protected at = 0
  /** What leaf read last. */
  protected idAt = 0
  protected idLength = 0
  protected number = 0

  /** plans: by their number. */
  constructor(scratch: Scratch, plans: readonly PlainPlan[]) {
    this.scratch = scratch
    this.columns = scratch.columns
    this.plans = plans
  }

  /** An id, written behind the others. */
  protected id(longest: number): boolean {
    const { bytes, columns, scratch } = this
    const { ids } = columns
    const from = this.at
    const first = bytes[from] ?? 0
    if (isFirstIdByte[first] === 0) return false
    let to = scratch.draft.idBytes
    this.idAt = to
    let at = from
    while (isIdByte[bytes[at] ?? 0] === 1 && at - from <= longest) ids[to++] = bytes[at++] ?? 0
    const length = at - from
    if (length > longest || reserved.has(markOf(first, bytes[at - 1] ?? 0, length))) return false
    this.at = at
    this.idLength = length
    scratch.draft.idBytes = to
    return true
  }

  protected clientId(): boolean {
    if (!this.id(LONGEST_CLIENT_ID)) return false
    this.scratch.draft.idAt = this.idAt
    this.scratch.draft.idLength = this.idLength
    return true
  }

  protected keyId(): boolean {
    const { bytes, at } = this
    const isJwt = bytes[at] === jwt[0] && jwt.equals(bytes.subarray(at, at + jwt.length))
    return !isJwt && this.id(LONGEST_KEY_ID)
  }

  /** One of the plans; behind it stands what no name has. */
  protected plan(): boolean {
    const { bytes, at, plans } = this
    for (let number = 0; number < plans.length; number++) {
      const name = plans[number]?.name ?? Buffer.alloc(0)
      let i = 0
      while (i < name.length && name[i] === bytes[at + i]) i++
      if (i < name.length || isIdByte[bytes[at + i] ?? 0] === 1) continue
      this.at = at + i
      this.scratch.draft.plan = number
      return true
    }
    return false
  }

  protected count(most: number): boolean {
    const { bytes } = this
    let { at } = this
    let value = 0
    for (
      let digit = (bytes[at] ?? 0) - 48;
      digit >= 0 && digit <= 9;
      digit = (bytes[++at] ?? 0) - 48
    ) {
      value = value * 10 + digit
      if (value > most || value === 0) return false
    }
    this.at = at
    this.number = value
    return value > 0
  }

  protected perMinute(): boolean {
    if (!this.count(MAX_PER_MINUTE)) return false
    this.scratch.draft.perMinute = this.number
    return true
  }

  protected perDay(): boolean {
    if (!this.count(MAX_PER_DAY)) return false
    this.scratch.draft.perDay = this.number
    return true
  }

  /** Written where the next key has its digest. */
  protected digest(): boolean {
    const { bytes, columns } = this
    const { digests } = columns
    let { at } = this
    let to = this.scratch.draft.keys * 32
    for (const end = at + 64; at < end; at += 2) {
      const high = hexValue[bytes[at] ?? 0] ?? 255
      const low = hexValue[bytes[at + 1] ?? 0] ?? 255
      if ((high | low) > 15) return false
      digests[to++] = (high << 4) | low
    }
    this.at = at
    return true
  }

  /** Such as 2027-06-30, from 1970 on. */
  protected date(): boolean {
    const { bytes, at } = this
    if (bytes[at + 4] !== 0x2d || bytes[at + 7] !== 0x2d) return false
    const year = this.#digits(at, 4)
    const month = this.#digits(at + 5, 2)
    const day = this.#digits(at + 8, 2)
    if (!(year >= 1970 && month >= 1 && month <= 12 && day >= 1)) return false
    const isLeap = year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0)
    if (day > (daysIn[month - 1] ?? 0) + (isLeap && month === 2 ? 1 : 0)) return false
    this.at = at + 10
    this.number = Date.UTC(year, month - 1, day)
    return true
  }

  /** NaN: not digits alone. */
  #digits(at: number, length: number): number {
    let value = 0
    for (let i = at; i < at + length; i++) {
      const digit = (this.bytes[i] ?? 0) - 48
      if (digit < 0 || digit > 9) return Number.NaN
      value = value * 10 + digit
    }
    return value
  }

  /** Whether the limits are as the plan asks. */
  protected fits(hasLimits: boolean): boolean {
    const { plan, perMinute, perDay } = this.scratch.draft
    if (this.plans[plan]?.isCustom !== hasLimits) return false
    return !hasLimits || perDay >= perMinute
  }
}
