/** Counters with a lifetime, in memory or in Redis; the only file that knows rate-limiter-flexible. */
import {
  RateLimiterMemory,
  RateLimiterRedis,
  RLWrapperTimeouts,
  type RateLimiterAbstract,
} from 'rate-limiter-flexible'
import type { RedisStore } from '../redis/store.ts'

/** What a key has come to. */
export interface Count {
  readonly total: number
  /** Since the key's first addition. */
  readonly forMs: number
}

/** One number per key, forgotten a fixed time after the key's first addition. */
export interface Counter {
  /** Adds whole points and resolves with what the key has come to. Never rejects for a total being high. */
  add(key: string, points: number): Promise<Count>
  reset(key: string): Promise<void>
  /** For keys whose count begins from here on; rounded up to whole seconds. */
  useLifetime(lifetimeMs: number): void
}

/** The memory limiter sleeps with setTimeout, which overflows past 24.8 days; the Redis one takes whole seconds, and 0 as "for ever". */
const maxSeconds = 24 * 86_400
const wholeSeconds = (ms: number): number => Math.min(Math.max(Math.ceil(ms / 1000), 1), maxSeconds)

/**
 * A counter for all processes on one Redis. While the store is away, or silent for `timeoutMs`, each process counts
 * for itself. Without `redis` it always does.
 */
export function createCounter(options: {
  readonly redis: RedisStore | undefined
  readonly keyPrefix: string
  /** See useLifetime. */
  readonly lifetimeMs: number
  readonly timeoutMs: number
}): Counter {
  const { redis, keyPrefix, lifetimeMs, timeoutMs } = options
  // What a total means is not for the library to say.
  const base = { keyPrefix, points: Number.MAX_SAFE_INTEGER, duration: wholeSeconds(lifetimeMs) }
  const memory = new RateLimiterMemory(base)
  const add = async (limiter: RateLimiterAbstract, key: string, n: number): Promise<Count> => {
    const { consumedPoints: total, msBeforeNext } = await limiter.consume(key, n)
    return { total, forMs: Math.max(0, memory.msDuration - msBeforeNext) }
  }
  // The insurance sits on the wrapper, not on the Redis limiter within: that one may fail after the wrapper has given up
  // on it, and would then count the same points in memory a second time.
  const limiter =
    redis &&
    new RateLimiterRedis({ ...base, storeClient: redis.client, rejectIfRedisNotReady: true })
  const shared =
    limiter && new RLWrapperTimeouts({ keyPrefix, timeoutMs, insuranceLimiter: memory, limiter })
  return {
    add: (key, n) => add((redis?.available && shared) || memory, key, n),
    reset: async (key) => {
      await memory.delete(key)
      if (redis?.available) await shared?.delete(key)
    },
    useLifetime: (ms) => {
      memory.duration = wholeSeconds(ms)
      if (limiter) limiter.duration = memory.duration
    },
  }
}
