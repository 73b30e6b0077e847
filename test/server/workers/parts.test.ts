import { createServer } from 'node:net'
import { availableParallelism } from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it, vi } from 'vitest'
import { renderSnapshots } from '../../../src/core/record/metric-registry.ts'
import { createMetrics, lossMetrics } from '../../../src/core/record/metrics.ts'
import { createAddressCounter } from '../../../src/state/memory/addresses.ts'
import { createMemoryBanStore } from '../../../src/state/bans.ts'
import type { BanStore, BanStoreListener } from '../../../src/state/bans.ts'
import { openMemoryState } from '../../../src/state/memory/home.ts'
import { parseConfigText } from '../../../src/config/clients/load.ts'
import { ConfigError } from '../../../src/config/problems.ts'
import { crashesAfter, restartDelayMs } from '../../../src/server/workers/slot.ts'
import { newSecret } from '../../../src/core/http/ticket-secret.ts'
import { openListenSockets } from '../../../src/server/workers/listen-sockets.ts'
import { createSharedState } from '../../../src/server/workers/shared-state.ts'
import { createRetiredCounters } from '../../../src/server/workers/supervisor.ts'
import { WorkerProcess } from '../../../src/server/workers/worker-process.ts'
import { finished } from '../../support/finished.ts'
import { gatewayRegistry } from '../../support/gateway-registry.ts'
import { temporaryFile } from '../../support/processes.ts'
import { storeClock } from '../../support/store-clock.ts'
import { readBlocks } from '../../support/serving.ts'

describe('what the supervisor keeps for all workers', () => {
  const configWith = (bans = '') =>
    readBlocks(['http://127.0.0.1:1'], { bans: `bans: { ${bans} }` })
  const sharedByRedis = (bans: BanStore, config = configWith()) =>
    createSharedState({
      config,
      addresses: createAddressCounter(),
      stores: { embedded: undefined, clock: storeClock(), bans },
      onBan: () => undefined,
    })

  it('counts strikes on under another configuration, by its policy', async () => {
    const withStrikes = (strikes: number) => configWith(`strikes: ${strikes}, within: 1m`)
    const state = sharedByRedis(createMemoryBanStore(), withStrikes(50))
    const { addStrikes } = state.handlers(() => undefined)
    const totals: number[] = []
    for (const strikes of [50, 50, 3, 3]) {
      state.use(withStrikes(strikes))
      totals.push((await addStrikes({ keyId: 'a', points: 1 })).total)
    }
    // The third has earned a ban, and the count begins anew.
    expect(totals).toEqual([1, 2, 3, 1])
    await state.close()
  })

  it('remembers bans that operators ask Redis for as long as the configuration in force says', async () => {
    const forgetAfter = (text: string) => configWith(`forgetAfter: ${text}`)
    const endedMs = Date.now() - 2 * 3_600_000
    const before = { untilMs: endedMs, startedMs: endedMs - 1_000, count: 3 }
    const load = () => Promise.resolve(new Map([['a', before]]))
    const state = sharedByRedis({ ...createMemoryBanStore(), load }, forgetAfter('24h'))
    const countOf = async () =>
      (await state.operatorBans.impose('a', { forMs: 1_000, reason: undefined })).after?.count
    state.use(forgetAfter('1h'))
    expect(await countOf()).toBe(0)
    await state.close()
  })

  it('knows the bans of Redis while that is away, whether or not anybody has asked for them', async () => {
    const banOf = (lastsMs: number) => {
      const startedMs = Date.now()
      return { startedMs, untilMs: startedMs + lastsMs, count: 1 }
    }
    const kept = new Map([['kept', banOf(60_000)]])
    const heard = Promise.withResolvers<BanStoreListener>()
    const loads = [kept]
    const state = sharedByRedis({
      ...createMemoryBanStore(),
      watch: (listener) => heard.resolve(listener),
      load: async () => loads.pop() ?? Promise.reject(new Error('away')),
    })
    const listener = await heard.promise
    listener.stale()
    listener.banned('told', banOf(120_000))
    await vi.waitFor(() => expect(loads).toEqual([]))
    await expect(state.operatorBans.list()).rejects.toThrow('away')
    expect(state.operatorBans.known().map(([key]) => key)).toEqual(['kept', 'told'])
    await state.close()
  })

  it('tells workers of each ban once, and writes it again where store.file did not take it', async () => {
    const taken: string[] = []
    const told: string[] = []
    let isFull = true
    const { embedded, clock, bans } = openMemoryState(() => undefined)
    const save = async (keyId: string): Promise<void> => {
      if (isFull) throw new Error('disk full')
      taken.push(keyId)
    }
    const state = createSharedState({
      config: configWith(),
      addresses: createAddressCounter(),
      stores: { embedded, clock, bans: { ...bans, save } },
      onBan: (keyId) => told.push(keyId),
    })
    const { saveBan } = state.handlers(() => undefined)
    const ban = { startedMs: Date.now(), untilMs: Date.now() + 60_000, count: 1 }
    for (let saved = 0; saved < 2; saved++) await saveBan({ keyId: 'a', ban: { ...ban } })
    isFull = false
    await vi.waitFor(() => expect(taken).toEqual(['a']), 20_000)
    expect(told).toEqual(['a'])
    await state.close()
  })
})

