/**
 * Decides which gateway of a store sends a notice that all of them could send: the first to claim it, and another one if that
 * gateway ends before it is sent.
 */
import { randomUUID } from 'node:crypto'
import type { RedisStore } from './redis/store.ts'

export interface Claims {
  /**
   * others: another gateway is about to send the notice. Where the store does not answer it is sent twice rather than never.
   * Never rejects.
   */
  take(name: string): Promise<'own' | 'others' | 'done'>
  /** The notice was sent; no other gateway sends it before untilMs (Unix time in ms). */
  done(name: string, untilMs: number): Promise<void>
}

/** A claim lasts longer than an attempt takes, and is renewed with each. */
const CLAIM_MS = 15_000

/** Uses only commands that a gateway's Redis user may run in any case (store.redis in config/gateway.yaml); GET is not one. */
const script = `
local holder = redis.call('hget', KEYS[1], 'by')
if ARGV[1] == 'done' or not holder or holder == ARGV[1] then
  local time = redis.call('time')
  redis.call('hset', KEYS[1], 'by', ARGV[1])
  redis.call('pexpireat', KEYS[1], time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2])
  return {ARGV[1]}
end
return {holder}`

/** The claims of a gateway that shares its store with no other. */
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
