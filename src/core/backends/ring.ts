/** A circular linked list adds and removes items in constant time. */

/** An item that is in no ring links to itself. */
export interface Linked<Item> {
  next: Item
  previous: Item
}

export class Ring<Item extends Linked<Item>> {
  /** The first item; undefined: the ring is empty. Written here only. */
  first: Item | undefined

  /** Adds the item as the last one. */
  append(item: Item): void {
    const { first } = this
    if (first === undefined) {
      this.first = item
      return
    }
    item.next = first
    item.previous = first.previous
    first.previous.next = item
    first.previous = item
  }

  remove(item: Item): void {
    const { next, previous } = item
    if (this.first === item) this.first = next === item ? undefined : next
    previous.next = next
    next.previous = previous
    item.next = item
    item.previous = item
  }

  items(): Item[] {
    const items: Item[] = []
    for (let item = this.first; item !== undefined;) {
      items.push(item)
      item = item.next === this.first ? undefined : item.next
    }
    return items
  }
}
