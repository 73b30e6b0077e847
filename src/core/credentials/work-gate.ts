/** Bounds how much costly work runs and waits at once, and shares the turns by address. */

/** A bounded waiting room in which each address has a line of its own, so that nobody fills it for the others. */
export class AddressLines<Item> {
  /** Lines in the order of their next turns. */
  readonly #lines = new Map<string, Item[]>()
  readonly #capacity: number
  #waiting = 0

  /** capacity: items in all lines together. */
  constructor(capacity: number) {
    this.#capacity = capacity
  }

  /**
   * Returns the item that has no place; undefined: all have one. When the room is full the longest line loses its last item,
   * unless the new item's own line would then be the longest.
   */
  add(address: string, item: Item): Item | undefined {
    const own = this.#lines.get(address) ?? []
    let pushedOut: Item | undefined
    if (this.#waiting >= this.#capacity) {
      let longest: Item[] = []
      for (const line of this.#lines.values()) if (line.length > longest.length) longest = line
      if (longest.length <= own.length + 1) return item
      pushedOut = longest.pop()
    } else {
      this.#waiting++
    }
    own.push(item)
    this.#lines.set(address, own)
    return pushedOut
  }

  /** Removes and returns the first item of the line whose turn it is; the lines take turns. */
  next(): Item | undefined {
    const [first] = this.#lines
    if (first === undefined) return undefined
    const [address, line] = first
    const item = line.shift()
    this.#lines.delete(address)
    if (line.length > 0) this.#lines.set(address, line)
    this.#waiting--
    return item
  }
}

/** running: pieces of work at once. waiting: pieces of work in all lines. */
export function createWorkGate({ running, waiting }: { running: number; waiting: number }) {
  let free = running
  const lines = new AddressLines<(mayRun: boolean) => void>(waiting)
  const inLine = (address: string): Promise<boolean> =>
    new Promise((resolve) => lines.add(address, resolve)?.(false))
  /** Runs the work when its address has its turn, and resolves with its result; undefined, without running it, when too much waits. */
  return async <T>(address: string, work: () => Promise<T>): Promise<T | undefined> => {
    if (free > 0) free--
    else if (!(await inLine(address))) return undefined
    try {
      return await work()
    } finally {
      const next = lines.next()
      // The place passes on to the next in line, so that a newcomer cannot take it first.
      if (next) next(true)
      else free++
    }
  }
}
