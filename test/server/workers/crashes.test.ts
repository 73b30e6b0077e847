/** Workers and supervisors that die or stand still: what it costs, and how it is found. */
import { once } from 'node:events'
import { rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, describe, expect, it } from 'vitest'
import { watchWorkers } from '../../../src/server/workers/supervisor.ts'
import { temporaryFile } from '../../support/processes.ts'
import { answer } from '../../support/raw-backend.ts'
import { configFile, decided, eventually, gatewayProcess } from '../../process/gateways.ts'
import { startRawBackend, startTollgate, times } from '../../process/gateways.ts'
import type { GatewayProcess } from '../../process/gateways.ts'
import { ask, codes, expectServed, gone, isAlive, jwtBlock, metricPage } from './workers.ts'
import { startLoad, workerBlocks, workerPids, type WorkerAnswer } from './workers.ts'

const wide = { id: 'wide', keys: ['tg_wide'], perMinute: 1_000_000, perDay: 1_000_000 }
const LIMIT = 200
/** Of the day, so that no minute ends meanwhile. */
const acme = { id: 'acme', keys: ['tg_acme'], perMinute: LIMIT, perDay: LIMIT }

/** NaN, at which kill throws: 0 would be every process of this group. */
const pidOf = (gateway: GatewayProcess, number: number): number =>
  workerPids(gateway).get(number) ?? NaN

const killWorker = (gateway: GatewayProcess, number: number, signal: NodeJS.Signals): number => {
  const pid = pidOf(gateway, number)
  process.kill(pid, signal)
  return pid
}
const isBack = (gateway: GatewayProcess, number: number, oldPid: number) =>
  eventually(`worker ${number} again`, () => workerPids(gateway).get(number) !== oldPid)

