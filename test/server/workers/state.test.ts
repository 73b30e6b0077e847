/** A gateway of several workers on Redis: what it says of its backends, its store, its workers and routes. */
import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, describe, expect, it, vi } from 'vitest'
import type { Routes } from '../../../src/admin/routes/operations.ts'
import type { Backends, Store, Workers } from '../../../src/admin/system/operations.ts'
import { answer, type RawBackend } from '../../support/raw-backend.ts'
import { configFile, decided, gatewayProcess, startRawBackend } from '../../process/gateways.ts'
import { startRedisServer, type GatewayProcess } from '../../process/gateways.ts'
import { ask, workerBlocks } from './workers.ts'

const patience = { timeout: 30_000, interval: 100 }
const KEY = 'tg_of_the_states'
let gateway: GatewayProcess
let redis: Awaited<ReturnType<typeof startRedisServer>>
let backend: RawBackend

beforeAll(async () => {
  redis = await startRedisServer()
  backend = await startRawBackend({ respond: () => answer(200, '[]') })
  const clients = [{ id: 'acme', keys: [KEY], perMinute: 1_000_000 }]
  const more = {
    store: `store: { redis: "${redis.url}", timeout: 110ms }`,
    upstream: `upstream: { urls: [${backend.url}, "http://127.0.0.1:9"] }`,
  }
  gateway = await gatewayProcess(configFile(backend.url, workerBlocks(2, clients, { more })))
})
const get = async <Shape>(path: string): Promise<Shape> =>
  (await (await fetch(`${gateway.adminOrigin}/api/${path}`)).json()) as Shape

/** 200s that say nothing of the quota, while it is asked for so long. */
async function silentFor(forMs: number): Promise<number> {
  let silent = 0
  const untilMs = performance.now() + forMs
  while (performance.now() < untilMs) {
    const { status, headers } = await ask(gateway.origin, { key: KEY })
    if (status === 200 && headers['x-ratelimit-remaining'] === undefined) silent += 1
    await sleep(10)
  }
  return silent
}

describe('a gateway of several workers', () => {
  /** Requests sent, with those that a busy machine answered 503. */
  let sent = 0
  it('tells which backend is dead and why, and how busy and fast the other is', async () => {
    const send = () => {
      sent += 1
      return ask(gateway.origin, { key: KEY })
    }
    for (let served = 0; served < 60; served++) expect((await decided(send)).status).toBe(200)
    const seen = await vi.waitFor(async () => {
      const { backends } = await get<Backends>('backends')
      expect(backends[0]?.requestsPerSecond).toBeGreaterThan(0)
      expect(backends[1]?.state).not.toBe('up')
      return backends
    }, patience)
    expect(seen).toMatchObject([
      { name: backend.url, state: 'up', since: null, cause: null, failuresPerSecond: 0 },
      { name: 'http://127.0.0.1:9', cause: expect.stringContaining('ECONNREFUSED') },
    ])
    expect(seen[0]?.p99Ms).toBeGreaterThan(0)
    expect(Date.parse(seen[1]?.since ?? '')).toBeLessThanOrEqual(Date.now())
  })

  it('tells of each of its workers', async () => {
    const { wanted, workers, missing } = await vi.waitFor(async () => {
      const all = await get<Workers>('workers')
      expect(all.missing).toBeUndefined()
      return all
    }, patience)
    expect({ wanted, missing }).toEqual({ wanted: 2, missing: undefined })
    expect(workers).toMatchObject([
      { number: 1, state: 'listening', restarts: 0 },
      { number: 2, state: 'listening', restarts: 0 },
    ])
    for (const { pid, rssBytes, since } of workers) {
      expect(pid).not.toBe(gateway.pid)
      expect(rssBytes).toBeGreaterThan(10_000_000)
      expect(Date.parse(since ?? '')).toBeLessThanOrEqual(Date.now())
    }
  })

  it('knows nothing of one that stands still, and says which', async () => {
    const [before] = (await get<Workers>('workers')).workers
    const unknown = { inFlight: null, connections: null, loopLagMs: null, rssBytes: null }
    process.kill(before?.pid ?? NaN, 'SIGSTOP')
    try {
      await vi.waitFor(async () => {
        const { workers, missing } = await get<Workers>('workers')
        expect(workers[0]).toMatchObject({ pid: before?.pid, ...unknown })
        expect(missing).toContain('worker 1 has not said how it is')
      }, patience)
    } finally {
      process.kill(before?.pid ?? NaN, 'SIGCONT')
    }
    await vi.waitFor(async () => {
      const { workers, missing } = await get<Workers>('workers')
      expect(workers[0]?.rssBytes).toBeGreaterThan(10_000_000)
      expect(missing).toBeUndefined()
    }, patience)
  })

  it('tells how often each route was asked for, also by a worker that has died, and in every answer what is left', async () => {
    const requests = async () =>
      (await get<Routes>('routes')).routes.find(({ name }) => name === 'listPets')?.requests
    await expect.poll(requests).toBe(sent)
    const [first] = (await get<Workers>('workers')).workers
    process.kill(first?.pid ?? NaN, 'SIGKILL')
    await vi.waitFor(async () => {
      const { workers } = await get<Workers>('workers')
      expect(workers[0]).toMatchObject({ number: 1, state: 'listening', restarts: 1 })
      expect(workers[0]?.pid).not.toBe(first?.pid)
    }, patience)
    await expect.poll(requests).toBe(sent)
    // But for moments in which a busy machine holds up the store.
    await expect.poll(() => silentFor(1_200)).toBe(0)
  })

  it('tells since when and why the store is away, and how often it was, and what is left soon after', async () => {
    const up = await vi.waitFor(async () => {
      const store = await get<Store>('store')
      expect(store).toMatchObject({ kind: 'redis', state: 'up', since: null, cause: null })
      return store
    }, patience)
    expect(up.where).toContain(String(redis.port))
    const beforeMs = Date.now()
    await redis.stop()
    const away = await vi.waitFor(async () => {
      const store = await get<Store>('store')
      expect(store).toMatchObject({ state: 'away', onOutage: 'local' })
      expect([store.since !== null, store.outages]).toEqual([true, up.outages + 1])
      return store
    }, patience)
    expect(away.cause).not.toBeNull()
    expect(Date.parse(away.since ?? '')).toBeGreaterThanOrEqual(beforeMs)
    await redis.restart()
    await vi.waitFor(
      async () => expect(await get<Store>('store')).toMatchObject({ state: 'up' }),
      patience,
    )
    await expect.poll(() => silentFor(500)).toBe(0)
  })
})
