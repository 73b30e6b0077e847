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
      const longest = this.#longest()
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

  #longest(): Item[] {
    let longest: Item[] = []
    for (const line of this.#lines.values()) if (line.length > longest.length) longest = line
    return longest
  }
}
