/** What a real Redis can do to the quota: freeze, die, come back empty, turn read-only, fill up, forget its scripts. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { setTimeout as sleep } from 'node:timers/promises'
import type { OutageMode } from '../../src/config/config.ts'
import { serversAt } from '../support/redis-servers.ts'
import { connectRedis } from '../../src/redis/redis.ts'
import type { RedisStore } from '../../src/redis/store.ts'
import { quotaKey } from '../../src/quota/authorities/redis.ts'
import { Lessee } from '../../src/quota/lessee/lessee.ts'
import type { QuotaObserver } from '../../src/quota/observer.ts'
import type { QuotaDecision } from '../../src/quota/protocol.ts'
import { controlledRedisAuthority, START_MS, until } from '../support/controlled-authority.ts'
import { ownMs } from '../support/own-time.ts'
import { startRedisServer, type RedisServer } from '../support/redis-server.ts'
import { all } from './lessee-harness.ts'

const TIMEOUT_MS = 100
/** The script's clock begins early in a minute, so no window ends during a test. */
const running = () => {
  const bootMs = performance.now()
  return {
    get ms() {
      return START_MS + Math.floor(performance.now() - bootMs)
    },
  }
}
/** The promise is 250 ms; the rest is for a machine that is busy with other tests. */
const DECIDED_WITHIN_MS = 250 + 500
const limits = { perMinute: 100_000, perDay: 1_000_000 }
/** Of processes that have nothing to do for so long. */
let idleMs = 0
const clock = { nowMs: () => performance.now() + idleMs, epochMs: () => Date.now() }

