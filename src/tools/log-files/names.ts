/** Names met in logs, each kept once and known by its number from there on. */

/** A million clients with a key each, and room. */
const MAX_NAMES = 4_000_000
const MAX_CHARS = 128 * 2 ** 20
/** Names of late, by a hash of their bytes. A power of two. */
const LATE = 8_192

/** More of them than there can be clients: another field was taken for the client. */
export class TooManyNames extends Error {}

export class Names {
  readonly #numbers = new Map<string, number>()
  #chars = 0
  #added: string[] = []
  /** As they stand in their lines; made to texts only where another one is met. */
  readonly #late: (Buffer | undefined)[] = Array.from({ length: LATE })
  readonly #lateNumbers = new Uint32Array(LATE)

  /** Of UTF-8; the number of what has been met before is the same. */
  of(bytes: Buffer, from: number, to: number): number {
    let hash = to - from
    for (let at = from; at < to; at++) hash = Math.imul(hash, 31) + (bytes[at] ?? 0)
    hash = (hash ^ (hash >>> 13)) & (LATE - 1)
    const late = this.#late[hash]
    if (late !== undefined && isSame(late, bytes, from, to)) return this.#lateNumbers[hash] ?? 0
    this.#late[hash] = Buffer.from(bytes.subarray(from, to))
    return (this.#lateNumbers[hash] = this.ofText(bytes.toString('utf8', from, to)))
  }

  ofText(text: string): number {
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

  /** Those that came since it was last asked. */
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
