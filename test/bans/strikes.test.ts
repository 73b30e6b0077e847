import { setImmediate as immediate, setTimeout as sleep } from 'node:timers/promises'
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest'
import { serversAt } from '../support/redis-servers.ts'
import { connectRedis } from '../../src/redis/redis.ts'
import type { RedisStore } from '../../src/redis/store.ts'
import { Strikes } from '../../src/bans/strikes.ts'
import { strikeCounter } from '../support/strike-counter.ts'
import { startRedisServer, type RedisServer } from '../support/redis-server.ts'

const policy = { strikes: 5, withinMs: 60_000 }
const repeat = (strikes: Strikes, keyId: string, times: number, nowMs = Date.now()) => {
  for (let i = 0; i < times; i++) strikes.strike(keyId, nowMs)
}
/** All of them are counted. */
const struck = async (strikes: Strikes, keyId: string, times: number, nowMs?: number) => {
  repeat(strikes, keyId, times, nowMs)
  await strikes.settled()
}

describe('strikes in memory', () => {
  const create = (more: object = {}) => {
    const onBan = vi.fn()
    const options = {
      policy,
      counter: strikeCounter(policy),
      now: Date.now,
      onBan: (keyId: string) => onBan(keyId),
      ...more,
    }
    return { strikes: new Strikes(options), onBan }
  }

  it('ban with the last one that is allowed, and not before', async () => {
    const { strikes, onBan } = create()
    await struck(strikes, 'a', 4)
    expect(onBan).not.toHaveBeenCalled()
    await struck(strikes, 'a', 1)
    expect(onBan.mock.calls).toEqual([['a']])
  })

  it('are told, and none begins by that', () => {
    const { strikes } = create()
    const now = Date.now()
    expect(strikes.known('a', now)).toBe(0)
    strikes.strike('a', now + 1_000)
    strikes.strike('a', now + 3_000)
    expect(strikes.known('a', now + 4_000)).toBe(2)
    expect(strikes.known('a', now + 63_000)).toBe(0)
    strikes.forget('a')
    expect(strikes.known('a', now + 4_000)).toBe(0)
  })

  it('ban without waiting for others of the key to come', async () => {
    const { strikes, onBan } = create()
    repeat(strikes, 'a', 4)
    await immediate()
    expect(onBan).not.toHaveBeenCalled()
    strikes.strike('a', Date.now())
    await immediate()
    expect(onBan.mock.calls).toEqual([['a']])
  })

  it('ban at the same number in a flood of many keys', async () => {
    const { strikes, onBan } = create()
    const keys = Array.from({ length: 100 }, (_, index) => `key-${index}`)
    for (let round = 1; round <= 4; round++)
      for (const keyId of keys) strikes.strike(keyId, Date.now())
    await immediate()
    expect(onBan).not.toHaveBeenCalled()
    for (const keyId of keys) strikes.strike(keyId, Date.now())
    await immediate()
    expect(onBan.mock.calls.flat()).toEqual(keys)
  })

  it('that cannot be counted are let go, and those after them are counted', async () => {
    let isAway = true
    let total = 0
    const counter = {
      isShared: true,
      add: (_: string, points: number) =>
        isAway
          ? Promise.reject(new Error('away'))
          : Promise.resolve({ total: (total += points), forMs: 0 }),
      reset: () => Promise.resolve(void (total = 0)),
    }
    const { strikes, onBan } = create({ counter })
    await struck(strikes, 'a', 7)
    isAway = false
    await struck(strikes, 'a', 4)
    expect(onBan).not.toHaveBeenCalled()
    await struck(strikes, 'a', 1)
    expect(onBan.mock.calls).toEqual([['a']])
  })

  it.each([
    { name: 'at once', strikes: 20, withinMs: 10_000, eachMs: 0, ban: true },
    { name: 'evenly over the time', strikes: 20, withinMs: 10_000, eachMs: 10_000 / 23, ban: true },
    { name: '75 a minute where 60 ban', strikes: 60, withinMs: 60_000, eachMs: 800, ban: true },
    // What is a thousandth of the time too old may still count.
    { name: 'one too few', strikes: 20, withinMs: 10_000, eachMs: 10_020 / 19, ban: false },
  ])('ban as soon as there are enough within the time: $name', ({ strikes, eachMs, ...given }) => {
    const policy = { strikes, withinMs: given.withinMs }
    const { strikes: counted, onBan } = create({ policy, counter: strikeCounter(policy) })
    const last = Array.from({ length: 5 * strikes }, (_, nth) => nth + 1).find((nth) => {
      counted.strike('a', 1_790_000_000_123 + eachMs * nth)
      return onBan.mock.calls.length > 0
    })
    expect(last).toBe(given.ban ? strikes : undefined)
  })

  it('ban in the midst of a burst after a pause, by what is left of those before it', () => {
    const policy = { strikes: 10, withinMs: 10_000 }
    const { strikes, onBan } = create({ policy, counter: strikeCounter(policy) })
    const at = (ms: number, times: number) => {
      for (let n = 0; n < times; n++) strikes.strike('a', 1_790_000_000_000 + ms)
    }
    at(0, 5)
    at(6_000, 4)
    // The first five no longer count.
    at(11_000, 5)
    expect(onBan).not.toHaveBeenCalled()
    at(15_000, 1)
    expect(onBan).toHaveBeenCalledOnce()
  })

  it('begin anew after a ban', async () => {
    const { strikes, onBan } = create()
    await struck(strikes, 'a', 5)
    await struck(strikes, 'a', 4)
    expect(onBan).toHaveBeenCalledTimes(1)
    await struck(strikes, 'a', 1)
    expect(onBan).toHaveBeenCalledTimes(2)
  })

  it('are counted per key, and are forgotten when their time is over', async () => {
    const { strikes, onBan } = create()
    const nowMs = Date.now()
    await struck(strikes, 'a', 4, nowMs)
    await struck(strikes, 'b', 4, nowMs)
    await struck(strikes, 'a', 4, nowMs + 2 * policy.withinMs)
    expect(onBan).not.toHaveBeenCalled()
  })

  it('of more keys than may be counted at once are let go', async () => {
    const { strikes, onBan } = create()
    repeat(strikes, 'first', 5)
    for (let n = 1; n < 10_000; n++) strikes.strike(`other-${n}`, Date.now())
    await struck(strikes, 'late', 5)
    await struck(strikes, 'other-1', 4)
    expect(onBan.mock.calls.flat()).toEqual(['first', 'other-1'])
  })
})

