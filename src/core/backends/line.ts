/** Requests wait for a backend in one line: clients take turns, and each client's requests keep their order. */
import type { Backend } from './backend.ts'

/** An item that is in no ring links to itself. */
interface Linked<Item> {
  next: Item
  previous: Item
}

/** A circular linked list adds and removes items in constant time. */
class Ring<Item extends Linked<Item>> {
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

export interface Waiter {
  readonly clientId: string
  readonly method: string
  /** The request has left the line with a permit, which a report must give back. */
  onPermit(backend: Backend): void
  /** The request has left the line because it waited too long. */
  onOverdue(): void
}

/** A request keeps one place for all its waits. */
export class Place implements Linked<Place> {
  next: Place = this
  previous: Place = this
  readonly waiter: Waiter
  readonly longestMs: number
  /** Time on the balancer's coarse clock. Written by the balancer when the first wait begins. */
  deadlineMs: number | undefined
  /** The backend where the request has just failed. Written by the balancer. */
  avoid: Backend | undefined
  /** The client's turn; undefined: the request is not in line. Written by the line. */
  turn: Turn | undefined

  /** longestMs: limit for all waits of the request together. */
  constructor(waiter: Waiter, longestMs: number) {
    this.waiter = waiter
    this.longestMs = longestMs
  }
}

/** A client that waits, with its requests. */
class Turn implements Linked<Turn> {
  next: Turn = this
  previous: Turn = this
  readonly clientId: string
  readonly places = new Ring<Place>()

  constructor(clientId: string) {
    this.clientId = clientId
  }
}

export class Line {
  /** Number of requests in line. Written here only. */
  length = 0
  readonly #clients = new Map<string, Turn>()
  readonly #turns = new Ring<Turn>()

  /** The request whose turn it is. */
  get first(): Place | undefined {
    return this.#turns.first?.places.first
  }

  enter(place: Place): void {
    const { clientId } = place.waiter
    let turn = this.#clients.get(clientId)
    if (turn === undefined) {
      turn = new Turn(clientId)
      this.#clients.set(clientId, turn)
      this.#turns.append(turn)
    }
    place.turn = turn
    turn.places.append(place)
    this.length++
  }

  /** Returns the next client's first request; undefined when there is no further client. */
  after({ turn }: Place): Place | undefined {
    const next = turn?.next
    return next === this.#turns.first ? undefined : next?.places.first
  }

  has(clientId: string): boolean {
    return this.#clients.has(clientId)
  }

  /** Removes a request that got its permit, and moves its client behind all others. */
  serve(place: Place): void {
    const { turn } = place
    this.leave(place)
    if (turn?.places.first === undefined) return
    this.#turns.remove(turn)
    this.#turns.append(turn)
  }

  /** Removes a request; it has no effect if the request has already left. */
  leave(place: Place): void {
    const { turn } = place
    if (turn === undefined) return
    place.turn = undefined
    this.length--
    turn.places.remove(place)
    if (turn.places.first !== undefined) return
    this.#turns.remove(turn)
    this.#clients.delete(turn.clientId)
  }

  places(): Place[] {
    return this.#turns.items().flatMap(({ places }) => places.items())
  }
}
