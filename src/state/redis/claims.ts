/** The claims of gateways that share one Redis. */
import { randomUUID } from 'node:crypto'
import type { Claims } from '../contract.ts'
import type { RedisStore } from './redis.ts'

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

export function redisClaims(redis: RedisStore, prefix: string): Claims {
  const claim = redis.script(script)
  const self = randomUUID()
  const set = async (name: string, value: string, forMs: number): Promise<string> => {
    const key = `${prefix}:notified:{${name}}`
    const [holder] = await claim([key], [value, Math.max(1, Math.round(forMs))])
    return String(holder)
  }
  return {
    take: async (name) => {
      const holder = await set(name, self, CLAIM_MS).catch(() => self)
      return holder === self ? 'own' : holder === 'done' ? 'done' : 'others'
    },
    done: async (name, untilMs) => {
      await set(name, 'done', untilMs - Date.now()).catch(() => undefined)
    },
  }
}
