import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { describe, expect, it } from 'vitest'
import { createAnonymousLimiter as createLimiter } from '../../../src/core/credentials/anonymous-limiter.ts'
import { createAddressCounter } from '../../../src/state/memory/addresses.ts'

const createAnonymousLimiter = (options: { perMinute: number; now: () => number }) =>
  createLimiter({ ...options, counter: createAddressCounter(options) })

const minuteStartMs = 1_790_000_040_000 // 29,833,334 minutes of Unix time

describe('an anonymous limiter', () => {
  it('looks without charging, says when nothing is left, and answers in the same call', () => {
    const limiter = createAnonymousLimiter({ perMinute: 1, now: () => minuteStartMs })
    expect(limiter.peek('a')).toMatchObject({ remaining: 1, exceeded: false })
    expect(limiter.peek('a')).toMatchObject({ remaining: 1, exceeded: false })
    expect(limiter.count('a')).toMatchObject({ remaining: 0, exceeded: false })
    expect(limiter.peek('a')).toMatchObject({ remaining: 0, exceeded: true })
  })

  it('keeps Reset where it is for a whole minute, for every address, and begins anew with the next', async () => {
    let nowMs = minuteStartMs
    const limiter = createAnonymousLimiter({ perMinute: 2, now: () => nowMs })
    for (const [afterMs, waitSeconds] of [
      [0, 60],
      [1, 60],
      [30_000, 30],
      [59_001, 1],
      [59_999, 1],
    ] as const) {
      nowMs = minuteStartMs + afterMs
      for (const view of [await limiter.count('a'), await limiter.peek('b')]) {
        expect(view.resetAtSeconds).toBe(minuteStartMs / 1000 + 60)
        expect(view.resetAfterSeconds).toBe(waitSeconds)
      }
    }
    expect((await limiter.peek('a')).exceeded).toBe(true)
    nowMs = minuteStartMs + 60_000
    expect(await limiter.peek('a')).toMatchObject({
      remaining: 2,
      resetAtSeconds: minuteStartMs / 1000 + 120,
    })
  })

  it('takes less than 64 MB for 100,000 addresses, and lets go of them when the minute ends', () => {
    setFlagsFromString('--expose_gc')
    const collect = runInNewContext('gc') as () => void
    const heapMb = (): number => {
      collect()
      return process.memoryUsage().heapUsed / 1e6
    }
    let nowMs = minuteStartMs
    const limiter = createAnonymousLimiter({ perMinute: 60, now: () => nowMs })
    const beforeMb = heapMb()
    for (let i = 0; i < 100_000; i++) void limiter.count(`2001:db8:${(i >> 8) & 255}:${i}::`)
    expect(heapMb() - beforeMb).toBeGreaterThan(1)
    expect(heapMb() - beforeMb).toBeLessThan(64)
    nowMs += 60_000
    void limiter.count('a')
    expect(heapMb() - beforeMb).toBeLessThan(1)
  })

  it('lets addresses beyond the cap share counts, while those before keep their own', async () => {
    const limiter = createAnonymousLimiter({ perMinute: 1, now: () => minuteStartMs })
    await limiter.count('a')
    for (let i = 1; i < 100_000; i++) await limiter.count(`early-${i}`)
    // 1024 shared counts hold no more than 1024 requests in all, however many the addresses.
    let admitted = 0
    for (let i = 0; i < 3000; i++) if (!(await limiter.count(`flood-${i}`)).exceeded) admitted++
    expect(admitted).toBeLessThanOrEqual(1024)
    expect(admitted).toBeGreaterThan(900)
    expect((await limiter.peek('a')).remaining).toBe(0)
  })
})
