/**
 * Reads a line of JSONL of plain form from its bytes: the known keys, each once, strings without escapes, numbers of digits
 * alone, as src/config/scalars.ts takes them. A line that is taken is valid and means the same there; any other line is left
 * to the schema, which may still accept it or reports its faults.
 */
import { MAX_PER_DAY, MAX_PER_MINUTE } from '../plans.ts'
import { dateMs } from '../scalars.ts'
import { textAt, type Group } from '../tree.ts'
import { hexValue, isFirstIdByte, isIdByte, mayBeReserved, NO_DIGIT } from './byte-tables.ts'
import type { Columns } from './columns.ts'
import type { Scratch } from './scratch.ts'

const [blank, quote, comma, colon] = [0x20, 0x22, 0x2c, 0x3a]
const [openList, closeList, openGroup, closeGroup] = [0x5b, 0x5d, 0x7b, 0x7d]

const named = (...names: readonly string[]) => names.map((name) => Buffer.from(`${name}"`))
const ofClient = named('id', 'plan', 'limits', 'keys')
const ofKey = named('id', 'sha256', 'expires')
const ofLimits = named('perMinute', 'perDay')

/** Bits for the keys of a group, in the order of its names. */
const [ID, PLAN, LIMITS] = [1, 2, 4]
const SHA256 = 2

const jwt = Buffer.from('jwt:')

const LONGEST_CLIENT_ID = 128
const LONGEST_KEY_ID = 160
const LONGEST_DATE = 29

/** Parsed dates that are kept, as most keys of a file end on few of them. */
const DATES_KEPT = 10_000

export class PlainJson {
  readonly #scratch: Scratch
  readonly #columns: Columns
  readonly #plans: readonly Buffer[]
  readonly #isCustom: readonly boolean[]
  readonly #dates = new Map<string, number>()
  /** A line feed, which no value contains, stands behind the end. */
  #bytes: Buffer = Buffer.alloc(1)
  #at = 0
  /** The values read last. */
  #idAt = 0
  #idLength = 0
  #expiresAtMs = Infinity

  /** plans: the group `plans` of the configuration. */
  constructor(scratch: Scratch, plans: Group) {
    const names = Object.keys(plans)
    this.#scratch = scratch
    this.#columns = scratch.columns
    this.#plans = named(...names)
    this.#isCustom = names.map((name) => textAt(plans, name, 'custom') === 'true')
  }

