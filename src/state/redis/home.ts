/** All state in one Redis, which all gateways of it share. */
import type { OwnState } from '../contract.ts'
import { Counters } from '../counters.ts'
import { StoreClock } from '../store-clock.ts'
import { createRedisAuthority, createRedisCounters } from './authority.ts'
import { createRedisBanStore } from './bans.ts'
import { redisClaims } from './claims.ts'
import { createRedisCounter } from './counter.ts'
import type { RedisStore } from './redis.ts'
import { createRedisUsageStore } from './usage.ts'

/** prefix: of all keys. timeoutMs: bound of a strike's call. redis: is closed with the state. */
export function openRedisState(
  redis: RedisStore,
  { prefix, timeoutMs }: { prefix: string; timeoutMs: number },
): OwnState {
  const clock = new StoreClock()
  const keyPrefix = `${prefix}:recentStrikes`
  return {
    authority: createRedisAuthority(redis, prefix),
    embedded: undefined,
    bans: createRedisBanStore(redis, prefix, clock),
    clock,
    strikes: (withinMs) => createRedisCounter(redis, { keyPrefix, withinMs, timeoutMs }),
    usage: createRedisUsageStore(redis, prefix),
    counters: new Counters(createRedisCounters(redis, prefix)),
    claims: redisClaims(redis, prefix),
    health: redis,
    ready: () => redis.ready(),
    close: () => redis.close(),
  }
}