describe('a worker', () => {
  const { block, file, text } = jwtBlock()
  // Throws out of an event handler, as a bug would.
  const bug = temporaryFile(
    'bug.mjs',
    `if (process.argv[2] === 'worker') process.on('SIGWINCH', () => { throw new Error('the last straw') })`,
  )
  const requests =
    'tollgate_requests_total{route="listPets",plan="enterprise",method="GET",status="2xx"}'
  let gateway: GatewayProcess
  const fortyServed = async () =>
    expect(
      codes(
        await Promise.all(times(40, () => decided(() => ask(gateway.origin, { key: 'tg_wide' })))),
      ),
    ).toEqual({ '200': 40 })

  beforeAll(async () => {
    const blocks = workerBlocks(2, [wide, acme], {
      server: ', timeouts: { drain: 300ms }',
      more: { jwt: block },
    })
    gateway = await gatewayProcess(configFile((await startRawBackend()).url, blocks), {
      env: { NODE_OPTIONS: `--import ${bug}` },
    })
  })

  it('that dies has its last words logged, and takes along no count but of its latest seconds', async () => {
    await fortyServed()
    // Longer than they may stay with the workers alone: nobody asks for them.
    await sleep(5_000)
    const first = killWorker(gateway, 1, 'SIGWINCH')
    await isBack(gateway, 1, first)
    const [crash] = gateway.logged('crash')
    expect(crash).toMatchObject({ level: 'fatal', worker: 1, error: 'Error: the last straw' })
    const order = gateway.stderr()
    expect(order.indexOf('the last straw')).toBeLessThan(order.indexOf('workerCrashed'))
    const second = killWorker(gateway, 2, 'SIGKILL')
    await isBack(gateway, 2, second)
    expect(gateway.logged('workerCrashed')).toMatchObject([
      { level: 'error', worker: 1, pid: first, cause: 'exit code 1' },
      { level: 'error', worker: 2, pid: second, cause: 'signal SIGKILL' },
    ])
    expect(gateway.logged('workerRestarting')).toMatchObject([
      { worker: 1, crashesInARow: 1 },
      { worker: 2, crashesInARow: 1 },
    ])
    await eventually('both', async () => (await gateway.metric('tollgate_workers ')) === 2)
    expect((await metricPage(gateway)).get(requests)).toBe(40)
    // Who asks for them in two ways at once waits for nobody.
    await eventually('an answer to both at once', async () => {
      const startedMs = performance.now()
      const pages = ['/metrics', '/api/routes'].map((path) => fetch(gateway.adminOrigin + path))
      for (const page of await Promise.all(pages)) await page.text()
      return performance.now() - startedMs < 900
    })
  })

  it('that is killed costs its own requests alone: the other goes on, it comes back, no count falls and no limit is passed', async () => {
    const load = startLoad(gateway.origin, { key: 'tg_wide', callers: 3, keepAlive: 3 })
    const limited = startLoad(gateway.origin, { key: 'tg_acme', callers: 2, keepAlive: 4 })
    await eventually('load', () => load.answers.length > 100)
    const before = await metricPage(gateway)
    const pid = killWorker(gateway, 1, 'SIGKILL')
    await eventually('the crash', () => gateway.logged('workerCrashed').length === 3)
    const answered = load.answers.length
    await eventually('answers of the other', () => load.answers.length > answered + 20)
    await isBack(gateway, 1, pid)
    const after = await metricPage(gateway)
    await eventually('the limit', () => limited.answers.some(({ status }) => status === 429))
    await Promise.all([load.stop(), limited.stop()])
    const counters = [...before].filter(([name]) => /_(total|count|sum|bucket)(\{|$)/.test(name))
    expect(counters.length).toBeGreaterThan(100)
    for (const [name, value] of counters)
      if (!name.startsWith('nodejs_active'))
        expect(after.get(name), name).toBeGreaterThanOrEqual(value)
    expect(after.get('tollgate_worker_restarts_total')).toBe(3)
    expect(after.get('tollgate_workers')).toBe(2)
    // What was under way at the killed worker is lost, and nothing else.
    expect(load.errors.length).toBeLessThan(30)
    expectServed(load.answers)
    const admitted = limited.answers.filter(({ status }) => status === 200).length
    expect(admitted).toBeGreaterThan(LIMIT / 2)
    expect(admitted).toBeLessThanOrEqual(LIMIT)
  })

  it('that cannot begin again is tried ever less often, while the other serves, until it can', async () => {
    rmSync(file)
    const crashes = gateway.logged('workerCrashed').length
    const pid = killWorker(gateway, 1, 'SIGKILL')
    const restarts = () => gateway.logged('workerRestarting').slice(crashes)
    const load = startLoad(gateway.origin, { key: 'tg_wide', callers: 2 })
    await eventually('three restarts', () => restarts().length >= 3)
    await load.stop()
    expect(load.errors.length).toBeLessThan(5)
    expectServed(load.answers)
    for (const [at, { crashesInARow, delayMs }] of restarts().entries()) {
      expect(crashesInARow).toBe(3 + at)
      expect(delayMs).toBeLessThanOrEqual(100 * 2 ** (2 + at))
      expect(delayMs).toBeGreaterThanOrEqual(50 * 2 ** (2 + at))
    }
    expect(gateway.logged('workerCrashed')[crashes + 1]?.['cause']).toContain(
      `jwt.jwksFile ${file}`,
    )
    expect(await gateway.metric('tollgate_workers ')).toBe(1)
    writeFileSync(file, text)
    await isBack(gateway, 1, pid)
    await eventually('both', async () => (await gateway.metric('tollgate_workers ')) === 2)
  })

  it('that stands still leaves the page of metrics and the end of the gateway to the other', async () => {
    await fortyServed()
    const before = await metricPage(gateway)
    killWorker(gateway, 1, 'SIGSTOP')
    const pages = await Promise.all([metricPage(gateway), metricPage(gateway)])
    for (const page of pages) expect(page.get(requests)).toBe(before.get(requests))
    gateway.signal('SIGTERM')
    expect((await gateway.finished).code).toBe(0)
    await gone(workerPids(gateway).values())
  })
})

it('a worker whose event loop hangs is killed and started again, while the others serve', async () => {
  const gateway = await gatewayProcess(
    configFile((await startRawBackend()).url, workerBlocks(2, [wide])),
  )
  await eventually('both workers', () => workerPids(gateway).size === 2)
  const [pid, other] = [pidOf(gateway, 1), pidOf(gateway, 2)]
  // Kept-alive connections, so that callers stay with the worker they have.
  const load = startLoad(gateway.origin, { key: 'tg_wide', callers: 0, keepAlive: 6 })
  await eventually('load', () => load.answers.length > 100)
  process.kill(pid, 'SIGSTOP')
  await eventually('the finding', () => gateway.logged('workerHung').length === 1)
  expect(gateway.logged('workerHung')).toMatchObject([
    { level: 'error', worker: 1, pid, silentMs: 10_000 },
  ])
  await eventually('worker 1 again', () => pidOf(gateway, 1) !== pid)
  expect(gateway.logged('workerCrashed')).toMatchObject([
    { worker: 1, pid, cause: 'signal SIGKILL' },
  ])
  const answered = load.answers.length
  await eventually('more answers', () => load.answers.length > answered + 100)
  await load.stop()
  // Of each caller of that worker the request under way, and at most one on a connection that the kernel still put into its queue.
  expect(load.errors.length).toBeLessThanOrEqual(12)
  expectServed(load.answers)
  const page = await metricPage(gateway)
  expect(page.get('tollgate_worker_restarts_total')).toBe(1)
  expect(page.get('tollgate_workers')).toBe(2)
  expect(pidOf(gateway, 2)).toBe(other)
  expect(gateway.logged('workerHung')).toHaveLength(1)
})

it('the watchdog tells of nobody while it is late itself', async () => {
  const silent = { heardMs: performance.now() }
  const hung: unknown[] = []
  let looks = 0
  const stop = watchWorkers(
    { everyMs: 20, silentMs: 100 },
    () => {
      looks++
      // Holds up the event loop beyond the next beat.
      Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 60)
      return [silent]
    },
    (worker) => hung.push(worker),
  )
  await expect.poll(() => looks, { timeout: 10_000 }).toBeGreaterThan(15)
  stop()
  expect(hung).toEqual([])
})