describe('the wait before a worker is started again', () => {
  it.each([
    [1, 0, 100],
    [1, 1, 50],
    [2, 0, 200],
    [5, 0.5, 1_200],
    [9, 0, 25_600],
    [10, 0, 30_000],
    [10_000, 0, 30_000],
    [10_000, 1, 15_000],
  ])('is after %i crashes in a row, at random %f, %i ms', (inARow, random, delayMs) => {
    expect(restartDelayMs(inARow, random)).toBe(delayMs)
  })

  it('begins anew with a worker that ran well for a minute', () => {
    expect([0, 500, 59_999].reduce(crashesAfter, 0)).toBe(3)
    expect(crashesAfter(3, 60_000)).toBe(1)
  })
})

describe('the metrics of several workers', () => {
  const names = { plans: ['pro'], routes: ['listPets'] }
  const worker = () => createMetrics({ version: '1', ...names })
  const lines = async (...snapshots: Parameters<typeof renderSnapshots>[0]) => {
    const body = await renderSnapshots(snapshots)
    const values = body.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
    return new Map(
      values.map((line) => [line.slice(0, line.lastIndexOf(' ')), Number(line.split(' ').at(-1))]),
    )
  }
  const serve = (metrics: ReturnType<typeof worker>, gatewaySeconds = 0.0003): void =>
    metrics.requests.done(...finished({ gatewayMs: gatewaySeconds * 1000 }))
  const clients = { size: 1, inFlight: ['a request'] }
  const requests = 'tollgate_requests_total{route="listPets",plan="pro",method="GET",status="2xx"}'

  it('are summed to the same last digit in whatever order, so that none falls when one is replaced', async () => {
    const all = [0.1, 0.2, 0.3].map((seconds) => {
      const metrics = worker()
      serve(metrics, seconds)
      return metrics.snapshot()
    })
    const [one, two, three] = await Promise.all(all)
    const sum = 'tollgate_request_duration_seconds_sum{route="listPets"}'
    const inOrder = await lines(one ?? [], two ?? [], three ?? [])
    expect(inOrder.get(sum)).toBeCloseTo(0.6, 5)
    expect((await lines(three ?? [], two ?? [], one ?? [])).get(sum)).toBe(inOrder.get(sum))
  })

  it('are summed, or one of them by its meaning', async () => {
    const [one, other] = [worker(), worker()]
    serve(one)
    serve(one)
    serve(other)
    other.watchConnections(clients)
    one.watchBans(() => 3)
    one.watchUsage(() => 2)
    other.watchBans(() => 2)
    other.quota.outage(false)
    one.watchLog(() => 3)
    const registry = gatewayRegistry()
    const supervisor = lossMetrics(registry)
    supervisor.watchUsage(() => 8)
    supervisor.watchLog(() => 4)
    const page = await lines(
      await one.snapshot(),
      await other.snapshot(),
      await registry.snapshot(),
    )
    expect(Object.fromEntries(page)).toMatchObject({
      [requests]: 3,
      tollgate_requests_in_flight: 1,
      tollgate_banned_keys: 3,
      tollgate_counters_unsaved_seconds: 7,
      tollgate_usage_dropped_total: 10,
      tollgate_log_lines_dropped_total: 7,
      'tollgate_deprecated_callers{route="getPet"}': 2,
      tollgate_store_up: 0,
      tollgate_store_outages_total: 1,
      'tollgate_config_info{revision="new"}': 1,
      tollgate_config_last_reload_successful: 0,
      'tollgate_config_reloads_total{outcome="taken"}': 3,
      'tollgate_config_reloads_total{outcome="refused"}': 4,
      tollgate_config_last_load_timestamp_seconds: 1,
      tollgate_keys_expiring: 30,
      tollgate_workers: 2,
      tollgate_worker_restarts_total: 5,
      'tollgate_request_duration_seconds_count{route="listPets"}': 3,
      'tollgate_backend_duration_seconds_bucket{route="listPets",le="0.005"}': 3,
    })
    // Times of starts are not added up.
    expect(page.get('process_start_time_seconds')).toBeLessThan(Date.now() / 1000 + 1)
    expect(page.get('process_start_time_seconds')).toBeGreaterThan(1_600_000_000)
  })

  it('keep the counts of workers that have ended, of however many, and not their gauges', async () => {
    const retired = createRetiredCounters()
    const ended = 40
    for (let count = 1; count <= ended; count++) {
      const metrics = worker()
      serve(metrics)
      metrics.watchConnections(clients)
      retired.add(await metrics.snapshot())
      const page = await lines(...(await retired.snapshots()), await worker().snapshot())
      expect(page.get(requests)).toBe(count)
      expect(page.get('tollgate_requests_in_flight')).toBe(0)
      expect(await retired.snapshots()).toHaveLength(1)
    }
    retired.add(undefined)
    const page = await lines(...(await retired.snapshots()))
    expect(page.get('tollgate_workers')).toBe(undefined)
  })
})

