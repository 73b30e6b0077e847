import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { RedisConfig } from '../../src/config/config.ts'
import { connectRedis } from '../../src/redis/redis.ts'
import type { RedisStore } from '../../src/redis/store.ts'
import { hset, publish } from '../support/redis-commands.ts'
import { until } from '../support/controlled-authority.ts'
import { ownMs } from '../support/own-time.ts'
import { startSentinelGroup, type SentinelGroup } from '../support/redis-sentinel.ts'

const TIMEOUT_MS = 100
/** The promise is 250 ms for a whole decision; the rest is for a machine that is busy with other tests. */
const BOUND_MS = 250 + 500
const PASSWORD = 'correct horse: @/%'

const serversOf = (group: SentinelGroup): RedisConfig & { kind: 'sentinels' } => ({
  kind: 'sentinels',
  sentinels: group.sentinels.map(({ port }) => ({ host: '127.0.0.1', port })),
  name: group.name,
  db: 0,
  username: undefined,
  password: undefined,
  sentinelUsername: undefined,
  sentinelPassword: undefined,
  tls: undefined,
})

describe('the master that sentinels name', () => {
  let group: SentinelGroup
  let store: RedisStore
  let states: boolean[]
  let heard: string[]

  const connect = async (servers: RedisConfig): Promise<void> => {
    states = []
    heard = []
    store = connectRedis({
      servers,
      timeoutMs: TIMEOUT_MS,
      onState: (available) => states.push(available),
    })
    store.subscribe('news', { message: (text) => heard.push(text), subscribed: () => undefined })
    await until(() => store.available)
    await untilHeard('connected')
    states.splice(0)
  }
  /** Until a message gets through from one end to the other. */
  const untilHeard = (text: string): Promise<void> =>
    until(async () => {
      await publish(store, 'news', text).catch(() => undefined)
      return heard.includes(text)
    })
  beforeEach(async () => {
    group = await startSentinelGroup()
    await connect(serversOf(group))
  })
  afterEach(async () => {
    await store.close()
    await group.stop()
  })

  /** Writes without end until the replica is the master, each write bounded; then waits until one succeeds on the replica. */
  const expectFailover = async (): Promise<void> => {
    const write = async (): Promise<boolean> => {
      const startedMs = ownMs()
      const isWritten = await hset(store, 'hash', 'field', 'value').then(
        () => true,
        () => false,
      )
      expect(ownMs() - startedMs).toBeLessThan(BOUND_MS)
      return isWritten
    }
    const over = new AbortController()
    const load = (async () => {
      while (!over.signal.aborted) {
        await write()
        await sleep(10)
      }
    })()
    await group.untilMaster(group.replica)
    const promotedMs = ownMs()
    group.replica.cli('DEL', 'hash')
    await until(() => group.replica.cli('EXISTS', 'hash') === '1')
    expect(ownMs() - promotedMs).toBeLessThan(2_000 + 1_500)
    over.abort()
    await load
    await until(() => store.available)
    await untilHeard('after the failover')
  }

  it('is its replica after the master was killed, and stays so when that one returns', async () => {
    await group.master.kill()
    await expectFailover()
    expect([states[0], states.at(-1)]).toEqual([false, true])
    await group.master.restart()
    // As the sentinels make it, some ten seconds later.
    group.master.cli('REPLICAOF', '127.0.0.1', String(group.replica.port))
    await hset(store, 'hash', 'later', 'value')
    expect(group.replica.cli('HGET', 'hash', 'later')).toBe('value')
  }, 60_000)

  it('is its replica after the master froze, with the first sentinel', async () => {
    group.sentinels[0]?.freeze()
    group.master.freeze()
    // That one has a vote, and the other two are enough.
    await sleep(100)
    group.sentinels[0]?.thaw()
    await expectFailover()
    group.master.thaw()
  }, 60_000)

  it('is left at once for its replica on a failover by hand, although it still answers', async () => {
    group.sentinels[1]?.cli('SENTINEL', 'FAILOVER', group.name)
    await expectFailover()
  }, 60_000)

  it('is left for its replica even if it takes writes and no sentinel reaches it any more', async () => {
    // To the sentinels it is gone, as when a network parts: they ask with PING alone.
    group.master.cli('ACL', 'SETUSER', 'default', '-ping')
    await expectFailover()
    expect(group.master.cli('ROLE')).toMatch(/^master/)
  }, 60_000)

  it('is found while a sentinel is frozen and another one down', async () => {
    await store.close()
    group.sentinels[0]?.freeze()
    await group.sentinels[1]?.kill()
    await connect(serversOf(group))
    expect(store.available).toBe(true)
  }, 60_000)
})

describe('sentinels and servers with passwords of their own', () => {
  it('are asked with each', async () => {
    const group = await startSentinelGroup()
    for (const { cli } of group.sentinels) {
      cli('SENTINEL', 'SET', group.name, 'auth-pass', PASSWORD)
      cli('ACL', 'SETUSER', 'watcher', 'on', '>watching', '&*', '+@all')
      cli('ACL', 'SETUSER', 'default', 'resetpass', '>unknown')
    }
    for (const { cli } of [group.master, group.replica])
      cli('CONFIG', 'SET', 'masterauth', PASSWORD, 'requirepass', PASSWORD)
    const causes: string[] = []
    const connect = (over: Partial<RedisConfig & { kind: 'sentinels' }>): RedisStore =>
      connectRedis({
        servers: { ...serversOf(group), password: PASSWORD, ...over },
        timeoutMs: TIMEOUT_MS,
        onState: (_, cause) => causes.push(cause),
      })
    const stranger = connect({})
    await until(() => causes.length > 0)
    expect([stranger.available, causes]).toEqual([false, ['NOAUTH']])
    await stranger.close()
    const login = { sentinelUsername: 'watcher', sentinelPassword: 'watching' }
    const store = connect(login)
    await until(() => store.available)
    await store.close()
    await group.stop()
  }, 60_000)
})
