/** The counter under strikes, as a gateway makes it: of this process, or of all on one Redis. */
import { createCounter, type Counter } from '../../src/state/counter.ts'
import type { RedisStore } from '../../src/state/redis/store.ts'

export function strikeCounter(
  { withinMs }: { readonly withinMs: number },
  redis?: RedisStore,
  timeoutMs = 100,
): Counter {
  return createCounter({ redis, keyPrefix: 't:strikes', withinMs, timeoutMs })
}
