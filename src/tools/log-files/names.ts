/** Numbers the names that occur in logs, and keeps each of them once. */

/** Enough for a million clients with several keys each. */
const MAX_NAMES = 4_000_000
const MAX_CHARS = 128 * 2 ** 20
/** Slots for recent names, by a hash of their bytes; a power of two. */
const RECENT = 8_192

/** There are more names than there can be clients: the field that was given names something else. */
export class TooManyNames extends Error {}

export class Names {
  readonly #numbers = new Map<string, number>()
  #chars = 0
  #added: string[] = []
  /** Bytes of recent names; one that occurs again is not decoded. */
  readonly #recent: (Buffer | undefined)[] = Array.from({ length: RECENT })
  readonly #recentNumbers = new Uint32Array(RECENT)

  /** Returns the number of a name in UTF-8; a name keeps its number. */
  numberOf(bytes: Buffer, from: number, to: number): number {
    let hash = to - from
    for (let at = from; at < to; at++) hash = Math.imul(hash, 31) + (bytes[at] ?? 0)
    hash = (hash ^ (hash >>> 13)) & (RECENT - 1)
    const name = this.#recent[hash]
    if (name !== undefined && isSame(name, bytes, from, to)) return this.#recentNumbers[hash] ?? 0
    this.#recent[hash] = Buffer.from(bytes.subarray(from, to))
    return (this.#recentNumbers[hash] = this.numberOfText(bytes.toString('utf8', from, to)))
  }

  numberOfText(text: string): number {
    const known = this.#numbers.get(text)
    if (known !== undefined) return known
    this.#chars += text.length
    if (this.#numbers.size === MAX_NAMES || this.#chars > MAX_CHARS) throw new TooManyNames()
    this.#added.push(text)
    this.#numbers.set(text, this.#numbers.size)
    return this.#numbers.size - 1
  }

  text(number: number): string | undefined {
    for (const [text, its] of this.#numbers) if (its === number) return text
    return undefined
  }

  /** Returns the names that were added since the last call. */
  takeNew(): string[] {
    const added = this.#added
    this.#added = []
    return added
  }
}

function isSame(name: Buffer, bytes: Buffer, from: number, to: number): boolean {
  if (name.length !== to - from) return false
  for (let at = 0; at < name.length; at++) if (name[at] !== bytes[from + at]) return false
  return true
}
