/** Requests wait for a backend in one line: clients take turns, and each client's requests keep their order. */
import type { Backend } from './backend.ts'

/** A request that asks for a permit. */
export interface Asker {
  readonly clientId: string
  readonly method: string
  /** The backend where the request has just failed. */
  readonly avoid?: Backend | undefined
}

/** It waits in line where no permit is free. */
export interface Waiter extends Asker {
  /** Limit for all waits of the request together. */
  readonly longestWaitMs: number
  /** Time on the balancer's coarse clock. Written by the balancer when the first wait begins. */
  deadlineMs: number | undefined
  /** The request has left the line with a permit, which a report must give back. */
  onPermit(backend: Backend): void
  onOverdue(): void
}

export class Line {
  /** Number of requests in line. Written here only. */
  length = 0
  /** Requests of each client that waits. Clients stand in the order of their turns, and their requests in that of their arrival. */
  readonly #turns = new Map<string, Set<Waiter>>()

  enter(waiter: Waiter): void {
    const { clientId } = waiter
    const own = this.#turns.get(clientId)
    if (own === undefined) this.#turns.set(clientId, new Set([waiter]))
    else own.add(waiter)
    this.length++
  }

  has(clientId: string): boolean {
    return this.#turns.has(clientId)
  }

  /** The first request of each client, in the order of their turns. Requests may enter, leave and be served meanwhile. */
  *firsts(): Iterable<Waiter> {
    for (const [first] of this.#turns.values()) if (first !== undefined) yield first
  }

  /** All requests, those of one client together. Requests may enter, leave and be served meanwhile. */
  *all(): Iterable<Waiter> {
    for (const own of this.#turns.values()) yield* own
  }

  /** Removes a request that got its permit, and moves its client behind all others. */
  serve(waiter: Waiter): void {
    const { clientId } = waiter
    this.leave(waiter)
    const others = this.#turns.get(clientId)
    if (others === undefined) return
    this.#turns.delete(clientId)
    this.#turns.set(clientId, others)
  }

  /** Removes a request; it has no effect if the request has already left. */
  leave(waiter: Waiter): void {
    const { clientId } = waiter
    const own = this.#turns.get(clientId)
    if (own?.delete(waiter) !== true) return
    this.length--
    if (own.size === 0) this.#turns.delete(clientId)
  }
}
