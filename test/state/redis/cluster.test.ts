import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import { StoreUnavailable } from '../../../src/state/contract.ts'
import type { RedisScript } from '../../../src/state/redis/connections.ts'
import type { RedisStore } from '../../../src/state/redis/redis.ts'
import { createRedisUsageStore } from '../../../src/state/redis/usage.ts'
import { publish } from '../../support/redis-commands.ts'
import { until } from '../../support/controlled-authority.ts'
import { ownMs } from '../../support/own-time.ts'
import { isMaster, recovery } from '../../support/redis-shared.ts'
import { startRedisCluster, type RedisCluster } from '../../support/redis-cluster.ts'
import { redisAt } from '../../support/redis-servers.ts'

const TIMEOUT_MS = 100
/** For what must not fail only because the machine is busy with other tests. */
const PATIENT_MS = 5_000
/** What a bounded call may take beyond its bound, on such a machine. */
const LATE_MS = 600

interface Connected {
  readonly store: RedisStore
  readonly count: RedisScript
  readonly states: boolean[]
  readonly causes: string[]
  readonly timeoutMs: number
  recoveries: number
}

/** Known to be there, or away. */
async function connect(cluster: RedisCluster, timeoutMs = TIMEOUT_MS): Promise<Connected> {
  const states: boolean[] = []
  const causes: string[] = []
  const addresses = cluster.masters.map(({ port }) => ({ host: '127.0.0.1', port }))
  const own = { username: undefined, password: undefined, tls: undefined }
  const store = redisAt(
    { kind: 'cluster', addresses, ...own },
    {
      timeoutMs,
      onState: (available, cause) => {
        states.push(available)
        causes.push(cause)
      },
    },
  )
  const text = "return { redis.call('HINCRBY', KEYS[1], 'n', 1) }"
  const count = store.script(text)
  const connected = { store, count, states, causes, timeoutMs, recoveries: 0 }
  store.onRecovered(() => (connected.recoveries += 1))
  await until(() => states.length > 0)
  return connected
}

/** One key for each master, in their order. */
function keysOf(cluster: RedisCluster): string[] {
  const keys = Array.from({ length: 26 }, (_, at) => `key:{k${at}}`)
  return cluster.masters.map((master) => {
    const key = keys.find((candidate) => cluster.ownerOf(candidate) === master)
    if (key === undefined) throw new Error('no key falls to this master')
    return key
  })
}

/** Counts at the key; the total, or undefined when the store says it is away. Fails when that took too long. */
async function counted({ count, timeoutMs }: Connected, key: string): Promise<number | undefined> {
  const startedMs = ownMs()
  try {
    const [total] = await count([key], [])
    return Number(total)
  } catch (fault) {
    expect(fault).toBeInstanceOf(StoreUnavailable)
    return undefined
  } finally {
    expect(ownMs() - startedMs).toBeLessThan(timeoutMs + LATE_MS)
  }
}

/** Where a busy machine makes one call late, the next ones are not refused for it. */
const served = (connected: Connected, key: string): Promise<void> =>
  until(async () => (await counted(connected, key)) !== undefined)

