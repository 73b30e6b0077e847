import { afterEach, describe, expect, it, onTestFinished, vi } from 'vitest'
import { BanBook } from '../../../src/core/bans/ban-book.ts'
import type { Judged, Policy } from '../../../src/core/pipeline/exchange.ts'
import { takeQuota } from '../../../src/core/pipeline/take-quota.ts'
import type { Caller } from '../../../src/core/rules/credentials.ts'
import { createRedisBanStore } from '../../../src/state/redis/bans.ts'
import { createMemoryBanStore, type BanStore } from '../../../src/state/bans.ts'
import { serversAt } from '../../support/redis-servers.ts'
import { RedisStore } from '../../../src/state/redis/redis.ts'
import { storeClock } from '../../support/store-clock.ts'
import { banPolicy as policy, strikeCounter } from '../../support/strike-counter.ts'
import { startRedisServer } from '../../support/redis-server.ts'

const minute = 60_000
const hour = 60 * minute
const startMs = 1_790_000_000_000
const until = (condition: () => void) => vi.waitFor(condition, { timeout: 30_000, interval: 25 })
const closings: (() => Promise<void>)[] = []
const closeAll = async (): Promise<void> => {
  for (const close of closings.splice(0).toReversed()) await close()
}
afterEach(closeAll)

/** As strikes do. */
const ban = (book: BanBook, keyId: string): void => book.ban(keyId, { total: 3, forMs: 1000 })
const reason = '3 strikes in 1 s'

/** A book on a clock of its own, with strikes counted in memory. */
function open(store: BanStore, { clock = { nowMs: startMs }, at = (ownMs: number) => ownMs } = {}) {
  const seen = { strike: vi.fn(), banned: vi.fn(), storeLost: vi.fn(), storeBack: vi.fn() }
  const book = new BanBook({
    policy,
    store,
    observer: seen,
    clock: { nowMs: () => clock.nowMs, at },
    counter: strikeCounter(policy),
  })
  closings.push(() => book.close())
  return { book, seen, clock, settled: () => book.settled() }
}

describe('a ban book', () => {
  it('grants a grace period in each window anew', async () => {
    const { book, settled, clock } = open(createMemoryBanStore())
    const refuse = (atMs: number, windowEndMs: number) => {
      clock.nowMs = startMs + atMs
      book.refused('a', startMs + windowEndMs, clock.nowMs)
    }
    for (const atMs of [0, 58_000, 59_000]) refuse(atMs, minute)
    for (const atMs of [minute, minute + 100, minute + 1000]) refuse(atMs, 2 * minute)
    await settled()
    expect(book.running('a')).toBeUndefined()
    refuse(minute + 1001, 2 * minute)
    await settled()
    expect(book.running('a')).toBeDefined()
  })

  it('bans with the very request that earns it, at its time, where no other process counts', () => {
    const { book, clock } = open(createMemoryBanStore())
    for (const atMs of [0, 2000, 2001, 2002]) {
      clock.nowMs = startMs + atMs
      book.refused('a', startMs + minute, clock.nowMs)
    }
    expect(book.running('a')).toMatchObject({ startedMs: startMs + 2002 })
  })

  it.each([0, 3 * hour])(
    'begins a ban at the time that the log has, on a clock that the store is ahead of by %d ms',
    (aheadMs) => {
      const { book, clock } = open(createMemoryBanStore(), { at: (ownMs) => ownMs + aheadMs })
      const endMs = Math.ceil((startMs + aheadMs) / minute) * minute
      const usedUp = { limit: 1, remaining: 0, resetAtSeconds: endMs / 1000, resetAfterSeconds: 1 }
      const view = { minute: usedUp, day: usedUp }
      const refused = { kind: 'refused', degraded: false, window: 'minute', view }
      const policy = {
        bans: book,
        lessee: { take: () => refused },
        tally: { refused: () => undefined },
        timestamps: { next: () => Number.NaN },
      }
      let loggedMs: number | undefined
      for (const beforeEndMs of [2_000, 3, 2, 1]) {
        const decidedMs = endMs - aheadMs - beforeEndMs
        // The process was held up in the last request, until the next minute had begun.
        clock.nowMs = beforeEndMs === 1 ? endMs + 40 : endMs - beforeEndMs
        const exchange = { decidedMs } as Judged
        const caller = { keyId: 'a', clientId: 'a' } as Caller
        void takeQuota(policy as unknown as Policy, exchange, caller)
        loggedMs = exchange.decidedMs
      }
      if (aheadMs === 0) expect(loggedMs).toBe(endMs - 1)
      expect(book.running('a')).toMatchObject({ startedMs: endMs - 1 })
    },
  )

  it('ends a ban to the millisecond, and makes the next one longer', () => {
    const { book, clock, seen } = open(createMemoryBanStore())
    ban(book, 'a')
    expect(book.known().length).toBe(1)
    clock.nowMs = startMs + minute - 1
    expect(book.running('a')).toMatchObject({ untilMs: startMs + minute })
    expect(book.running('b')).toBeUndefined()
    clock.nowMs = startMs + minute
    expect(book.running('a')).toBeUndefined()
    expect(book.known().length).toBe(0)
    ban(book, 'a')
    expect(book.running('a')).toMatchObject({ untilMs: startMs + 3 * minute, count: 2 })
    expect(seen.banned).toHaveBeenCalledTimes(2)
  })
})