describe('a supervisor', () => {
  it('that stands still is a store that is away; killed, it leaves no worker behind, and what was in flight is answered', async () => {
    const waiting: (() => void)[] = []
    let isHolding = false
    const backend = await startRawBackend({
      respond: async () => {
        if (isHolding) await new Promise<void>((resolve) => waiting.push(resolve))
        return answer(200, 'at last')
      },
    })
    const gateway = await gatewayProcess(configFile(backend.url, workerBlocks(2, [wide, acme])))
    // Until the workers know each other, and with them their shares.
    await sleep(4_000)
    const acmeServed = () => decided(() => ask(gateway.origin, { key: 'tg_acme' }))
    const warm = await Promise.all(times(40, acmeServed))
    expect(codes(warm)).toEqual({ '200': 40 })
    process.kill(gateway.pid, 'SIGSTOP')
    // For a second it may be no more than busy: what is not in hand is refused then, since shares could admit too many.
    const early: WorkerAnswer[] = []
    await eventually('both decide without it', async () => {
      early.push(await ask(gateway.origin, { key: 'tg_wide' }))
      return early.length > 20 && early.slice(-20).every(({ status }) => status === 200)
    })
    for (const { status } of early) expect([200, 503]).toContain(status)
    const frozen = []
    for (const key of times(40, (at) => (at % 2 === 0 ? 'tg_acme' : 'tg_wide')))
      frozen.push(await ask(gateway.origin, { key }), await ask(gateway.origin))
    process.kill(gateway.pid, 'SIGCONT')
    expect(codes(frozen)).toEqual({ '200': 40, '401 missing_api_key': 40 })
    await eventually('the store is back', () => gateway.logged('storeBack').length > 0)
    // What was admitted meanwhile is stated: the limit holds.
    await eventually('the end of the quota', async () => {
      const row = await Promise.all(times(40, () => ask(gateway.origin, { key: 'tg_acme' })))
      return row.every(({ status }) => status === 429)
    })
    const wideCalls = 20 + early.filter(({ status }) => status === 200).length
    const admitted = backend.requests.length - wideCalls
    expect(admitted).toBeGreaterThan(LIMIT / 2)
    expect(admitted).toBeLessThanOrEqual(LIMIT)

    isHolding = true
    const inFlight = times(6, () => decided(() => ask(gateway.origin, { key: 'tg_wide' })))
    await eventually('requests at the backend', () => waiting.length === 6)
    const pids = [...workerPids(gateway).values()]
    expect(pids.every(isAlive)).toBe(true)
    gateway.child.kill('SIGKILL')
    await sleep(300)
    for (const go of waiting) go()
    for (const { status, body } of await Promise.all(inFlight))
      expect([status, body]).toEqual([200, 'at last'])
    await gone(pids)
    // The port is free again for the next one.
    const next = createServer().listen(Number(new URL(gateway.origin).port), '127.0.0.1')
    await once(next, 'listening')
    next.close()
  })

  it('that is killed leaves none behind either while they start', async () => {
    const gateway = startTollgate([
      'start',
      '--config',
      configFile('http://127.0.0.1:1', workerBlocks(2)),
    ])
    await gateway.listening('tollgate')
    const pids = [...gateway.stderr().matchAll(/"workerStarted".*?"pid":(\d+)/g)].map(([, pid]) =>
      Number(pid),
    )
    gateway.child.kill('SIGKILL')
    await gateway.finished
    await gone(pids)
  })
})
