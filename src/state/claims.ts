/** Which gateway of a store tells what all of them know: the first that claims it, and another should that one end before it was told. */
import { randomUUID } from 'node:crypto'
import type { RedisStore } from './redis/store.ts'

export interface Claims {
  /** others: they are about to tell it. Without an answer of the store it is told twice rather than never. Never rejects. */
  take(name: string): Promise<'own' | 'others' | 'done'>
  /** It was told; nobody else needs to, until then (Unix time). */
  done(name: string, untilMs: number): Promise<void>
}

/** Longer than an attempt takes; renewed with each. */
const CLAIM_MS = 15_000

/** Of commands that the user of a gateway may run in any case (store.redis in config/gateway.yaml): GET is none of them. */
const script = `
local holder = redis.call('hget', KEYS[1], 'by')
if ARGV[1] == 'done' or not holder or holder == ARGV[1] then
  local time = redis.call('time')
  redis.call('hset', KEYS[1], 'by', ARGV[1])
  redis.call('pexpireat', KEYS[1], time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2])
  return {ARGV[1]}
end
return {holder}`

/** For a gateway that shares its store with no other. */
export const noClaims: Claims = {
  take: () => Promise.resolve('own'),
  done: () => Promise.resolve(),
}

export function redisClaims(redis: RedisStore, prefix: string): Claims {
  const claim = redis.script({ name: 'tollgateClaim', text: script, keyCount: 1 })
  const self = randomUUID()
  const set = async (name: string, value: string, forMs: number): Promise<string> => {
    const keys = [`${prefix}:notified:{${name}}`]
    const [holder] = await claim.run({ keys, args: [value, Math.max(1, Math.round(forMs))] })
    return String(holder)
  }
  return {
    take: async (name) => {
      try {
        const holder = await set(name, self, CLAIM_MS)
        return holder === self ? 'own' : holder === 'done' ? 'done' : 'others'
      } catch {
        return 'own'
      }
    },
    done: async (name, untilMs) => {
      await set(name, 'done', untilMs - Date.now()).catch(() => undefined)
    },
  }
}
