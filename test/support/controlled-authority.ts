/** Authorities whose time is set by the test: the embedded one, and the Redis one with the script's TIME line replaced. */
import type { RedisStore } from '../../src/state/redis/redis.ts'
import { createEmbeddedAuthority } from '../../src/state/memory/authority.ts'
import { createRedisAuthority } from '../../src/state/redis/authority.ts'
import type { Authority } from '../../src/state/quota.ts'

import { redisAt } from './redis-servers.ts'
import { until } from './until.ts'

export { until }

/** A Thursday morning in 2100, 10 s into a minute: far enough ahead that no key of it has expired. */
export const START_MS = Date.UTC(2100, 6, 1, 8, 30, 10)

export interface Time {
  /** Unix time in ms, with fractions of 0.001 at most. */
  ms: number
}

export function controlledMemoryAuthority(time: Time, losesData = false): Authority {
  return createEmbeddedAuthority({ clock: { epochMs: () => time.ms }, losesData })
}

/** In use, and closed with the file. */
export async function connectedStore(url: string): Promise<RedisStore> {
  const store = redisAt(url, { timeoutMs: 20_000 })
  await until(() => store.available)
  return store
}

const TIME_LINE = "local time = redis.call('TIME')"

/** Its scripts have the time of the test; they and notices are all that it has. */
export function controlledStore(store: RedisStore, time: Time): RedisStore {
  const controlled: Partial<RedisStore> = {
    script: (text) => {
      // Signs of life have the time of the server.
      if (text.includes('beats')) return store.script(text)
      if (!text.includes(TIME_LINE)) throw new Error(`no line ${TIME_LINE} in ${text}`)
      const timed = text.replace(TIME_LINE, 'local time = { ARGV[#ARGV - 1], ARGV[#ARGV] }')
      const run = store.script(timed)
      return (keys, args) => {
        const seconds = Math.floor(time.ms / 1000)
        const microseconds = Math.round((time.ms - seconds * 1000) * 1000)
        return run(keys, [...args, seconds, microseconds])
      }
    },
    subscribe: (channel, subscription) => store.subscribe(channel, subscription),
    onRecovered: (listener) => store.onRecovered(listener),
  }
  return controlled as RedisStore
}

export function controlledRedisAuthority(
  store: RedisStore,
  { time, prefix }: { time: Time; prefix: string },
): Authority {
  return createRedisAuthority(controlledStore(store, time), prefix)
}