describe('a ban book whose store cannot be read at first', () => {
  it.each([
    ['once, says nothing', 1, []],
    ['twice, says that it is lost, and then that it is back', 2, ['storeLost', 'storeBack']],
  ])('%s', async (_, failures, said) => {
    let loads = 0
    const memory = createMemoryBanStore()
    const load = () =>
      ++loads > failures ? memory.load() : Promise.reject(new Error('not there yet'))
    const { seen } = open({ ...memory, load })
    await until(() => expect(loads).toBe(failures + 1))
    const calls = [seen.storeLost, seen.storeBack].map((call) => call.mock.calls.length)
    expect(calls).toEqual(said.length === 0 ? [0, 0] : [1, 1])
  })
})

describe('ban books on one Redis', async () => {
  const server = await startRedisServer()
  afterEach(async () => {
    // Before the server is another: a book of the last test must not write into that of the next.
    await closeAll()
    await server.restart()
  })

  const gateway = async ({ clock = { nowMs: startMs } } = {}) => {
    const redis = new RedisStore({ servers: serversAt(server.url), timeoutMs: 200 })
    closings.push(() => redis.close())
    await until(() => expect(redis.available).toBe(true))
    const opened = open(createRedisBanStore(redis, 't', storeClock()), { clock })
    await opened.book.ready(5000)
    return { ...opened, redis }
  }
  const stored = (keyId: string) => server.cli('hget', 't:bans', keyId)
  const subscribed = (count: number) =>
    until(() => expect(server.cli('pubsub', 'numsub', 't:bans')).toBe(`t:bans\n${count}`))

  it('read one ban to lift it, and to impose it', async () => {
    const { book } = await gateway({ clock: { nowMs: Date.now() } })
    // Once by the probe, once at the start, and once when nothing can be missed any more.
    await until(() =>
      expect(server.cli('info', 'commandstats')).toMatch(/cmdstat_hgetall:calls=[3-9]/),
    )
    const many = Array.from({ length: 500 }, (_, at) => [
      `key-${at}`,
      JSON.stringify({ untilMs: Date.now() + hour, startedMs: Date.now(), count: 1 }),
    ]).flat()
    server.cli('hset', 't:bans', ...many)
    server.cli('config', 'resetstat')
    const act = await book.lift('key-7')
    expect(act?.before).toBeDefined()
    await book.impose('key-8', { forMs: minute, reason: undefined })
    expect(await book.lift('nobody')).toBeUndefined()
    expect(server.cli('info', 'commandstats')).not.toContain('cmdstat_hgetall')
    expect(book.known().map(([keyId]) => keyId)).toEqual(['key-8'])
    expect(await book.list()).toHaveLength(499)
  })

  it('agree on count and end when they ban at the same moment', async () => {
    const one = await gateway()
    const other = await gateway({ clock: { nowMs: startMs + 7 } })
    await subscribed(2)
    ban(one.book, 'a')
    ban(other.book, 'a')
    const expected = { untilMs: startMs + 7 + minute, count: 1, startedMs: startMs + 7, reason }
    await until(() => {
      expect(one.book.running('a')).toEqual(expected)
      expect(other.book.running('a')).toEqual(expected)
      expect(JSON.parse(stored('a'))).toEqual(expected)
    })
  })

  it('do not let an earlier end overwrite a later one in the store', async () => {
    const one = await gateway()
    const store = createRedisBanStore(one.redis, 't', storeClock())
    await store.save('a', { untilMs: startMs + 9, count: 1, startedMs: startMs })
    await store.save('a', { untilMs: startMs + 5, count: 3, startedMs: startMs })
    expect(JSON.parse(stored('a'))).toMatchObject({ untilMs: startMs + 9, count: 1 })
    await store.save('a', { untilMs: startMs + 9, count: 2, startedMs: startMs })
    expect(JSON.parse(stored('a'))).toMatchObject({ count: 2 })
    await store.forget('a', { untilMs: startMs + 9, count: 1, startedMs: startMs })
    expect(stored('a')).not.toBe('')
    await store.forget('a', { untilMs: startMs + 9, count: 2, startedMs: startMs })
    expect(stored('a')).toBe('')
  })

  it('put a ban back over an earlier one, as after a failover that lost the last writes', async () => {
    vi.useFakeTimers({ toFake: ['setInterval'] })
    onTestFinished(() => void vi.useRealTimers())
    const one = await gateway()
    ban(one.book, 'a')
    await until(() => expect(stored('a')).not.toBe(''))
    const earlier = { untilMs: startMs, count: 1, startedMs: startMs - minute }
    server.cli('hset', 't:bans', 'a', JSON.stringify(earlier))
    vi.advanceTimersByTime(30_000)
    await until(() => expect(JSON.parse(stored('a'))).toMatchObject({ untilMs: startMs + minute }))
  })

  it('try again when only their own data cannot be used, without a word from the store', async () => {
    const one = await gateway()
    server.cli('del', 't:bans')
    server.cli('set', 't:bans', 'of another type')
    ban(one.book, 'a')
    await until(() => expect(one.seen.storeLost).toHaveBeenCalledOnce())
    expect(one.redis.available).toBe(true)
    server.cli('del', 't:bans')
    await until(() => expect(stored('a')).not.toBe(''))
    await until(() => expect(one.seen.storeBack).toHaveBeenCalledOnce())
  })

  it('pass over what is no ban, in the hash and on the channel, and overwrite it with one', async () => {
    for (const [field, value] of [
      ['a', 'nonsense'],
      ['b', '{"untilMs":1e300,"count":1,"startedMs":0}'],
      ['c', '{"untilMs":"x"}'],
      ['d', '[1]'],
      ['good', JSON.stringify({ untilMs: startMs + 1, count: 1, startedMs: startMs })],
    ] as const)
      server.cli('hset', 't:bans', field, value)
    const { book } = await gateway()
    await subscribed(1)
    expect(book.running('good')).toBeDefined()
    expect(book.known().length).toBe(1)
    server.cli('publish', 't:bans', 'nonsense')
    server.cli('publish', 't:bans', '{"keyId":7,"untilMs":5,"count":1,"startedMs":1}')
    server.cli('publish', 't:bans', 'null')
    for (const keyId of ['a', 'b', 'c', 'd']) {
      ban(book, keyId)
      await until(() =>
        expect(JSON.parse(stored(keyId))).toMatchObject({ untilMs: startMs + minute }),
      )
    }
  })

  it('start without a Redis that is down, and merge what it holds when it is there', async () => {
    await server.kill()
    const redis = new RedisStore({ servers: serversAt(server.url), timeoutMs: 100 })
    closings.push(() => redis.close())
    const { book } = open(createRedisBanStore(redis, 't', storeClock()))
    await book.ready(50)
    ban(book, 'mine')
    await server.restart()
    const theirs = { untilMs: startMs + 1, count: 1, startedMs: startMs }
    server.cli('hset', 't:bans', 'theirs', JSON.stringify(theirs))
    await until(() => {
      expect(stored('mine')).not.toBe('')
      expect(book.running('mine')).toBeDefined()
    })
  })

  it('remove bans from the store once they are forgotten', async () => {
    const old = { untilMs: startMs - 24 * hour, count: 4, startedMs: startMs - 25 * hour }
    const recent = { ...old, untilMs: old.untilMs + 1 }
    server.cli('hset', 't:bans', 'old', JSON.stringify(old))
    server.cli('hset', 't:bans', 'recent', JSON.stringify(recent))
    const { book } = await gateway()
    await until(() => expect(stored('old')).toBe(''))
    expect(stored('recent')).not.toBe('')
    ban(book, 'recent')
    expect(book.running('recent')).toMatchObject({ count: 5 })
    ban(book, 'old')
    expect(book.running('old')).toMatchObject({ count: 1 })
  })
})
