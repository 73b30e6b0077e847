/** The one line in which requests wait for a backend: clients have their turns, the requests of one client their order. */
import type { Backend } from './backend.ts'
import { Ring, type Linked } from './ring.ts'

export interface Waiter {
  readonly clientId: string
  readonly method: string
  /** The line is left; the permit is to be given back with a report. */
  onPermit(backend: Backend): void
  /** The line is left. */
  onOverdue(): void
}

/** Of one request, for all that it waits in its life. */
export class Place implements Linked<Place> {
  next: Place = this
  previous: Place = this
  readonly waiter: Waiter
  readonly longestMs: number
  /** On the coarse clock of the balancer, which writes it when the first wait begins. */
  deadlineMs: number | undefined
  /** Where it has just failed. Written by the balancer. */
  avoid: Backend | undefined
  /** Of its client, while it is in line. Written by the line. */
  turn: Turn | undefined

  /** longestMs: that it may wait, all its waits together. */
  constructor(waiter: Waiter, longestMs: number) {
    this.waiter = waiter
    this.longestMs = longestMs
  }
}

/** One client that waits. */
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
  /** Requests in it. Written here alone. */
  length = 0
  readonly #clients = new Map<string, Turn>()
  readonly #turns = new Ring<Turn>()

  /** Whose turn it is. */
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

  /** The first one of the next client; undefined when there is no further client. */
  after({ turn }: Place): Place | undefined {
    const next = turn?.next
    return next === this.#turns.first ? undefined : next?.places.first
  }

  /** A client waits. */
  has(clientId: string): boolean {
    return this.#clients.has(clientId)
  }

  /** It leaves with its permit, and its client's next turn comes after everybody else's. */
  serve(place: Place): void {
    const { turn } = place
    this.leave(place)
    if (turn?.places.first === undefined) return
    this.#turns.remove(turn)
    this.#turns.append(turn)
  }

  /** Without effect on one that has left. */
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
