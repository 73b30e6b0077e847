/** Reads a line of JSONL of plain form: the known keys, each once, strings without escapes, numbers of digits alone. */
import { PlainLeaves } from './plain-leaves.ts'

const [blank, quote, comma, colon] = [0x20, 0x22, 0x2c, 0x3a]
const [openList, closeList, openGroup, closeGroup] = [0x5b, 0x5d, 0x7b, 0x7d]

const named = (...names: readonly string[]) => names.map((name) => Buffer.from(`${name}"`))
const ofClient = named('id', 'plan', 'limits', 'keys')
const ofKey = named('id', 'sha256', 'expires')
const ofLimits = named('perMinute', 'perDay')

/** Bits of what a group has, by the order of its names. */
const [ID, PLAN, LIMITS] = [1, 2, 4]
const [KEY_ID, SHA256] = [1, 2]

export class PlainJson extends PlainLeaves {
  /** Behind end stands a line feed. False: nothing is taken, as the line is not of that form, or not right. */
  take(bytes: Uint8Array, start: number, end: number, line: number): boolean {
    this.bytes = bytes
    this.at = start
    this.scratch.begin()
    const isTaken = this.#client()
    if (bytes[this.at] === 0x0d) this.at++
    if (!isTaken || this.at !== end) return false
    this.scratch.take(line)
    return true
  }

  #client(): boolean {
    const seen = this.#group(ofClient, this.#ofClient)
    const needed = ID | PLAN
    return (seen & needed) === needed && this.fits((seen & LIMITS) !== 0)
  }

  readonly #ofClient = (name: number): boolean => {
    switch (name) {
      case 0:
        return this.#quoted() && this.clientId() && this.#quoted()
      case 1:
        return this.#quoted() && this.plan() && this.#quoted()
      case 2:
        return this.#group(ofLimits, this.#ofLimits) === 3
      default:
        return this.#keys()
    }
  }

  readonly #ofLimits = (name: number): boolean => (name === 0 ? this.perMinute() : this.perDay())

  #keys(): boolean {
    if (!this.#takes(openList)) return false
    if (this.#takes(closeList)) return true
    do {
      this.#expiresAtMs = Infinity
      const seen = this.#group(ofKey, this.#ofKey)
      const needed = KEY_ID | SHA256
      if ((seen & needed) !== needed) return false
      this.scratch.addKey(this.idAt, this.idLength, this.#expiresAtMs)
    } while (this.#takes(comma))
    return this.#takes(closeList)
  }

  #expiresAtMs = Infinity

  readonly #ofKey = (name: number): boolean => {
    if (!this.#quoted()) return false
    if (name === 0) return this.keyId() && this.#quoted()
    if (name === 1) return this.digest() && this.#quoted()
    if (!this.date()) return false
    this.#expiresAtMs = this.number
    return this.#quoted()
  }

  /** Bits of the names it has; 0: it is not plain, or empty. */
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

  /** The place of the name that is here; how many there are: none of them. */
  #name(names: readonly Buffer[]): number {
    const { bytes, at } = this
    for (let number = 0; number < names.length; number++) {
      const name = names[number]
      if (name === undefined || name[0] !== bytes[at]) continue
      let i = 1
      while (i < name.length && name[i] === bytes[at + i]) i++
      if (i < name.length) continue
      this.at = at + i
      return number
    }
    return names.length
  }

  #quoted(): boolean {
    if (this.bytes[this.at] !== quote) return false
    this.at++
    return true
  }

  #blanks(): true {
    while (this.bytes[this.at] === blank) this.at++
    return true
  }

  /** The sign, with blanks before and behind it. */
  #takes(sign: number): boolean {
    this.#blanks()
    if (this.bytes[this.at] !== sign) return false
    this.at++
    if (sign !== quote) this.#blanks()
    return true
  }
}
