/** The counter under strikes, as a gateway makes it: of this process, or of all on one Redis. */
import type { Counter } from '../../src/state/contract.ts'
import { createMemoryCounter } from '../../src/state/memory/counter.ts'
import { createRedisCounter } from '../../src/state/redis/counter.ts'
import type { RedisStore } from '../../src/state/redis/redis.ts'

export function strikeCounter(
  { withinMs }: { readonly withinMs: number },
  redis?: RedisStore,
): Counter {
  if (redis === undefined) return createMemoryCounter(withinMs)
  return createRedisCounter(redis, { keyPrefix: 't:strikes', withinMs })
}

export const banPolicy = {
  strikes: 3,
  withinMs: 60_000,
  graceMs: 1_000,
  durationMs: 60_000,
  growth: 2,
  maxDurationMs: 86_400_000,
  forgetAfterMs: 86_400_000,
}