describe('strikes in Redis', () => {
  let server: RedisServer
  const stores: RedisStore[] = []
  beforeAll(async () => {
    server = await startRedisServer()
  })
  afterEach(async () => {
    for (const store of stores.splice(0)) await store.close()
    await server.restart()
  })
  afterAll(() => server.stop())

  const create = async (onBan: (keyId: string) => void, timeoutMs = 100, counted = policy) => {
    const redis = connectRedis({ servers: serversAt(server.url), timeoutMs })
    stores.push(redis)
    await vi.waitFor(() => expect(redis.available).toBe(true), 20_000)
    return {
      redis,
      strikes: new Strikes({
        policy: counted,
        counter: strikeCounter(counted, redis, timeoutMs),
        now: Date.now,
        onBan: (keyId) => onBan(keyId),
      }),
    }
  }

  it('of one key are added up over processes', async () => {
    const onBan = vi.fn()
    const one = await create(onBan, 5000)
    const other = await create(onBan, 5000)
    await struck(one.strikes, 'a', 3)
    await struck(other.strikes, 'a', 1)
    expect(onBan).not.toHaveBeenCalled()
    expect(server.cli('hget', 't:strikes:a', 'total')).toBe('4')
    expect(Number(server.cli('ttl', 't:strikes:a'))).toBeGreaterThan(50)
    await struck(other.strikes, 'a', 1)
    expect(onBan.mock.calls).toEqual([['a']])
    expect(server.cli('exists', 't:strikes:a')).toBe('0')
  })

  it('of a burst go in two calls: the first one, and all that came meanwhile', async () => {
    const { strikes } = await create(() => undefined, 5000)
    await struck(strikes, 'warm', 1)
    server.cli('config', 'resetstat')
    await struck(strikes, 'a', 4)
    expect(server.cli('hget', 't:strikes:a', 'total')).toBe('4')
    expect(server.cli('info', 'commandstats')).toMatch(/cmdstat_pexpireat:calls=2,/)
  })

  it('reach other processes soon, in far fewer calls than there are strikes', async () => {
    const onBan = vi.fn()
    const policy = { strikes: 1_000_000, withinMs: 60_000 }
    const { strikes } = await create(onBan, 5000, policy)
    server.cli('config', 'resetstat')
    const startMs = performance.now()
    let count = 0
    while (performance.now() - startMs < 1000) {
      repeat(strikes, 'a', 50)
      count += 50
      await sleep(1)
    }
    await vi.waitFor(
      () => expect(server.cli('hget', 't:strikes:a', 'total')).toBe(String(count)),
      20_000,
    )
    const [, calls] =
      /cmdstat_pexpireat:calls=(\d+),/.exec(server.cli('info', 'commandstats')) ?? []
    // One to a tenth of a second, and what a ban may hang on.
    expect(Number(calls)).toBeLessThan(Math.max(20, count / 20))
  })

  it('of several processes ban at the number that all of them count', async () => {
    const onBan = vi.fn()
    const one = await create(onBan, 5000)
    const other = await create(onBan, 5000)
    await struck(one.strikes, 'a', 2)
    await struck(other.strikes, 'a', 2)
    expect(onBan).not.toHaveBeenCalled()
    // Nothing but time is waited for: this process has told all it knows and cannot know of the others' last one.
    one.strikes.strike('a', Date.now())
    await vi.waitFor(() => expect(onBan.mock.calls).toEqual([['a']]), 20_000)
  })

  it('go on in memory while Redis is frozen, and are not counted twice', async () => {
    const onBan = vi.fn()
    const { strikes } = await create(onBan)
    server.freeze()
    try {
      await struck(strikes, 'a', 4)
      expect(onBan).not.toHaveBeenCalled()
      await struck(strikes, 'a', 1)
      expect(onBan.mock.calls).toEqual([['a']])
    } finally {
      server.thaw()
    }
  })

  it('go on in memory while Redis is down', async () => {
    const onBan = vi.fn()
    const { strikes, redis } = await create(onBan)
    await server.kill()
    await struck(strikes, 'a', 4)
    await vi.waitFor(() => expect(redis.available).toBe(false), 20_000)
    await struck(strikes, 'a', 1)
    expect(onBan.mock.calls).toEqual([['a']])
  })
})
