import { setImmediate as immediate } from 'node:timers/promises'
import { describe, expect, it, vi } from 'vitest'
import { BanBook } from '../../../src/core/bans/ban-book.ts'
import { createMemoryBanStore } from '../../../src/state/bans.ts'
import type { Counter } from '../../../src/state/contract.ts'
import { banPolicy, strikeCounter } from '../../support/strike-counter.ts'
import { startRedisServer } from '../../support/redis-server.ts'
import { redisAt } from '../../support/redis-servers.ts'

const policy = { ...banPolicy, strikes: 5, graceMs: 0 }
const windowEndMs = Date.UTC(2100, 0, 1)
const strike = (book: BanBook, keyId: string, nowMs = Date.now()): void => {
  // The first 429 of the window is none.
  for (const atMs of [0, nowMs]) book.refused(keyId, windowEndMs, atMs)
}
const repeat = (book: BanBook, keyId: string, times: number) => {
  for (let i = 0; i < times; i++) strike(book, keyId)
}
const struck = async (book: BanBook, keyId: string, times: number) => {
  repeat(book, keyId, times)
  await book.settled()
}
const nothing = (): void => undefined
function create(counter: Counter = strikeCounter(policy)) {
  const onBan = vi.fn()
  const banned = (keyId: string): void => onBan(keyId)
  const book = new BanBook({
    policy,
    counter,
    store: createMemoryBanStore(),
    clock: { nowMs: Date.now, at: Math.floor },
    observer: { strike: nothing, banned, storeLost: nothing, storeBack: nothing },
  })
  return { book, onBan }
}

describe('strikes in memory', () => {
  it('are told, and none begins by that', () => {
    const { book } = create()
    const now = Date.now()
    expect(book.strikesOf('a', now)).toBe(0)
    strike(book, 'a', now + 1_000)
    strike(book, 'a', now + 3_000)
    expect(book.strikesOf('a', now + 4_000)).toBe(2)
    expect(book.strikesOf('a', now + 63_000)).toBe(0)
    const lift = (atMs: number) =>
      book.merge('a', { startedMs: atMs, untilMs: atMs, count: 0, epochMs: atMs, by: 'operator' })
    // Strikes from before it have ended by themselves: those counted came after it.
    lift(now - 120_000)
    expect(book.strikesOf('a', now + 4_000)).toBe(2)
    lift(now)
    expect(book.strikesOf('a', now + 4_000)).toBe(0)
  })

  it('ban without waiting for others of the key to come', async () => {
    const { book, onBan } = create()
    repeat(book, 'a', 4)
    await immediate()
    expect(onBan).not.toHaveBeenCalled()
    strike(book, 'a')
    await immediate()
    expect(onBan.mock.calls).toEqual([['a']])
  })

  it('that cannot be counted are let go, and those after them are counted', async () => {
    let isAway = true
    let total = 0
    const counter: Counter = {
      add: (_, points) =>
        isAway
          ? Promise.reject(new Error('away'))
          : Promise.resolve({ total: (total += points), forMs: 0 }),
      reset: () => Promise.resolve(void (total = 0)),
      useTime: nothing,
    }
    const { book, onBan } = create(counter)
    await struck(book, 'a', 7)
    isAway = false
    await struck(book, 'a', 4)
    expect(onBan).not.toHaveBeenCalled()
    await struck(book, 'a', 1)
    expect(onBan.mock.calls).toEqual([['a']])
  })

  it('are those of 10,000 keys, one that was not struck lately making room', async () => {
    const { book, onBan } = create()
    for (const keyId of ['first', 'second']) repeat(book, keyId, keyId === 'first' ? 4 : 3)
    for (let n = 0; n < 20_000; n++) strike(book, n === 15_000 ? 'second' : `other-${n}`)
    for (const keyId of ['second', 'first']) await struck(book, keyId, 1)
    expect(onBan.mock.calls.flat()).toEqual(['second'])
  })
})

describe('strikes in Redis', async () => {
  const server = await startRedisServer()
  const created = async (timeoutMs = 5000) => {
    const redis = redisAt(server.url, { timeoutMs })
    await vi.waitFor(() => expect(redis.available).toBe(true), 20_000)
    return create(strikeCounter(policy, redis))
  }

  it('of one key are added up over processes', async () => {
    const { book: one } = await created()
    const { book: other, onBan } = await created()
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
    const { book } = await created()
    await struck(book, 'warm', 1)
    server.cli('config', 'resetstat')
    await struck(book, 'burst', 4)
    expect(server.cli('hget', 't:strikes:burst', 'total')).toBe('4')
    expect(server.cli('info', 'commandstats')).toMatch(/cmdstat_pexpireat:calls=2,/)
  })

  it('go on in memory while Redis is frozen, and are not counted twice', async () => {
    const { book, onBan } = await created(100)
    server.freeze()
    await struck(book, 'a', 4)
    expect(onBan).not.toHaveBeenCalled()
    await struck(book, 'a', 1)
    expect(onBan.mock.calls).toEqual([['a']])
  })
})
