/** What operators and notices read of the authority's counters, and how the use of a client is set back to 0. */
import { setTimeout as delay } from 'node:timers/promises'
import type { WindowName } from '../../config/time.ts'
import { mayBeDone } from '../../state/contract.ts'
import { shadowId } from '../../state/counters.ts'
import type { ClientCounters, CountedClient, CounterStore } from '../../state/counters.ts'

/** Within this time all processes that receive the notice state their use; otherwise they would state some of it later, as new. */
const STATED_AFTER_MS = 250

export class Counters {
  readonly #store: CounterStore

  constructor(store: CounterStore) {
    this.#store = store
  }

  /** Reads the counters, charging nothing, in the order of the clients; there must be no more of them than a page shows. */
  look(clients: readonly CountedClient[]): Promise<ClientCounters[]> {
    return Promise.all(clients.map(async (one) => (await this.#store.attend(one, [])).after))
  }

  /** Reads the counters, charging nothing, once all processes have stated the use and returned what they held. */
  async settled(client: CountedClient): Promise<ClientCounters> {
    await this.#store.announceReset(client.id)
    await delay(STATED_AFTER_MS)
    return (await this.#store.attend(client, [])).after
  }

  /**
   * Sets the use of these windows back to 0, under shadow limits too. What processes hold cannot be spent beyond the limit, even if
   * they miss the notice. If it rejects with MayBeDone it may be repeated; with any other error nothing was changed.
   */
  async reset(client: CountedClient, windows: readonly WindowName[]) {
    const store = this.#store
    const tried = { ...client, id: shadowId(client.id) }
    const announce = () =>
      Promise.all([store.announceReset(client.id), store.announceReset(tried.id)])
    await announce()
    await delay(STATED_AFTER_MS)
    const attend = (one: CountedClient) => store.attend(one, windows)
    const [done] = await Promise.all([attend(client), attend(tried)]).catch(mayBeDone)
    // A process that misses this notice knows with its next call; the reset is done in any case.
    await announce().catch(() => undefined)
    return done
  }
}