async function workerOf(entry: string) {
  const config = parseConfigText('server: { workers: 2 }', { file: 'F', env: {} })
  const sockets = await openListenSockets({ host: '127.0.0.1', port: 0 })
  const socket = sockets.open()
  const worker = new WorkerProcess({
    entry,
    start: { number: 1, version: '1', ticketSecret: newSecret(0) },
    config: Promise.resolve(config),
    listenFd: socket.fd,
    restarts: 0,
    onLines: () => undefined,
    handlers: {} as never,
    onSecond: () => undefined,
  })
  const close = (): void => {
    socket.close()
    sockets.close()
  }
  return { worker, close }
}

describe('a worker that does not take its messages', () => {
  it('costs a bounded amount of memory, and hears afterwards that it has missed some', async () => {
    // Stands still until it is told to go on, then says how many notices it got before it was told that there were more.
    const entry = temporaryFile(
      'worker.mjs',
      `let bans = 0
      process.on('message', ({ kind }) => {
        if (kind === 'start') {
          const hang = () => process.kill(process.pid, 'SIGSTOP')
          process.send({ kind: 'listening', address: { host: '127.0.0.1', port: 1 } }, hang)
        }
        if (kind === 'banned') bans++
        if (kind !== 'missed') return
        const fault = { message: String(bans), code: undefined, isListener: false }
        process.send({ kind: 'failed', fault }, () => process.exit(1))
      })`,
    )
    const { worker, close } = await workerOf(entry)
    await worker.listening
    await sleep(300)
    const ban = { untilMs: 2, count: 1, startedMs: 1 }
    const keyId = 'k'.repeat(1_000)
    const startedMs = performance.now()
    for (let at = 0; at < 20_000; at++) worker.notify({ kind: 'banned', keyId, ban })
    // Nor does a page of metrics wait for it long.
    expect(await worker.measure()).toBe(undefined)
    expect(performance.now() - startedMs).toBeLessThan(10_000)
    process.kill(worker.pid ?? NaN, 'SIGCONT')
    const { fault } = await worker.ended
    expect(Number(fault?.message)).toBeGreaterThan(0)
    expect(Number(fault?.message)).toBeLessThan(5_000)
    close()
  })
})

describe('server.workers', () => {
  const workers = (value: string): number | string[] => {
    try {
      return parseConfigText(`server: { workers: ${value} }`, { file: 'F', env: {} }).server.workers
    } catch (error) {
      if (error instanceof ConfigError) return error.format()
      throw error
    }
  }

  it('takes a number of processes, or auto', () => {
    expect([workers('1'), workers('2'), workers('256')]).toEqual([1, 2, 256])
    expect(workers('auto')).toBe(availableParallelism())
  })

  it.each(['0', '-1', '257', '1.5', '02', '1e3', 'Auto', 'many', '""', '~'])(
    'refuses %s',
    (value) => {
      expect(workers(value)).toEqual([
        `F:1:20 server.workers: ${value === '""' ? value : `"${value}"`} is not a number of processes; write 1 to 256, or auto`,
      ])
    },
  )
})

describe('sockets to listen on', () => {
  const listens = (port: number, host = '127.0.0.1'): Promise<boolean> =>
    new Promise((resolve) => {
      const server = createServer()
      server.once('error', () => resolve(false))
      server.listen({ port, host, exclusive: true }, () => server.close(() => resolve(true)))
    })

  it('share one port that nobody else gets, until they are closed', async () => {
    const sockets = await openListenSockets({ host: '127.0.0.1', port: 0 })
    const { port } = sockets.address
    const [one, other] = [sockets.open(), sockets.open()]
    const server = createServer()
    await new Promise<void>((resolve) => server.listen({ fd: one.fd }, resolve))
    expect(server.address()).toMatchObject({ port })
    expect(await listens(port)).toBe(false)
    await expect(openListenSockets({ host: '127.0.0.1', port })).rejects.toMatchObject({
      code: 'EADDRINUSE',
    })
    await new Promise((resolve) => server.close(resolve))
    other.close()
    sockets.close()
    expect(await listens(port)).toBe(true)
  })

  it('are refused with the code of the fault', async () => {
    await expect(openListenSockets({ host: '192.0.2.1', port: 0 })).rejects.toMatchObject({
      code: 'EADDRNOTAVAIL',
    })
    await expect(openListenSockets({ host: 'nowhere.invalid', port: 0 })).rejects.toMatchObject({
      code: expect.stringMatching(/ENOTFOUND|EAI_AGAIN/) as string,
    })
  })
})
