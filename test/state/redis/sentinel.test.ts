import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { RedisConfig } from '../../../src/config/config.ts'
import { hset, publish } from '../../support/redis-commands.ts'
import { until } from '../../support/controlled-authority.ts'
import { ownMs } from '../../support/own-time.ts'
import { redisAt } from '../../support/redis-servers.ts'
import { askRedis, recovery } from '../../support/redis-shared.ts'
import { startSentinelGroup, type SentinelGroup } from '../../support/redis-sentinel.ts'

const TIMEOUT_MS = 100
/** The promise is 250 ms for a whole decision; the rest is for a machine that is busy with other tests. */
const BOUND_MS = 250 + 500
const PASSWORD = 'correct horse: @/%'

const serversOf = (group: SentinelGroup): RedisConfig & { kind: 'sentinels' } => ({
  kind: 'sentinels',
  addresses: group.sentinels.map(({ port }) => ({ host: '127.0.0.1', port })),
  name: group.name,
  db: 0,
  username: undefined,
  password: undefined,
  sentinelUsername: undefined,
  sentinelPassword: undefined,
  tls: undefined,
})

/** Connected to the master, with a subscription that works. */
async function connected(servers: RedisConfig) {
  const states: boolean[] = []
  const heard: string[] = []
  const onState = (available: boolean) => void states.push(available)
  const store = redisAt(servers, { timeoutMs: TIMEOUT_MS, onState })
  store.subscribe('news', { message: (text) => heard.push(text) })
  /** Until a message gets through from one end to the other. */
  const untilHeard = (text: string): Promise<void> =>
    until(async () => {
      await publish(store, 'news', text).catch(() => undefined)
      return heard.includes(text)
    })
  await until(() => store.available)
  await untilHeard('connected')
  states.splice(0)
  return { store, states, untilHeard }
}

/** Writes without end until the replica is the master, each write bounded; then waits until one succeeds on the replica. promoted: done in between. */
async function expectFailover(
  { replica, untilMaster }: SentinelGroup,
  { store, untilHeard }: Awaited<ReturnType<typeof connected>>,
  promoted = () => {},
): Promise<void> {
  const over = new AbortController()
  const load = (async () => {
    while (!over.signal.aborted) {
      const startedMs = ownMs()
      await hset(store, 'hash', 'field', 'value').catch(() => undefined)
      expect(ownMs() - startedMs).toBeLessThan(BOUND_MS)
      await sleep(20)
    }
  })()
  await untilMaster(replica)
  promoted()
  replica.cli('DEL', 'hash')
  await recovery(replica.port, async () =>
    (await askRedis(replica.port, 'EXISTS hash')).startsWith(':1'),
  )
  over.abort()
  await load
  await until(() => store.available)
  await untilHeard('after the failover')
}

describe.concurrent('the master that sentinels name', () => {
  it('is found while one of them is frozen and another down; when it is killed it is its replica, and stays so when it returns', async () => {
    const group = await startSentinelGroup()
    const { master, replica, sentinels } = group
    sentinels[0]?.freeze()
    await sentinels[1]?.kill()
    const connection = await connected(serversOf(group))
    sentinels[0]?.thaw()
    await master.kill()
    await expectFailover(group, connection)
    expect([connection.states[0], connection.states.at(-1)]).toEqual([false, true])
    await master.restart()
    // As the sentinels make it, some ten seconds later.
    master.cli('REPLICAOF', '127.0.0.1', String(replica.port))
    await until(async () => {
      await hset(connection.store, 'hash', 'later', 'value').catch(() => undefined)
      return replica.cli('HGET', 'hash', 'later') === 'value'
    })
  })

  it('is left for its replica even if it takes writes and no sentinel reaches it any more, nor could say so just then', async () => {
    const group = await startSentinelGroup()
    const connection = await connected(serversOf(group))
    const may = (rule: string) => {
      for (const { cli } of group.sentinels) cli('ACL', 'SETUSER', 'default', rule)
    }
    may('-subscribe')
    for (const { cli } of group.sentinels) cli('CLIENT', 'KILL', 'TYPE', 'pubsub')
    // To the sentinels it is gone, as when a network parts: they ask with PING alone.
    group.master.cli('ACL', 'SETUSER', 'default', '-ping')
    expect(group.master.cli('SET', 'it takes', 'writes')).toBe('OK')
    await expectFailover(group, connection, () => may('+subscribe'))
  })

  it('is left at once on a failover by hand, although it still answers; sentinels and servers are asked with passwords of their own', async () => {
    const group = await startSentinelGroup()
    const { master, replica, sentinels } = group
    const connection = await connected(serversOf(group))
    sentinels[1]?.cli('SENTINEL', 'FAILOVER', group.name)
    await expectFailover(group, connection)
    for (const { cli } of sentinels) {
      cli('SENTINEL', 'SET', group.name, 'auth-pass', PASSWORD)
      cli('ACL', 'SETUSER', 'watcher', 'on', '>watching', '&*', '+@all')
      cli('ACL', 'SETUSER', 'default', 'resetpass', '>unknown')
    }
    for (const { cli } of [master, replica])
      cli('CONFIG', 'SET', 'masterauth', PASSWORD, 'requirepass', PASSWORD)
    const causes: string[] = []
    const connect = (over: Partial<RedisConfig & { kind: 'sentinels' }>) =>
      redisAt(
        { ...serversOf(group), password: PASSWORD, ...over },
        { timeoutMs: TIMEOUT_MS, onState: (_, cause) => void causes.push(cause) },
      )
    const stranger = connect({})
    await until(() => causes.length > 0)
    expect([stranger.available, causes]).toEqual([false, ['NOAUTH']])
    const login = { sentinelUsername: 'watcher', sentinelPassword: 'watching' }
    const known = connect(login)
    await until(() => known.available)
  })
})
