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

export interface UnsavedClients {
  /** Of clients that wait to be saved. */
  readonly size: number
  /** Called with every take, so it costs next to nothing. */
  changed(client: CountedClient): void
  /** Its counters were dropped to make room: what is kept of them has to go too. */
  dropped(client: CountedClient): void
  /** Takes up to `atMost` clients out of the queue, the longest waiting first. */
  next(atMost: number): CountedClient[]
  /** Takes up to `atMost` ids of dropped clients out. */
  nextDropped(atMost: number): string[]
  /** Clients that could not be written after all. */
  putBack(clients: readonly CountedClient[]): void
  putBackDropped(ids: readonly string[]): void
}

export function createUnsavedClients(): UnsavedClients {
  const queue: CountedClient[] = []
  const droppedIds = new Set<string>()
  const changed = (client: CountedClient): void => {
    if (client.isUnsaved) return
    client.isUnsaved = true
    queue.push(client)
  }
  return {
    get size() {
      return queue.length
    },
    changed,
    dropped: (client) => {
      client.isDropped = true
      droppedIds.add(client.id)
    },
    next: (atMost) => {
      const clients = queue.splice(0, atMost)
      for (const client of clients) client.isUnsaved = false
      return clients.filter(({ isDropped }) => !isDropped)
    },
    nextDropped: (atMost) => {
      const ids: string[] = []
      for (const id of droppedIds) {
        if (ids.length === atMost) break
        droppedIds.delete(id)
        ids.push(id)
      }
      return ids
    },
    putBack: (clients) => clients.forEach(changed),
    putBackDropped: (ids) => ids.forEach((id) => droppedIds.add(id)),
  }
}
