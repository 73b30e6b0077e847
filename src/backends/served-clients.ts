/** Whether more than one client is served, known from the last one and when another was served last: no request costs more than three fields. */
import type { Sender } from './outcomes.ts'
import type { Witness } from './standing.ts'

export class ServedClients {
  #clientId: string | undefined
  #lastMs = -Infinity
  #othersMs = -Infinity

  /** The request was answered. */
  served({ clientId, startedMs }: Sender): void {
    if (clientId !== this.#clientId) this.#othersMs = this.#lastMs
    this.#clientId = clientId
    this.#lastMs = startedMs
  }

  /** Whether it is alone: no other was served since. */
  witness(clientId: string, sinceMs: number): Witness {
    const othersMs = clientId === this.#clientId ? this.#othersMs : this.#lastMs
    return { clientId, isAlone: othersMs < sinceMs }
  }
}
