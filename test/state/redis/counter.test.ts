import { array, assert, asyncProperty, integer, nat, record } from 'fast-check'
import { expect, it } from 'vitest'
import { ADD_SCRIPT } from '../../../src/state/redis/counter.ts'
import { createMemoryCounter } from '../../../src/state/memory/counter.ts'
import { sharedRedis } from '../../support/redis-server.ts'
import { redisAt } from '../../support/redis-servers.ts'
import { until } from '../../support/until.ts'

const { url, prefix } = sharedRedis()
const redis = redisAt(url, { timeoutMs: 5_000 })
await until(() => redis.available)
let run = 0

it('counts in Redis as in memory, whatever the gaps, and through clocks that are set', async () => {
  const text = ADD_SCRIPT.replace("redis.call('TIME')", '{ ARGV[5], ARGV[6] }')
  // At a time of our own the key would be gone at once.
  const addAt = redis.script(text.replace(/redis\.call\('PEXPIREAT'.*/, ''))
  const addition = record({
    points: integer({ min: 1, max: 9 }),
    gapMs: integer({ min: -1_500, max: 2_500 }),
  })
  await assert(
    asyncProperty(
      integer({ min: 1_000, max: 3_001 }),
      array(addition, { maxLength: 40 }),
      nat(999),
      async (withinMs, additions, offsetMs) => {
        const key = `${prefix}-run-${run++}`
        const memory = createMemoryCounter(withinMs)
        let nowMs = 1_790_000_000_000 + offsetMs
        for (const { points, gapMs } of additions) {
          // Mostly forward.
          nowMs += gapMs < -1_000 ? gapMs : Math.abs(gapMs) % 700
          const clock = [Math.floor(nowMs / 1_000), (nowMs % 1_000) * 1_000]
          const reply = await addAt([key], [points, 0, 0, withinMs / 1_000, ...clock])
          const [total, leftMs] = reply.map(Number)
          const counted = memory.add(key, points, nowMs)
          expect(total).toBe(counted.total)
          expect(withinMs - (leftMs ?? 0)).toBe(counted.forMs)
        }
      },
    ),
    { numRuns: 600 },
  )
})
