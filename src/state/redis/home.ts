/** All state in one Redis, which all gateways of it share. */
import { randomUUID } from 'node:crypto'
import type { Claims, OwnState } from '../contract.ts'
import { StoreClock } from '../store-clock.ts'
import { createRedisAuthority, createRedisCounters } from './authority.ts'
import { createRedisBanStore } from './bans.ts'
import { createRedisCounter } from './counter.ts'
import type { RedisStore } from './redis.ts'
import { createRedisRegister } from './signs-of-life.ts'
import { createRedisUsageStore } from './usage.ts'

/** prefix: of all keys. redis: is closed with the state. */
export function openRedisState(redis: RedisStore, prefix: string): OwnState {
  const clock = new StoreClock()
  const keyPrefix = `${prefix}:recentStrikes`
  return {
    authority: createRedisAuthority(redis, prefix),
    bans: createRedisBanStore(redis, prefix, clock),
    clock,
    strikes: (withinMs) => createRedisCounter(redis, { keyPrefix, withinMs }),
    usage: createRedisUsageStore(redis, prefix),
    counters: createRedisCounters(redis, prefix),
    claims: redisClaims(redis, prefix),
    register: createRedisRegister(redis, prefix),
    health: redis,
    ready: () => redis.ready(),
    close: () => redis.close(),
  }
}

/** A claim lasts longer than an attempt takes, and is renewed with each. */
const CLAIM_MS = 15_000

/** Uses only commands that a gateway's Redis user may run in any case (store.redis in config/gateway.yaml); GET is not one. */
const claimScript = `
local holder = redis.call('hget', KEYS[1], 'by')
if ARGV[1] == 'done' or not holder or holder == ARGV[1] then
  local time = redis.call('time')
  redis.call('hset', KEYS[1], 'by', ARGV[1])
  redis.call('pexpireat', KEYS[1], time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2])
  return {ARGV[1]}
end
return {holder}`

export function redisClaims(redis: RedisStore, prefix: string): Claims {
  const claim = redis.script(claimScript)
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
