/** Holds requests until no earlier one can come, ordered by time and then by arrival. */
import { copy, makeColumns, put, type Columns } from './columns.ts'
import type { RequestRow } from './row.ts'

const FIRST_ROOM = 4_096
const CHILDREN = 4

/** A heap of places in columns. Logs are nearly in order, so most requests stay where they are added. */
export class WaitingRows {
  #columns = makeColumns(FIRST_ROOM)
  /** Arrival number of each request; the lower of two at the same time goes first. */
  #order = new Float64Array(FIRST_ROOM)
  /** Places of requests, the earliest at 0; those from #size on are free. */
  #heap = Uint32Array.from({ length: FIRST_ROOM }, (_, place) => place)
  #size = 0

  get size(): number {
    return this.#size
  }

  /** Unix time in ms of the earliest request; Infinity: none waits. */
  get firstMs(): number {
    return this.#size === 0 ? Infinity : (this.#columns.atMs[this.#heap[0] ?? 0] ?? 0)
  }

  add(row: RequestRow, arrival: number): void {
    if (this.#size === this.#heap.length) this.#grow()
    const place = this.#heap[this.#size] ?? 0
    put(row, this.#columns, place)
    this.#order[place] = arrival
    let at = this.#size++
    while (at > 0) {
      const parent = (at - 1) >> 2
      const other = this.#heap[parent] ?? 0
      if (!this.#isBefore(place, other)) break
      this.#heap[at] = other
      at = parent
    }
    this.#heap[at] = place
  }

  /** Moves the earliest request to place `to` of these columns. */
  moveFirst(into: Columns, to: number): void {
    const heap = this.#heap
    const first = heap[0] ?? 0
    copy(this.#columns, first, into, to)
    const size = --this.#size
    const place = heap[size] ?? 0
    heap[size] = first
    let at = 0
    for (;;) {
      const child = CHILDREN * at + 1
      if (child >= size) break
      let least = child
      const end = Math.min(child + CHILDREN, size)
      for (let next = child + 1; next < end; next++)
        if (this.#isBefore(heap[next] ?? 0, heap[least] ?? 0)) least = next
      if (!this.#isBefore(heap[least] ?? 0, place)) break
      heap[at] = heap[least] ?? 0
      at = least
    }
    if (size > 0) heap[at] = place
  }

  #isBefore(one: number, other: number): boolean {
    const oneMs = this.#columns.atMs[one] ?? 0
    const otherMs = this.#columns.atMs[other] ?? 0
    return (
      oneMs < otherMs || (oneMs === otherMs && (this.#order[one] ?? 0) < (this.#order[other] ?? 0))
    )
  }

  #grow(): void {
    const room = 2 * this.#heap.length
    const columns = makeColumns(room)
    for (const [nth, column] of this.#columns.all.entries()) columns.all[nth]?.set(column)
    this.#columns = columns
    const order = new Float64Array(room)
    order.set(this.#order)
    this.#order = order
    const heap = Uint32Array.from({ length: room }, (_, place) => place)
    heap.set(this.#heap)
    this.#heap = heap
  }
}
