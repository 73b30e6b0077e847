/** A bounded table that drops the entries nobody has used lately (second chance: cheaper on the hot path than exact LRU order). */

export interface RecencyTable<Value> {
  readonly size: number
  /** Marks the entry as used. */
  get(key: string): Value | undefined
  /** Leaves the mark as it is. */
  peek(key: string): Value | undefined
  /** Adds a new entry; in a full table one that was not used since the last pass makes room. */
  add(key: string, value: Value): void
  delete(key: string): void
  values(): Iterable<Value>
  entries(): Iterable<[string, Value]>
}

/** With so many entries in use in a row, the table grows past its bound rather than stall a request; later adds catch up. */
const TRIES_PER_ADD = 16

/**
 * maxEntries: how many entries are kept.
 * mayDrop: whether an entry may go; false keeps it, however long it has been unused.
 */
export function createRecencyTable<Value>({
  maxEntries,
  mayDrop,
}: {
  maxEntries: number
  mayDrop: (value: Value) => boolean
}): RecencyTable<Value> {
  interface Entry {
    readonly value: Value
    isRecent: boolean
  }
  const table = new Map<string, Entry>()

  const makeRoom = (): void => {
    let tries = 0
    for (const [key, entry] of table) {
      if (table.size < maxEntries || tries++ === TRIES_PER_ADD) return
      table.delete(key)
      if (!entry.isRecent && mayDrop(entry.value)) continue
      // To the back of the line, with one more chance.
      entry.isRecent = false
      table.set(key, entry)
    }
  }

  return {
    get size() {
      return table.size
    },
    get: (key) => {
      const entry = table.get(key)
      if (entry === undefined) return undefined
      entry.isRecent = true
      return entry.value
    },
    peek: (key) => table.get(key)?.value,
    add: (key, value) => {
      if (table.size >= maxEntries) makeRoom()
      table.set(key, { value, isRecent: false })
    },
    delete: (key) => void table.delete(key),
    *values() {
      for (const entry of table.values()) yield entry.value
    },
    *entries() {
      for (const [key, entry] of table) yield [key, entry.value]
    },
  }
}
