/** The counter under strikes, as a gateway makes it: of this process, or of all on one Redis. */
import type { Counter } from '../../src/state/contract.ts'
import { createMemoryCounter } from '../../src/state/memory/counter.ts'
import { createRedisCounter } from '../../src/state/redis/counter.ts'
import type { RedisStore } from '../../src/state/redis/redis.ts'

export function strikeCounter(
  { withinMs }: { readonly withinMs: number },
  redis?: RedisStore,
  timeoutMs = 100,
): Counter {
  if (redis === undefined) return createMemoryCounter(withinMs)
  return createRedisCounter(redis, { keyPrefix: 't:strikes', withinMs, timeoutMs })
}
