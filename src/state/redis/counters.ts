/** Reads and resets the counters in Redis: one script on one hash per client. */
import { readFileSync } from 'node:fs'
import { quotaKey, reclaimChannel } from './authority.ts'
import type { RedisStore } from './store.ts'
import { StoreUnavailable } from '../store-unavailable.ts'
import type { ClientCounters, Window } from '../memory/client-counters.ts'
import type { CounterStore } from '../counters.ts'

const text = readFileSync(new URL('./counters.lua', import.meta.url), 'utf8')
const REPLY_LENGTH = 11

/** prefix: store.prefix. The store stays open, as it belongs to the caller. */
export function createRedisCounters(store: RedisStore, prefix: string): CounterStore {
  const script = store.script({ name: 'tollgateCounters', text, keyCount: 1 })
  const run = async (client: string, windows: readonly Window[], channel: string) => {
    const flags = (['minute', 'day'] as const).map((window) => (windows.includes(window) ? 1 : 0))
    const reply = await script.run({
      keys: [quotaKey(prefix, client)],
      args: [...flags, channel],
    })
    const numbers = Array.isArray(reply) ? reply.map(Number) : []
    if (numbers.length !== REPLY_LENGTH || !numbers.every(Number.isSafeInteger))
      throw new StoreUnavailable('error', 'the counters script answered something else')
    const at = (position: number): number => numbers[position] ?? 0
    const of = (minute: number, day: number): ClientCounters => ({
      nowMs: at(0),
      minute: { index: at(1), taken: at(minute), used: at(minute + 1) },
      day: { index: at(4), taken: at(day), used: at(day + 1) },
    })
    return { before: of(2, 5), after: of(7, 9) }
  }
  return {
    attend: ({ id }, windows) => run(id, windows, ''),
    announceReset: async (client) => void (await run(client, [], reclaimChannel(prefix))),
  }
}
