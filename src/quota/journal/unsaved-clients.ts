/** Which clients' counters differ from what is kept of them on disk. */
import type { ClientState } from '../authorities/transition.ts'

/** A client of the embedded authority. */
export interface CountedClient {
  readonly id: string
  /** Written by `transition` alone. */
  readonly state: ClientState
  /** It waits in the queue; a second change need not queue it again. Written here alone. */
  isUnsaved: boolean
  /** No longer counted, so that nothing of it is to be written. Written here alone. */
  isDropped: boolean
}

export class UnsavedClients {
  readonly #queue: CountedClient[] = []
  /** Clients no longer counted, which may still be kept. WriteBehind deletes those it has removed. */
  readonly droppedIds = new Set<string>()

  /** Of clients that wait to be saved. */
  get size(): number {
    return this.#queue.length
  }

  /** Called with every take, so it costs next to nothing; also for a client that could not be written after all. */
  changed(client: CountedClient): void {
    if (client.isUnsaved) return
    client.isUnsaved = true
    this.#queue.push(client)
  }

  /** Its counters were dropped to make room: what is kept of them has to go too. */
  dropped(client: CountedClient): void {
    client.isDropped = true
    this.droppedIds.add(client.id)
  }

  /** Takes up to `atMost` clients out of the queue, the longest waiting first. */
  next(atMost: number): CountedClient[] {
    const clients = this.#queue.splice(0, atMost)
    for (const client of clients) client.isUnsaved = false
    return clients.filter(({ isDropped }) => !isDropped)
  }
}
