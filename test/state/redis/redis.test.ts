import { connect, createServer } from 'node:net'
import { beforeEach, describe, expect, it } from 'vitest'
import { setTimeout as sleep } from 'node:timers/promises'
import { redisAt } from '../../support/redis-servers.ts'
import { listening } from '../../support/listening.ts'
import { StoreUnavailable } from '../../../src/state/contract.ts'
import type { RedisStore } from '../../../src/state/redis/redis.ts'
import { hset, publish } from '../../support/redis-commands.ts'
import { until } from '../../support/controlled-authority.ts'
import { ownMs } from '../../support/own-time.ts'
import { startRedisServer, type RedisServer } from '../../support/redis-server.ts'
import { recovery } from '../../support/redis-shared.ts'

/** Longer than a busy machine holds up a call that is to be answered. */
const TIMEOUT_MS = 500

describe('the Redis store', () => {
  let server: RedisServer
  let store: RedisStore
  let states: boolean[]
  beforeEach(async () => {
    server = await startRedisServer()
    states = []
    const onState = (available: boolean) => void states.push(available)
    store = redisAt(server.url, { timeoutMs: TIMEOUT_MS, onState })
    await until(() => store.available)
    // A busy machine may have been late at first.
    states.splice(0)
  })

  it('bounds every call, and stops calling after a second of silence', async () => {
    server.freeze()
    const late = () => expect(store.hgetall('hash')).rejects.toMatchObject({ reason: 'timeout' })
    const startedMs = ownMs()
    // However many are late at once: a store that was late once is not away.
    await Promise.all(Array.from({ length: 10 }, late))
    expect(ownMs() - startedMs).toBeLessThan(TIMEOUT_MS + 500)
    expect(store.available).toBe(true)
    // Two of them are a second, less what a timer is early.
    for (let calls = 0; store.available && calls < 2; calls++) await late()
    expect(ownMs() - startedMs).toBeLessThan(3 * TIMEOUT_MS + 1000)
    expect(store.available).toBe(false)
    await expect(store.hgetall('hash')).rejects.toThrow(StoreUnavailable)
    server.thaw()
    await recovery(server.port, () => store.available)
    expect(states).toEqual([false, true])
  })

  it('hears what is published, and subscribes again after a restart and after a freeze', async () => {
    const heard: string[] = []
    let subscribed = 0
    const subscription = {
      message: (text: string) => void heard.push(text),
      subscribed: () => void (subscribed += 1),
    }
    store.subscribe('news', subscription)
    store.subscribe('other', { message: () => void heard.push('wrong') })
    await until(() => subscribed === 1)
    await publish(store, 'news', 'one')
    await until(() => heard.length === 1)
    await server.restart()
    await until(() => subscribed === 2 && store.available)
    await publish(store, 'news', 'two')
    await until(() => heard.length === 2)
    server.freeze()
    await sleep(2500)
    server.thaw()
    await until(() => subscribed >= 3 && store.available)
    await publish(store, 'news', 'three')
    await until(() => heard.length === 3)
    expect(heard).toEqual(['one', 'two', 'three'])
  })

  it('connects anew when the server has become a replica, and so finds the new master', async () => {
    const master = await startRedisServer()
    let port = server.port
    const address = createServer((near) => {
      const far = connect(port, '127.0.0.1')
      near.pipe(far).pipe(near)
      near.on('error', () => far.destroy())
      far.on('error', () => near.destroy())
    })
    const moved = redisAt(`redis://127.0.0.1:${await listening(address)}`, {
      timeoutMs: TIMEOUT_MS,
    })
    await until(() => moved.available)
    await hset(moved, 'hash', 'where', 'old')
    server.cli('REPLICAOF', '127.0.0.1', String(master.port))
    port = master.port
    await until(
      async () => (await hset(moved, 'hash', 'where', 'new').catch(() => 0)) === undefined,
    )
    expect(master.cli('HGET', 'hash', 'where')).toBe('new')
  })

  it('never shows the password of its address', async () => {
    const locked = await startRedisServer('--requirepass', 'correct-horse')
    const as = (password: string) =>
      redisAt(`redis://:${password}@127.0.0.1:${locked.port}/2`, { timeoutMs: 150 })
    const wrong = as('wrong-horse')
    await sleep(300)
    expect(wrong.available).toBe(false)
    const fault = await wrong.hgetall('hash').catch((error: unknown) => error)
    expect(fault).toBeInstanceOf(StoreUnavailable)
    expect(String(fault) + JSON.stringify(fault)).not.toContain('horse')
    const right = as('correct-horse')
    await until(() => right.available)
  })

  it('is quiet after close', async () => {
    await store.close()
    expect(store.available).toBe(false)
    await sleep(600)
    expect(states).toEqual([])
    await expect(hset(store, 'a', 'b', 'c')).rejects.toThrow(StoreUnavailable)
  })
})