describe('a cluster of three masters, of which one has a replica', async () => {
  const cluster = await startRedisCluster([1])
  const first = cluster.masters[0]?.port ?? 0
  const all = () => [...cluster.masters, ...cluster.replicas]
  // A test that failed while nodes were away leaves them to the next one.
  afterEach(async () => {
    for (const server of all()) server.thaw()
    await Promise.all(
      all()
        .filter(({ isRunning }) => !isRunning)
        .map((server) => server.restart()),
    )
  })

  it('keeps the totals of each day on one master, different days on any', async () => {
    const { store } = await connect(cluster, PATIENT_MS)
    const usage = createRedisUsageStore(store, 'tollgate')
    const none = { refusedMinute: 0, refusedDay: 0, refusedBan: 0 }
    const rows = Array.from({ length: 100 }, (_, at) => ({
      client: `client-${at}`,
      plan: 'free',
      admitted: 1,
      ...none,
    }))
    const today = Math.floor(Date.now() / 86_400_000)
    const days = [0, 1, 2, 3, 4, 5].map((ago) => today - ago)
    for (const [sequence, day] of days.entries())
      await usage.add({ process: 'p', sequence: sequence + 1, day, rows })
    for (const day of days) {
      const clients = new Set<string>()
      for await (const some of usage.day(day)) for (const { client } of some) clients.add(client)
      expect(clients.size).toBe(100)
    }
    expect(await usage.client('client-7', today - 399, today)).toHaveLength(6)
  })

  it('hears what a script publishes on any master', async () => {
    const { store } = await connect(cluster, PATIENT_MS)
    const heard: string[] = []
    let subscribed = 0
    store.subscribe('news', {
      message: (text) => void heard.push(text),
      subscribed: () => void (subscribed += 1),
    })
    await until(() => subscribed > 0)
    const text = "redis.call('PUBLISH', ARGV[1], KEYS[1]) return {}"
    const tell = store.script(text)
    const keys = keysOf(cluster)
    for (const key of keys) await tell([key], ['news'])
    await until(() => heard.length === keys.length)
    expect(heard.sort()).toEqual(keys.sort())
  })

  it('forgets no script when every node has', async () => {
    const connected = await connect(cluster, PATIENT_MS)
    const keys = keysOf(cluster)
    for (const key of keys) await counted(connected, `${key}:flushed`)
    for (const { cli } of all()) cli('SCRIPT', 'FLUSH')
    for (const key of keys) expect(await counted(connected, `${key}:flushed`)).toBe(2)
    expect(connected.states).toEqual([true])
  })

  it('counts each call once while its slot moves to another master', async () => {
    const connected = await connect(cluster, PATIENT_MS)
    const [, from, to] = cluster.masters
    if (from === undefined || to === undefined) throw new Error('no masters')
    // Not the slot of a key of the other tests.
    const tags = Array.from({ length: 100 }, (_, at) => `moving:{${at}}`)
    const key = tags.find((candidate) => cluster.ownerOf(candidate) === from) ?? ''
    const slot = from.cli('CLUSTER', 'KEYSLOT', key)
    let answers = 0
    const over = new AbortController()
    const load = (async () => {
      while (!over.signal.aborted) {
        if ((await counted(connected, key)) !== undefined) answers += 1
        await sleep(2)
      }
    })()
    await until(() => answers > 10)
    const [fromId, toId] = [from.cli('CLUSTER', 'MYID'), to.cli('CLUSTER', 'MYID')]
    to.cli('CLUSTER', 'SETSLOT', slot, 'IMPORTING', fromId)
    from.cli('CLUSTER', 'SETSLOT', slot, 'MIGRATING', toId)
    from.cli('MIGRATE', '127.0.0.1', String(to.port), key, '0', '1000')
    // Now the old master sends each call on with ASK, and the slot with MOVED once the new one has it.
    const asked = answers
    await until(() => answers > asked + 20)
    for (const { cli } of [to, from]) cli('CLUSTER', 'SETSLOT', slot, 'NODE', toId)
    const moved = answers
    await until(() => answers > moved + 20)
    over.abort()
    await load
    expect(Number(to.cli('HGET', key, 'n'))).toBe(answers)
    expect(connected.states).toEqual([true])
  })

  it('fails at once for the keys of a master that is down, serves the others, and is whole when it is back', async () => {
    const connected = await connect(cluster, 400)
    await until(() => connected.states.at(-1) === true)
    connected.states.splice(0)
    const [lost = '', ...others] = keysOf(cluster)
    const { recoveries } = connected
    await cluster.masters[0]?.kill()
    await until(() => connected.states.length > 0)
    for (let round = 0; round < 100; round++) {
      expect(() => connected.count([lost], [])).toThrow(StoreUnavailable)
      for (const key of others) await served(connected, key)
      await sleep(10)
    }
    expect(connected.store.available).toBe(true)
    await expect(connected.store.hgetall(lost)).rejects.toThrow(StoreUnavailable)
    await cluster.masters[0]?.restart()
    await recovery(first, async () => (await counted(connected, lost)) !== undefined)
    expect(connected.states).toEqual([false, true])
    expect(connected.recoveries).toBeGreaterThan(recoveries)
  })

  it('takes a master without memory for that one alone, and says why', async () => {
    const connected = await connect(cluster, PATIENT_MS)
    const [full = '', ...others] = keysOf(cluster).map((key) => `${key}:memory`)
    cluster.masters[0]?.cli('CONFIG', 'SET', 'maxmemory', '1')
    await until(async () => {
      expect(await counted(connected, full)).toBeUndefined()
      return connected.states.at(-1) === false
    })
    expect(connected.causes.at(-1)).toBe('OOM')
    for (const key of others) expect(await counted(connected, key)).toBe(1)
    cluster.masters[0]?.cli('CONFIG', 'SET', 'maxmemory', '0')
    await recovery(first, () => connected.states.at(-1) === true)
    expect(await counted(connected, full)).toBe(1)
  })

  it('bounds every call while all nodes are frozen, and is back when they are', async () => {
    const connected = await connect(cluster)
    const keys = keysOf(cluster)
    // Replicas too, or they would ask for votes meanwhile.
    for (const server of all()) server.freeze()
    while (connected.store.available)
      expect(await Promise.all(keys.map((key) => counted(connected, key)))).toEqual(
        keys.map(() => undefined),
      )
    expect([connected.store.available, connected.causes.at(-1)]).toEqual([false, 'timeout'])
    await sleep(1_500)
    for (const server of all()) server.thaw()
    await recovery(first, () => connected.states.at(-1) === true)
    for (const key of keys) await served(connected, key)
  })

  it('is found later when no node is there at the start', async () => {
    const [key = ''] = keysOf(cluster)
    for (const server of all()) await server.kill()
    const connected = await connect(cluster)
    expect(connected.states).toEqual([false])
    expect(connected.causes).toEqual(['connection lost'])
    expect(await counted(connected, key)).toBeUndefined()
    await Promise.all(all().map((server) => server.restart()))
    await until(() => connected.states.at(-1) === true)
    await served(connected, key)
  })

  it('goes on with the replica of a master that is frozen, and never stops for the others', async () => {
    const connected = await connect(cluster, 400)
    await until(() => connected.states.at(-1) === true)
    const statesBefore = connected.states.length
    const [other = '', lost = ''] = keysOf(cluster).map((key) => `${key}:failover`)
    for (const key of [lost, other]) await counted(connected, key)
    let subscribed = 0
    const heard: string[] = []
    connected.store.subscribe('failover', {
      message: (text) => void heard.push(text),
      subscribed: () => void (subscribed += 1),
    })
    await until(() => subscribed > 0)
    const { recoveries } = connected
    cluster.masters[1]?.freeze()
    while (!(await isMaster(cluster.replicas[0]?.port ?? 0))) {
      await Promise.all([1, 2, 3].map(() => counted(connected, lost)))
      await served(connected, other)
      await sleep(20)
    }
    const promoted = cluster.replicas[0]?.port ?? 0
    await recovery(promoted, async () => (await counted(connected, lost)) !== undefined)
    await until(() => connected.states.at(-1) === true)
    // A process that stood still meanwhile has not seen it away.
    expect(connected.states[statesBefore] ?? false).toBe(false)
    expect(connected.recoveries).toBeGreaterThan(recoveries)
    await until(async () => {
      await publish(connected.store, 'failover', 'still there').catch(() => undefined)
      return heard.length > 0
    })
    cluster.masters[1]?.thaw()
  })
})
