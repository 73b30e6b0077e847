import { rmSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { beforeAll, describe, expect, it } from 'vitest'
import { temporaryFile } from '../support/processes.ts'
import {
  configFile,
  decided,
  eventually,
  gatewayProcess,
  startRawBackend,
  times,
  type GatewayProcess,
} from '../process/gateways.ts'
import {
  ask,
  codes,
  expectServed,
  gone,
  jwtBlock,
  metricPage,
  startLoad,
  workerBlocks,
  workerPids,
} from './workers.ts'

const wide = { id: 'wide', keys: ['tg_wide'], perMinute: 1_000_000, perDay: 1_000_000 }
const LIMIT = 200
/** Of the day, so that no minute ends meanwhile. */
const acme = { id: 'acme', keys: ['tg_acme'], perMinute: LIMIT, perDay: LIMIT }

const killWorker = (gateway: GatewayProcess, number: number, signal: NodeJS.Signals): number => {
  const pid = workerPids(gateway).get(number) ?? 0
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
