/** What the authority knows of clients now, and their reset. Both reject while it is away. */
import { setTimeout as delay } from 'node:timers/promises'
import type { Limits } from '../config/config.ts'
import { mayBeDone } from './store-unavailable.ts'
import { type ClientCounters, type Window, shadowId } from './memory/client-counters.ts'

export interface CountedClient {
  readonly id: string
  readonly limits: Limits
}

/** The authority, as operators ask it. */
export interface CounterStore {
  /** In one step; windows: those whose use is set back to 0. */
  attend(
    client: CountedClient,
    windows: readonly Window[],
  ): Promise<{ readonly before: ClientCounters; readonly after: ClientCounters }>
  /** Has all processes return what they hold of this client, state what they have used, and forget refusals. */
  tell(client: string): Promise<void>
}

/** By then all that hear of it have stated what they used: else they would state some of it later, as new. */
const STATED_AFTER_MS = 250

export class Counters {
  readonly #store: CounterStore

  constructor(store: CounterStore) {
    this.#store = store
  }

  /** Charges nothing. In the order of the clients, of which there are to be no more than a page shows. */
  look(clients: readonly CountedClient[]): Promise<ClientCounters[]> {
    return Promise.all(clients.map(async (one) => (await this.#store.attend(one, [])).after))
  }

  /** Charges nothing: what it has used once all processes have stated it; what they held has gone back. */
  async settled(client: CountedClient): Promise<ClientCounters> {
    await this.#store.tell(client.id)
    await delay(STATED_AFTER_MS)
    return (await this.#store.attend(client, [])).after
  }

  /**
   * Sets the use of these windows back to 0, for all processes and hosts, and what is counted of the client by limits that are only
   * tried. Nothing that they hold can then be spent beyond the limit, whatever they have heard of it. Where it rejects with MayBeDone it may be repeated, else nothing was changed.
   */
  async reset(client: CountedClient, windows: readonly Window[]) {
    const store = this.#store
    const tried = { ...client, id: shadowId(client.id) }
    const tell = () => Promise.all([store.tell(client.id), store.tell(tried.id)])
    await tell()
    await delay(STATED_AFTER_MS)
    const attend = (one: CountedClient) => store.attend(one, windows)
    const [done] = await Promise.all([attend(client), attend(tried)]).catch(mayBeDone)
    // Who does not hear it hears with his next call; it is done in any case.
    await tell().catch(() => undefined)
    return done
  }
}
