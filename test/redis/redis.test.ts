import { connect, createServer, type AddressInfo } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { setTimeout as sleep } from 'node:timers/promises'
import { serversAt } from '../support/redis-servers.ts'
import { connectRedis } from '../../src/redis/redis.ts'
import { StoreUnavailable } from '../../src/rules/store-unavailable.ts'
import type { RedisStore } from '../../src/redis/store.ts'
import { hset, publish } from '../support/redis-commands.ts'
import { until } from '../support/controlled-authority.ts'
import { ownMs } from '../support/own-time.ts'
import { startRedisServer, type RedisServer } from '../support/redis-server.ts'

/** Longer than a busy machine holds up a call that is to be answered. */
const TIMEOUT_MS = 500

describe('the Redis store', () => {
  let server: RedisServer
  let store: RedisStore
  let states: boolean[]
  beforeEach(async () => {
    server = await startRedisServer()
    states = []
    store = connectRedis({
      servers: serversAt(server.url),
      timeoutMs: TIMEOUT_MS,
      onState: (available) => states.push(available),
    })
    await until(() => store.available)
  })
  afterEach(async () => {
    await store.close()
    server.thaw()
    await server.stop()
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
    const thawedMs = ownMs()
    await until(() => store.available)
    expect(ownMs() - thawedMs).toBeLessThan(2_000 + 1_500)
    expect(states).toEqual([true, false, true])
  })

  it('hears what is published, and subscribes again after a restart and after a freeze', async () => {
    const heard: string[] = []
    let subscribed = 0
    const subscription = {
      message: (text: string) => void heard.push(text),
      subscribed: () => void (subscribed += 1),
    }
    store.subscribe('news', subscription)
    store.subscribe('other', {
      message: () => void heard.push('wrong'),
      subscribed: () => undefined,
    })
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
    await new Promise<void>((resolve) => address.listen(0, '127.0.0.1', resolve))
    const url = `redis://127.0.0.1:${(address.address() as AddressInfo).port}`
    const moved = connectRedis({ servers: serversAt(url), timeoutMs: TIMEOUT_MS })
    await until(() => moved.available)
    await hset(moved, 'hash', 'where', 'old')
    server.cli('REPLICAOF', '127.0.0.1', String(master.port))
    port = master.port
    await until(
      async () => (await hset(moved, 'hash', 'where', 'new').catch(() => 0)) === undefined,
    )
    expect(master.cli('HGET', 'hash', 'where')).toBe('new')
    await moved.close()
    address.close()
    await master.stop()
  })

  it('never shows the password of its address', async () => {
    const locked = await startRedisServer('--requirepass', 'correct-horse')
    const wrong = connectRedis({
      servers: serversAt(`redis://:wrong-horse@127.0.0.1:${locked.port}`),
      timeoutMs: 150,
    })
    await sleep(300)
    expect(wrong.available).toBe(false)
    const fault = await wrong.hgetall('hash').catch((error: unknown) => error)
    expect(fault).toBeInstanceOf(StoreUnavailable)
    expect(String(fault) + JSON.stringify(fault)).not.toContain('horse')
    await wrong.close()
    const right = connectRedis({
      servers: serversAt(`redis://:correct-horse@127.0.0.1:${locked.port}/2`),
      timeoutMs: 150,
    })
    await until(() => right.available)
    await right.close()
    await locked.stop()
  })

  it('is quiet after close', async () => {
    await store.close()
    expect(store.available).toBe(false)
    await sleep(600)
    expect(states).toEqual([true])
    await expect(hset(store, 'a', 'b', 'c')).rejects.toThrow(StoreUnavailable)
  })
})
