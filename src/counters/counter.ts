/** Counters with a lifetime, in memory or in Redis; the only file that knows rate-limiter-flexible. */
import { RateLimiterRedis, RLWrapperTimeouts } from 'rate-limiter-flexible'
import type { RedisStore } from '../redis/store.ts'
import { createMemoryCounter, type MemoryCounter } from './memory-counter.ts'

/** What a key has come to. */
export interface Count {
  readonly total: number
  /** Since the key's first addition. */
  readonly forMs: number
}

/** One number per key, forgotten a fixed time after the key's first addition. */
export interface Counter {
  /** Other processes add to the same numbers, so that an answer may have to be waited for. */
  readonly isShared: boolean
  /** Adds whole points and says what the key has come to. Never rejects for a total being high. nowMs: Unix time, for a count of this process. */
  add(key: string, points: number, nowMs: number): Count | Promise<Count>
  reset(key: string): void | Promise<void>
  /** For keys whose count begins from here on; rounded up to whole seconds. */
  useLifetime(lifetimeMs: number): void
}

/** Redis takes whole seconds, and 0 as "for ever". */
const wholeSeconds = (ms: number): number => Math.max(Math.ceil(ms / 1000), 1)

interface CounterOptions {
  readonly redis: RedisStore | undefined
  readonly keyPrefix: string
  /** See useLifetime. */
  readonly lifetimeMs: number
  readonly timeoutMs: number
}

/** A counter for all processes on one Redis; without `redis` of this process. */
export function createCounter({ redis, lifetimeMs, ...options }: CounterOptions): Counter {
  const memory = createMemoryCounter(wholeSeconds(lifetimeMs) * 1000)
  const own: MemoryCounter = {
    ...memory,
    useLifetime: (ms) => memory.useLifetime(wholeSeconds(ms) * 1000),
  }
  return redis === undefined ? own : createRedisCounter({ ...options, redis, lifetimeMs, own })
}

/** While the store is away, or silent for `timeoutMs`, each process counts for itself. */
function createRedisCounter({
  redis,
  keyPrefix,
  lifetimeMs,
  timeoutMs,
  own,
}: CounterOptions & { redis: RedisStore; own: MemoryCounter }): Counter {
  // What a total means is not for the library to say.
  const base = { keyPrefix, points: Number.MAX_SAFE_INTEGER, duration: wholeSeconds(lifetimeMs) }
  const limiter = new RateLimiterRedis({
    ...base,
    storeClient: redis.client,
    rejectIfRedisNotReady: true,
  })
  const shared = new RLWrapperTimeouts({ keyPrefix, timeoutMs, limiter })
  const ask = async (key: string, points: number): Promise<Count> => {
    const { consumedPoints: total, msBeforeNext } = await shared.consume(key, points)
    return { total, forMs: Math.max(0, limiter.msDuration - msBeforeNext) }
  }
  return {
    isShared: true,
    add: (key, points, nowMs) =>
      redis.available
        ? ask(key, points).catch(() => own.add(key, points, nowMs))
        : own.add(key, points, nowMs),
    reset: async (key) => {
      own.reset(key)
      if (redis.available) await shared.delete(key)
    },
    useLifetime: (ms) => {
      own.useLifetime(ms)
      limiter.duration = wholeSeconds(ms)
    },
  }
}