  /** A line feed stands behind end. Returns false if nothing is taken. */
  take(bytes: Buffer, start: number, end: number, line: number): boolean {
    this.#bytes = bytes
    this.#at = start
    this.#scratch.begin()
    const isTaken = this.#client()
    if (bytes[this.#at] === 0x0d) this.#at++
    if (!isTaken || this.#at !== end) return false
    this.#scratch.take(line)
    return true
  }

  #client(): boolean {
    const seen = this.#group(ofClient, this.#ofClient)
    const isWhole = (seen & (ID | PLAN)) === (ID | PLAN)
    return isWhole && this.#fits((seen & LIMITS) !== 0)
  }

  readonly #ofClient = (name: number): boolean => {
    switch (name) {
      case 0:
        return this.#quoted() && this.#clientId() && this.#quoted()
      case 1:
        return this.#quoted() && this.#plan()
      case 2:
        return this.#group(ofLimits, this.#ofLimits) === 3
      default:
        return this.#keys()
    }
  }

  #keys(): boolean {
    if (!this.#takes(openList)) return false
    if (this.#takes(closeList)) return true
    do {
      this.#expiresAtMs = Infinity
      const seen = this.#group(ofKey, this.#ofKey)
      if ((seen & (ID | SHA256)) !== (ID | SHA256)) return false
      this.#scratch.addKey(this.#idAt, this.#idLength, this.#expiresAtMs)
    } while (this.#takes(comma))
    return this.#takes(closeList)
  }

  readonly #ofKey = (name: number): boolean => {
    if (!this.#quoted()) return false
    if (name === 0) return this.#keyId() && this.#quoted()
    if (name === 1) return this.#digest() && this.#quoted()
    return this.#date() && this.#quoted()
  }

  /** Returns the bits of the names that occur; 0: the group is not plain, or empty. */
  #group(names: readonly Buffer[], value: (name: number) => boolean): number {
    if (!this.#takes(openGroup)) return 0
    let seen = 0
    do {
      if (!this.#takes(quote)) return 0
      const name = this.#name(names)
      const bit = 1 << name
      if (name === names.length || (seen & bit) !== 0) return 0
      seen |= bit
      if (!this.#takes(colon) || !this.#blanks() || !value(name)) return 0
    } while (this.#takes(comma))
    return this.#takes(closeGroup) ? seen : 0
  }

  /** Returns the index of the name at this position; the number of names: it is none of them. */
  #name(names: readonly Buffer[]): number {
    const bytes = this.#bytes
    const at = this.#at
    for (let number = 0; number < names.length; number++) {
      const name = names[number]
      if (name === undefined || name[0] !== bytes[at]) continue
      let i = 1
      while (i < name.length && name[i] === bytes[at + i]) i++
      if (i < name.length) continue
      this.#at = at + i
      return number
    }
    return names.length
  }

  #quoted(): boolean {
    if (this.#bytes[this.#at] !== quote) return false
    this.#at++
    return true
  }

  #blanks(): true {
    while (this.#bytes[this.#at] === blank) this.#at++
    return true
  }

  /** Takes the sign with the blanks around it. */
  #takes(sign: number): boolean {
    this.#blanks()
    if (this.#bytes[this.#at] !== sign) return false
    this.#at++
    if (sign !== quote) this.#blanks()
    return true
  }

  /** Takes an id and appends it to the ids. */
  #id(longest: number): boolean {
    const bytes = this.#bytes
    const from = this.#at
    const { ids } = this.#columns
    const { draft } = this.#scratch
    const first = bytes[from] ?? 0
    if (isFirstIdByte[first] === 0) return false
    this.#idAt = draft.idBytes
    let to = draft.idBytes
    let at = from
    while (isIdByte[bytes[at] ?? 0] === 1 && at - from <= longest) ids[to++] = bytes[at++] ?? 0
    this.#idLength = at - from
    if (this.#idLength > longest) return false
    if (mayBeReserved(first, bytes[at - 1] ?? 0, this.#idLength)) return false
    this.#at = at
    draft.idBytes = to
    return true
  }

  #clientId(): boolean {
    if (!this.#id(LONGEST_CLIENT_ID)) return false
    this.#scratch.draft.idAt = this.#idAt
    this.#scratch.draft.idLength = this.#idLength
    return true
  }

  #keyId(): boolean {
    const at = this.#at
    const bytes = this.#bytes
    const isJwt = bytes[at] === jwt[0] && jwt.compare(bytes, at, at + jwt.length) === 0
    return !isJwt && this.#id(LONGEST_KEY_ID)
  }

  #plan(): boolean {
    const number = this.#name(this.#plans)
    this.#scratch.draft.plan = number
    return number < this.#plans.length
  }

  #count(most: number): number {
    const bytes = this.#bytes
    let value = 0
    for (; ; this.#at++) {
      const digit = (bytes[this.#at] ?? 0) - 48
      if (digit < 0 || digit > 9) return value
      value = value * 10 + digit
      // A leading zero, too, is left to the schema.
      if (value > most || value === 0) return 0
    }
  }

  readonly #ofLimits = (name: number): boolean => {
    const { draft } = this.#scratch
    if (name === 0) return (draft.perMinute = this.#count(MAX_PER_MINUTE)) > 0
    return (draft.perDay = this.#count(MAX_PER_DAY)) > 0
  }

  /** Takes a digest and writes it as the one of the next key. */
  #digest(): boolean {
    const bytes = this.#bytes
    const { digests } = this.#columns
    let to = this.#scratch.draft.keys * 32
    for (const end = this.#at + 64; this.#at < end; this.#at += 2) {
      const high = hexValue[bytes[this.#at] ?? 0] ?? NO_DIGIT
      const low = hexValue[bytes[this.#at + 1] ?? 0] ?? NO_DIGIT
      if ((high | low) > 15) return false
      digests[to++] = (high << 4) | low
    }
    return true
  }

  #date(): boolean {
    const bytes = this.#bytes
    const at = this.#at
    const end = bytes.indexOf(quote, at)
    if (end === -1 || end - at > LONGEST_DATE) return false
    const written = bytes.toString('latin1', at, end)
    const read = this.#dates.get(written) ?? dateMs.safeParse(written).data
    if (read === undefined) return false
    if (this.#dates.size < DATES_KEPT) this.#dates.set(written, read)
    this.#expiresAtMs = read
    this.#at = end
    return true
  }

  /** Whether limits are given or left out as the plan requires. */
  #fits(hasLimits: boolean): boolean {
    const { plan, perMinute, perDay } = this.#scratch.draft
    if (this.#isCustom[plan] !== hasLimits) return false
    return !hasLimits || perDay >= perMinute
  }
}
