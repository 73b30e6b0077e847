/** What a real Redis can do to the quota: die, come back empty, fill up; test/process/outage.test.ts has one that freezes. */
import { beforeEach, describe, expect, it } from 'vitest'
import { setTimeout as sleep } from 'node:timers/promises'
import type { OutageMode } from '../../../src/config/config.ts'
import { redisAt } from '../../support/redis-servers.ts'
import type { RedisStore } from '../../../src/state/redis/redis.ts'
import { quotaKey } from '../../../src/state/redis/authority.ts'
import { Lessee } from '../../../src/core/quota/lessee.ts'
import type { QuotaDecision } from '../../../src/core/quota/decision.ts'
import { controlledRedisAuthority, START_MS, until } from '../../support/controlled-authority.ts'
import { ownMs } from '../../support/own-time.ts'
import { startRedisServer, type RedisServer } from '../../support/redis-server.ts'
import { recovery } from '../../support/redis-shared.ts'

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
  let processes: { store: RedisStore; lessee: Lessee }[]

  beforeEach(async () => {
    server = await startRedisServer()
    processes = []
  })

  const boot = async (outage: OutageMode = 'local') => {
    const store = redisAt(server.url, { timeoutMs: TIMEOUT_MS })
    const authority = controlledRedisAuthority(store, { time: running(), prefix: 't' })
    const processId = `process${processes.length}`
    const lessee = new Lessee({ authority, processId, clock, outage })
    processes.push({ store, lessee })
    await until(() => store.available)
    return { store, lessee }
  }

  /** As Redis has them: it is asked aside, so that a machine that is busy may take its time. */
  const hashOf = (client: string): Record<string, string | undefined> => {
    const lines = server.cli('HGETALL', quotaKey('t', client)).split('\n')
    const names = lines.filter((_, at) => at % 2 === 0)
    return Object.fromEntries(names.map((name, at) => [name, lines[2 * at + 1]]))
  }
  const counts = (client = 'acme') => {
    const { minuteTaken, dayTaken } = hashOf(client)
    return { minute: Number(minuteTaken), day: Number(dayTaken) }
  }

  /** Takes one and fails if that needed longer than a request may wait. */
  const take = async (lessee: Lessee, client = 'acme'): Promise<QuotaDecision> => {
    const startedMs = ownMs()
    const decision = await lessee.take(client, limits)
    expect(ownMs() - startedMs).toBeLessThan(DECIDED_WITHIN_MS)
    return decision
  }

  const recovered = (): Promise<void> =>
    recovery(server.port, () => processes.every(({ store }) => store.available))

  it('restates the true use when Redis was killed under load and came back empty', async () => {
    let admitted = 0
    const over = new AbortController()
    const load = async ({ lessee }: { lessee: Lessee }): Promise<void> => {
      for (; !over.signal.aborted; await sleep(5)) {
        const decisions = await Promise.all([1, 2, 3].map(() => take(lessee)))
        admitted += decisions.filter((decision) => decision.kind === 'admitted').length
      }
    }
    const loads = [await boot(), await boot()].map(load)
    await sleep(150)
    await server.kill()
    await sleep(300)
    await server.restart()
    await recovered()
    await sleep(150)
    over.abort()
    await Promise.all(loads)
    // Leases that nobody spends go back after six seconds.
    idleMs += 6_000
    await until(() => counts().minute === admitted, 'leases back', 5_000).catch(() => undefined)
    const { minute, day } = counts()
    expect(day).toBe(minute)
    expect(minute).toBeGreaterThanOrEqual(admitted)
    // A lease whose reply was lost with the store, but which another process was told of, is nobody's until the minute ends.
    expect(minute).toBeLessThanOrEqual(admitted + limits.perMinute / 16)
  })

  it('restates the true use of a client that has gone quiet, too', async () => {
    const { lessee } = await boot()
    for (let n = 0; n < 7; n++) await take(lessee, 'quiet')
    await server.restart()
    await until(() => counts('quiet').minute === 7)
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
      fields.add(Object.keys(hashOf('acme')).length)
      await until(async () => {
        await take(lessee, `other-${others++}`)
        return lessee.known('acme', limits) === undefined
      })
    }
    expect(fields.size).toBe(1)
    const holders = Object.keys(hashOf('acme')).filter((name) => name.startsWith('process:'))
    expect(holders).toHaveLength(2)
    expect(counts()).toEqual({ minute: 11, day: 11 })
    await lessee.drain()
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
})
