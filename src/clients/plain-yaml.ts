/**
 * Reads an item of a YAML list of plain form, as `tollgate keys new` writes it: a key or dash a line, values without quotes,
 * `limits: { perMinute: N, perDay: N }`, comments on lines of their own.
 */
import { PlainLeaves } from './plain-leaves.ts'

const [lineFeed, carriageReturn, blank, hash, dash] = [0x0a, 0x0d, 0x20, 0x23, 0x2d]

const [ID, PLAN, LIMITS, KEYS] = [1, 2, 4, 8]
const [KEY_ID, SHA256, EXPIRES] = [1, 2, 4]

const words = {
  id: Buffer.from('id: '),
  plan: Buffer.from('plan: '),
  limits: Buffer.from('limits: { perMinute: '),
  perDay: Buffer.from(', perDay: '),
  endOfLimits: Buffer.from(' }'),
  keys: Buffer.from('keys:'),
  sha256: Buffer.from('sha256: '),
  expires: Buffer.from('expires: '),
}

export class PlainYaml extends PlainLeaves {
  #start = 0
  #end = 0
  /** Of the line that was begun last. */
  #indent = 0
  #isItem = false

  /** False: nothing is taken, as the item is not of that form, or not right. */
  take(bytes: Uint8Array, start: number, end: number, line: number): boolean {
    this.bytes = bytes
    this.at = start
    this.#start = start
    this.#end = end
    this.scratch.begin()
    if (!this.#item()) return false
    this.scratch.take(line)
    return true
  }

  #item(): boolean {
    if (this.#line() !== 'line' || !this.#isItem) return false
    // Its keys stand where the first of them does, behind the dash.
    const column = this.#indent
    let seen = 0
    for (;;) {
      const field = this.#field()
      if (field === 0 || (seen & field) !== 0) return false
      seen |= field
      if (field === KEYS && !this.#keys(column)) return false
      if (field !== KEYS && this.#line() === 'broken') return false
      if (this.at >= this.#end) break
      if (this.#isItem || this.#indent !== column) return false
    }
    return (seen & (ID | PLAN)) === (ID | PLAN) && this.fits((seen & LIMITS) !== 0)
  }

  #field(): number {
    if (this.#word(words.id)) return this.clientId() ? ID : 0
    if (this.#word(words.plan)) return this.plan() ? PLAN : 0
    if (this.#word(words.keys)) return KEYS
    if (!this.#word(words.limits)) return 0
    const isRead =
      this.perMinute() && this.#word(words.perDay) && this.perDay() && this.#word(words.endOfLimits)
    return isRead ? LIMITS : 0
  }

  /** The list below `keys:`, up to a line that is not of it. It may stand at the indent of `keys` itself. */
  #keys(column: number): boolean {
    if (this.#line() !== 'line' || !this.#isItem || this.#indent - 2 < column) return false
    const keyColumn = this.#indent
    while (this.at < this.#end && this.#isItem && this.#indent === keyColumn)
      if (!this.#key(keyColumn)) return false
    return true
  }

  #key(column: number): boolean {
    let seen = 0
    let expiresAtMs = Infinity
    do {
      const field = this.#keyField()
      if (field === 0 || (seen & field) !== 0) return false
      seen |= field
      if (field === EXPIRES) expiresAtMs = this.number
      if (this.#line() === 'broken') return false
    } while (this.at < this.#end && !this.#isItem && this.#indent === column)
    if ((seen & (KEY_ID | SHA256)) !== (KEY_ID | SHA256)) return false
    this.scratch.addKey(this.idAt, this.idLength, expiresAtMs)
    return true
  }

  #keyField(): number {
    if (this.#word(words.id)) return this.keyId() && !this.#endsAsKey() ? KEY_ID : 0
    if (this.#word(words.sha256)) return this.digest() ? SHA256 : 0
    return this.#word(words.expires) && this.date() ? EXPIRES : 0
  }

  protected override clientId(): boolean {
    return super.clientId() && !this.#endsAsKey()
  }

  /** With a colon at its end the text is a key of YAML, and no value. */
  #endsAsKey(): boolean {
    return this.bytes[this.at - 1] === 0x3a
  }

  #word(word: Buffer): boolean {
    const { bytes, at } = this
    for (let i = 0; i < word.length; i++) if (word[i] !== bytes[at + i]) return false
    this.at = at + word.length
    return true
  }

  /** Ends the line that is here, unless it is the first, and goes to the next that is no comment, behind its dash if it has one. */
  #line(): 'line' | 'end' | 'broken' {
    const { bytes } = this
    const end = this.#end
    if (this.at > this.#start) {
      if (bytes[this.at] === carriageReturn && this.at + 1 < end) this.at++
      if (this.at < end && bytes[this.at] !== lineFeed) return 'broken'
      this.at++
    }
    for (;;) {
      if (this.at >= end) return 'end'
      const from = this.at
      while (bytes[this.at] === blank) this.at++
      const first = bytes[this.at]
      if (first !== hash && first !== lineFeed && first !== carriageReturn) {
        this.#isItem = first === dash && bytes[this.at + 1] === blank
        if (this.#isItem) this.at += 2
        this.#indent = this.at - from
        return 'line'
      }
      if (!this.#comment()) return 'broken'
    }
  }

  #comment(): boolean {
    const { bytes } = this
    for (; this.at < this.#end && bytes[this.at] !== lineFeed; this.at++) {
      const byte = bytes[this.at] ?? 0
      const isBreak = byte === carriageReturn && bytes[this.at + 1] === lineFeed
      if (!isBreak && (byte < blank || byte > 0x7e)) return false
    }
    this.at++
    return true
  }
}
