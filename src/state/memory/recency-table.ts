/** Bounded tables: one drops entries not used lately (second chance: cheaper on the hot path than exact LRU order), one those set the longest ago. */

interface Entry<Value> {
  readonly value: Value
  /** The entry was used since #makeRoom last passed it. */
  isRecent: boolean
}

/** After so many entries in use in a row the table grows past its bound rather than delay a request; later adds catch up. */
const TRIES_PER_ADD = 16

export class RecencyTable<Value> {
  readonly #table = new Map<string, Entry<Value>>()
  readonly #maxEntries: number
  readonly #mayDrop: (value: Value) => boolean

  /** mayDrop: returns whether an entry may be dropped; false keeps it, however long it has been unused. */
  constructor(options: { maxEntries: number; mayDrop: (value: Value) => boolean }) {
    this.#maxEntries = options.maxEntries
    this.#mayDrop = options.mayDrop
  }

  get size(): number {
    return this.#table.size
  }

  /** Marks the entry as used. */
  get(key: string): Value | undefined {
    const entry = this.#table.get(key)
    if (entry === undefined) return undefined
    entry.isRecent = true
    return entry.value
  }

  /** Does not mark the entry as used. */
  peek(key: string): Value | undefined {
    return this.#table.get(key)?.value
  }

  /** Adds a new entry, and returns it; in a full table an entry not used since the last pass makes room. */
  add(key: string, value: Value): Value {
    if (this.#table.size >= this.#maxEntries) this.#makeRoom()
    this.#table.set(key, { value, isRecent: false })
    return value
  }

  delete(key: string): void {
    this.#table.delete(key)
  }

  *entries(): Iterable<[string, Value]> {
    for (const [key, entry] of this.#table) yield [key, entry.value]
  }

  #makeRoom(): void {
    let tries = 0
    for (const [key, entry] of this.#table) {
      if (this.#table.size < this.#maxEntries || tries++ === TRIES_PER_ADD) return
      this.#table.delete(key)
      if (!entry.isRecent && this.#mayDrop(entry.value)) continue
      // The entry moves to the end, with one more chance.
      entry.isRecent = false
      this.#table.set(key, entry)
    }
  }
}

/** Sets a value in a map that forgets whatever was set the longest ago, once it has more than `most`. */
export function keepLatest<Value>(
  kept: Map<string, Value>,
  key: string,
  value: Value,
  most: number,
): void {
  kept.delete(key)
  kept.set(key, value)
  if (kept.size <= most) return
  const [oldest = ''] = kept.keys()
  kept.delete(oldest)
}