describe('a lessee of a real Redis', () => {
  let server: RedisServer
  let processes: { store: RedisStore; lessee: Lessee; states: boolean[] }[]

  beforeEach(async () => {
    server = await startRedisServer()
    processes = []
  })
  afterEach(async () => {
    for (const { store } of processes) await store.close()
    server.thaw()
    await server.stop()
  })

  const boot = async (outage: OutageMode = 'local') => {
    const states: boolean[] = []
    const store = connectRedis({
      servers: serversAt(server.url),
      timeoutMs: TIMEOUT_MS,
      onState: (available) => states.push(available),
    })
    const authority = controlledRedisAuthority(store, { time: running(), prefix: 't' })
    const processId = `process${processes.length}`
    const lessee = new Lessee({ authority, processId, clock, outage })
    const process = { store, lessee, states }
    processes.push(process)
    await until(() => store.available)
    return process
  }

  /** As Redis has them. */
  const hashOf = async (client: string) => {
    const reader = processes.at(-1)?.store
    return (await reader?.hgetall(quotaKey('t', client))) ?? {}
  }
  const counts = async (client = 'acme') => {
    const { minuteTaken, dayTaken } = await hashOf(client)
    return { minute: Number(minuteTaken), day: Number(dayTaken) }
  }

  /** Leases that nobody spends go back after six seconds. stranded: what may be counted beside. */
  const settledAt = async (admitted: number, stranded = 0): Promise<void> => {
    idleMs += 6_000
    await until(async () => (await counts()).minute === admitted, 'leases back', 5_000).catch(
      () => undefined,
    )
    const { minute, day } = await counts()
    expect(day).toBe(minute)
    expect(minute).toBeGreaterThanOrEqual(admitted)
    expect(minute).toBeLessThanOrEqual(admitted + stranded)
  }

  /** Takes one and fails if that needed longer than a request may wait. */
  const take = async (lessee: Lessee, client = 'acme', own = limits): Promise<QuotaDecision> => {
    const startedMs = ownMs()
    const decision = await lessee.take(client, own)
    expect(ownMs() - startedMs).toBeLessThan(DECIDED_WITHIN_MS)
    return decision
  }

  /** Keeps asking from all processes until the work is done; answers how many requests were admitted. */
  const underLoad = async (work: () => Promise<void>, client = 'acme'): Promise<number> => {
    const stop = new AbortController()
    let admitted = 0
    const load = async (lessee: Lessee): Promise<void> => {
      while (!stop.signal.aborted) {
        const decisions = await Promise.all([1, 2, 3].map(() => take(lessee, client)))
        admitted += decisions.filter((decision) => decision.kind === 'admitted').length
        await sleep(5)
      }
    }
    const loads = processes.map(({ lessee }) => load(lessee))
    await work()
    stop.abort()
    await Promise.all(loads)
    return admitted
  }

  const recovered = async (): Promise<void> => {
    const startedMs = ownMs()
    await until(() => processes.every(({ store }) => store.available))
    expect(ownMs() - startedMs).toBeLessThan(2_000 + 1_500)
  }

  it('shares one limit exactly between processes, and every refusal is free', async () => {
    for (let n = 0; n < 4; n++) await boot()
    const own = { perMinute: 500, perDay: 10_000 }
    const decisions = await all(
      processes.flatMap(({ lessee }) =>
        Array.from({ length: 200 }, () => lessee.take('acme', own)),
      ),
    )
    expect(decisions.filter((decision) => decision.kind === 'admitted').length).toBe(500)
    expect(await counts()).toEqual({ minute: 500, day: 500 })
  })

  it.each([
    { freezes: 'freezes, late executions included', processCount: 2, frozenMs: [300, 300] },
    { freezes: 'one so long that the connection is replaced', processCount: 1, frozenMs: [2000] },
  ])('charges each admission once through $freezes', async ({ processCount, frozenMs }) => {
    for (let n = 0; n < processCount; n++) await boot()
    const admitted = await underLoad(async () => {
      for (const forMs of frozenMs) {
        await sleep(100)
        server.freeze()
        await until(() => processes.every(({ store }) => !store.available))
        await sleep(forMs)
        server.thaw()
        await recovered()
      }
      await sleep(100)
    })
    expect(admitted).toBeGreaterThan(50)
    await settledAt(admitted)
  })

  it('restates the true use when Redis was killed and came back empty', async () => {
    await boot()
    await boot()
    const admitted = await underLoad(async () => {
      await sleep(150)
      await server.kill()
      await sleep(300)
      await server.restart()
      await recovered()
      await sleep(150)
    })
    // A lease whose reply was lost with the store, but which another process was told of, is nobody's until the minute ends.
    await settledAt(admitted, limits.perMinute / 16)
  })

  it('restates the true use of a client that has gone quiet, too', async () => {
    const { lessee } = await boot()
    for (let n = 0; n < 7; n++) await take(lessee, 'quiet')
    await server.restart()
    await until(async () => (await counts('quiet').catch(() => undefined))?.minute === 7)
  })

  it('leaves one field per process behind, however often a client is forgotten and met again', async () => {
    const { store, lessee: other } = await boot()
    await take(other)
    const authority = controlledRedisAuthority(store, { time: running(), prefix: 't' })
    const options = { authority, processId: 'forgetful', clock, outage: 'closed' as const }
    const lessee = new Lessee({ ...options, lease: 'off', maxClients: 1 })
    const fields = new Set<number>()
    let others = 0
    for (let meeting = 0; meeting < 10; meeting++) {
      await take(lessee)
      fields.add(Object.keys(await hashOf('acme')).length)
      await until(async () => {
        await take(lessee, `other-${others++}`)
        return lessee.known('acme', limits) === undefined
      })
    }
    expect(fields.size).toBe(1)
    const holders = Object.keys(await hashOf('acme')).filter((name) => name.startsWith('process:'))
    expect(holders).toHaveLength(2)
    expect(await counts()).toEqual({ minute: 11, day: 11 })
    await lessee.drain()
  })

  it('notices that Redis was flushed, and goes on counting', async () => {
    await boot()
    await boot()
    const admitted = await underLoad(async () => {
      await sleep(150)
      server.cli('FLUSHALL')
      await sleep(150)
      server.cli('SCRIPT', 'FLUSH')
      await sleep(150)
    })
    await settledAt(admitted)
    expect(processes.map(({ states }) => states)).toEqual([[true], [true]])
  })

  it('is in an outage while Redis is a replica, and recovers by itself', async () => {
    const { lessee, store, states } = await boot()
    expect(await take(lessee)).toMatchObject({ kind: 'admitted', degraded: false })
    server.cli('REPLICAOF', '127.0.0.1', '1')
    await until(async () => {
      await take(lessee)
      return !store.available
    })
    expect(lessee.take('acme', limits)).toMatchObject({ kind: 'admitted', degraded: true })
    server.cli('REPLICAOF', 'NO', 'ONE')
    await recovered()
    expect(await take(lessee)).toMatchObject({ degraded: false })
    expect(states).toEqual([true, false, true])
  })

  it('is in an outage while Redis is out of memory, and recovers by itself', async () => {
    const { lessee, store } = await boot('closed')
    server.cli('CONFIG', 'SET', 'maxmemory', '1')
    await until(async () => {
      expect((await take(lessee)).kind).toBe('unavailable')
      return !store.available
    })
    server.cli('CONFIG', 'SET', 'maxmemory', '0')
    await recovered()
    expect(await take(lessee)).toMatchObject({ kind: 'admitted', degraded: false })
  })

  it('takes a key of the wrong type for an outage of that client alone', async () => {
    const { lessee, store } = await boot('closed')
    server.cli('SET', quotaKey('t', 'broken'), 'text')
    for (let n = 0; n < 10; n++) expect((await take(lessee, 'broken')).kind).toBe('unavailable')
    expect(store.available).toBe(true)
    expect(await take(lessee)).toMatchObject({ kind: 'admitted', degraded: false })
    server.cli('DEL', quotaKey('t', 'broken'))
    expect(await take(lessee, 'broken')).toMatchObject({ kind: 'admitted', degraded: false })
  })

  it('decides without delay when Redis is not there from the start, and finds it later', async () => {
    await server.kill()
    const store = connectRedis({ servers: serversAt(server.url), timeoutMs: TIMEOUT_MS })
    const authority = controlledRedisAuthority(store, { time: running(), prefix: 't' })
    const options = { authority, processId: 'early', clock }
    const lessee = new Lessee({ ...options, outage: 'closed' })
    processes.push({ store, lessee, states: [] })
    expect(lessee.take('acme', limits)).toEqual({ kind: 'unavailable' })
    await server.restart()
    await recovered()
    expect(await take(lessee)).toMatchObject({ kind: 'admitted', degraded: false })
  })

  it('tells the observer of calls, decisions and degraded ones', async () => {
    const reported: string[] = []
    const observe: QuotaObserver = {
      decision: (window, outcome) => void reported.push(`${outcome} ${window}`),
      storeCall: (outcome, seconds) => {
        expect(seconds).toBeGreaterThan(0)
        reported.push(`call ${outcome}`)
      },
      degraded: (mode) => void reported.push(mode),
    }
    const { store } = await boot()
    const time = running()
    const authority = controlledRedisAuthority(store, { time, prefix: 'u', observe })
    const options = { authority, processId: 'seen', clock, observe }
    const lessee = new Lessee({ ...options, outage: 'local' })
    const own = { perMinute: 1, perDay: 10 }
    await take(lessee, 'acme', own)
    await take(lessee, 'acme', own)
    server.cli('SET', quotaKey('u', 'broken'), 'text')
    await take(lessee, 'broken', own)
    server.freeze()
    await take(lessee, 'other', own)
    await until(() => !store.available)
    await take(lessee, 'other', own)
    // Calls that restate the unsure clients may come in between.
    expect(reported.filter((line) => !line.startsWith('call'))).toEqual([
      'admitted none',
      'refused minute',
      'closed',
      'unavailable none',
      'closed',
      'unavailable none',
      'local',
      'admitted none',
    ])
    expect(reported).toEqual(expect.arrayContaining(['call ok', 'call error', 'call timeout']))
  })

  it('gives everything back at the drain', async () => {
    const { lessee } = await boot()
    const decisions: QuotaDecision[] = []
    for (let n = 0; n < 100; n++) decisions.push(await take(lessee, `client-${n}`))
    // Everybody was asked for what they hold of each new client: that is over before anything is in hand.
    await sleep(200)
    for (const [n, decision] of decisions.entries())
      if (decision.kind === 'admitted') lessee.refund(`client-${n}`, decision)
    expect(await counts('client-7')).toEqual({ minute: 1, day: 1 })
    await lessee.drain()
    for (let n = 0; n < 100; n++) expect(await counts(`client-${n}`)).toEqual({ minute: 0, day: 0 })
  })
})
