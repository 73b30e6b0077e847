/** Counts strikes per key over all processes, and says when a key has earned a ban. */
import type { BansConfig } from '../config/config.ts'
import { createCounter } from './limiters.ts'
import type { RedisStore } from './redis-store.ts'

export interface Strikes {
  /** Counts one strike in the background. Never throws, never waits. */
  strike(keyId: string): void
  /** Resolves when everything told so far has been counted. */
  settled(): Promise<void>
}

export interface StrikesOptions {
  readonly policy: Pick<BansConfig, 'strikes' | 'withinMs'>
  /** undefined: this process counts for itself. */
  readonly redis: RedisStore | undefined
  /** store.prefix */
  readonly prefix: string
  /** store.timeout, bounds every call. */
  readonly timeoutMs: number
  readonly onBan: (keyId: string) => void
  /** Keys counted at once in this process; strikes of further keys are let go until others are forgotten. */
  readonly maxKeys?: number
}

/** `withinMs` runs from a key's first strike, in whole seconds (rounded up). */
export function createStrikes(options: StrikesOptions): Strikes {
  const { policy, redis, prefix, timeoutMs, onBan, maxKeys = 10_000 } = options
  const counter = createCounter({
    redis,
    keyPrefix: `${prefix}:strikes`,
    points: policy.strikes,
    lifetimeMs: policy.withinMs,
    timeoutMs,
  })
  /** Strikes that came while a call for the key was under way: they go together in the next. */
  const waiting = new Map<string, number>()
  const underway = new Map<string, Promise<void>>()
  /** Keys that have a count, with the time (of performance.now) at which it has ended; in that order. */
  const tracked = new Map<string, number>()

  const isTracked = (keyId: string): boolean => {
    const nowMs = performance.now()
    for (const [oldest, untilMs] of tracked) {
      if (nowMs < untilMs) break
      tracked.delete(oldest)
    }
    if (tracked.has(keyId)) return true
    if (tracked.size >= maxKeys) return false
    tracked.set(keyId, nowMs + policy.withinMs + 1_000)
    return true
  }

  const count = async (keyId: string): Promise<void> => {
    for (let points = 1; points > 0; points = waiting.get(keyId) ?? 0) {
      waiting.delete(keyId)
      if ((await counter.add(keyId, points)) < policy.strikes) continue
      waiting.delete(keyId)
      onBan(keyId)
      await counter.reset(keyId)
    }
  }

  return {
    strike: (keyId) => {
      if (underway.has(keyId)) {
        waiting.set(keyId, (waiting.get(keyId) ?? 0) + 1)
        return
      }
      if (!isTracked(keyId)) return
      // A strike that neither the store nor memory could count is let go: the request it stands for was refused all the same.
      const done = count(keyId)
        .catch(() => waiting.delete(keyId))
        .then(() => void underway.delete(keyId))
      underway.set(keyId, done)
    },
    settled: async () => {
      while (underway.size > 0) await Promise.all(underway.values())
    },
  }
}
