import { setImmediate as immediate } from 'node:timers/promises'
import { describe, expect, it, vi } from 'vitest'
import { Strikes } from '../../../src/core/bans/strikes.ts'
import { strikeCounter } from '../../support/strike-counter.ts'
import { startRedisServer } from '../../support/redis-server.ts'
import { redisAt } from '../../support/redis-servers.ts'

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

  it('are those of 10,000 keys, the one struck longest ago making room', async () => {
    const { strikes, onBan } = create()
    for (const keyId of ['first', 'second']) repeat(strikes, keyId, 4)
    for (let n = 2; n <= 10_000; n++) strikes.strike(`other-${n}`, Date.now())
    for (const keyId of ['second', 'first']) await struck(strikes, keyId, 1)
    expect(onBan.mock.calls.flat()).toEqual(['second'])
  })
})

describe('strikes in Redis', async () => {
  const server = await startRedisServer()
  const create = async (onBan: (keyId: string) => void, timeoutMs = 100) => {
    const redis = redisAt(server.url, { timeoutMs })
    await vi.waitFor(() => expect(redis.available).toBe(true), 20_000)
    const counter = strikeCounter(policy, redis, timeoutMs)
    return new Strikes({ policy, counter, now: Date.now, onBan: (keyId) => onBan(keyId) })
  }

  it('of one key are added up over processes', async () => {
    const onBan = vi.fn()
    const one = await create(onBan, 5000)
    const other = await create(onBan, 5000)
    await struck(one, 'a', 3)
    await struck(other, 'a', 1)
    expect(onBan).not.toHaveBeenCalled()
    expect(server.cli('hget', 't:strikes:a', 'total')).toBe('4')
    expect(Number(server.cli('ttl', 't:strikes:a'))).toBeGreaterThan(50)
    await struck(other, 'a', 1)
    expect(onBan.mock.calls).toEqual([['a']])
    expect(server.cli('exists', 't:strikes:a')).toBe('0')
  })

  it('of a burst go in two calls: the first one, and all that came meanwhile', async () => {
    const strikes = await create(() => undefined, 5000)
    await struck(strikes, 'warm', 1)
    server.cli('config', 'resetstat')
    await struck(strikes, 'burst', 4)
    expect(server.cli('hget', 't:strikes:burst', 'total')).toBe('4')
    expect(server.cli('info', 'commandstats')).toMatch(/cmdstat_pexpireat:calls=2,/)
  })

  it('go on in memory while Redis is frozen, and are not counted twice', async () => {
    const onBan = vi.fn()
    const strikes = await create(onBan)
    server.freeze()
    await struck(strikes, 'a', 4)
    expect(onBan).not.toHaveBeenCalled()
    await struck(strikes, 'a', 1)
    expect(onBan.mock.calls).toEqual([['a']])
  })
})
