/** Counters over a sliding time in Redis; the only file that knows rate-limiter-flexible. */
import { createRequire } from 'node:module'
import type * as Library from 'rate-limiter-flexible'
import type { Count, Counter } from '../contract.ts'
import { createMemoryCounter, STEPS } from '../memory/counter.ts'
import type { RedisStore } from './redis.ts'

/**
 * Counts as memory/counter.ts does, by the server's clock, in one hash: the numbers of its oldest and newest step, the total, and
 * "START POINTS" of each step. The library passes the points and, as ARGV[4], the time in seconds. It receives the total, and how
 * long the oldest step still counts in place of how long the key lives.
 */
export const ADD_SCRIPT = `
local key, timeMs = KEYS[1], math.floor(1000 * tonumber(ARGV[4]) + 0.5)
local stepMs = timeMs / ${STEPS}
local time = redis.call('TIME')
local nowMs = 1000 * tonumber(time[1]) + math.floor(tonumber(time[2]) / 1000)
local kept = redis.call('HMGET', key, 'oldest', 'newest', 'total')
local oldest, newest, total = tonumber(kept[1] or 1), tonumber(kept[2] or 0), tonumber(kept[3] or 0)
local function text(number) return string.format('%.0f', number) end
local function stepAt(number)
  local start, points = string.match(redis.call('HGET', key, text(number)) or '', '^(%d+) (%d+)$')
  return tonumber(start or 0), tonumber(points or 0)
end
local startMs = math.floor(math.floor(nowMs / stepMs) * stepMs)
local sinceMs = startMs
while oldest <= newest do
  local atMs, points = stepAt(oldest)
  if nowMs - atMs < timeMs + stepMs and atMs - nowMs < timeMs then
    sinceMs = atMs
    break
  end
  redis.call('HDEL', key, text(oldest))
  oldest, total = oldest + 1, total - points
end
local lastMs, points
if oldest <= newest then lastMs, points = stepAt(newest) end
if lastMs ~= startMs then newest, points = newest + 1, 0 end
points, total = points + tonumber(ARGV[1]), total + tonumber(ARGV[1])
redis.call('HSET', key, 'oldest', text(oldest), 'newest', text(newest), 'total', text(total),
  text(newest), text(startMs) .. ' ' .. text(points))
redis.call('PEXPIREAT', key, text(math.ceil(nowMs + timeMs + stepMs)))
return { total, math.max(0, timeMs - math.max(0, nowMs - sinceMs)) }
`

/** The library has twenty stores: it is loaded only where Redis is used. */
const library = () => createRequire(import.meta.url)('rate-limiter-flexible') as typeof Library

/** Creates a counter for all processes. While Redis is away or silent, each process counts for itself. */
export function createRedisCounter(
  redis: RedisStore,
  { keyPrefix, withinMs }: { keyPrefix: string; withinMs: number },
): Counter {
  const own = createMemoryCounter(withinMs)
  const add = redis.script(ADD_SCRIPT)
  const remove = redis.script("return { redis.call('DEL', KEYS[1]) }")
  const limiter = new (library().RateLimiterRedis)({
    keyPrefix,
    // No total is too high for the library: the callers judge it.
    points: Number.MAX_SAFE_INTEGER,
    duration: withinMs / 1000,
    // The store bounds the calls, and lets none through while it is away.
    storeClient: {
      rlflxIncr: async ([key = '', ...args]: string[]) => add([key], args),
      del: async (key: string) => remove([key], []),
    },
  })
  const ask = async (key: string, points: number): Promise<Count> => {
    const { consumedPoints: total, msBeforeNext } = await limiter.consume(key, points)
    return { total, forMs: Math.max(0, limiter.msDuration - msBeforeNext) }
  }
  return {
    add: (key, points, nowMs) => ask(key, points).catch(() => own.add(key, points, nowMs)),
    reset: async (key) => {
      own.reset(key)
      await limiter.delete(key)
    },
    useTime: (ms) => {
      own.useTime(ms)
      limiter.duration = ms / 1000
    },
  }
}
