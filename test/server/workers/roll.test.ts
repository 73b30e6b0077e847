import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import { createServer } from 'node:net'
import { rmSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { listening } from '../../support/listening.ts'
import { startCollector } from '../../support/otlp.ts'
import { configFile, decided, eventually, gatewayProcess, linesOf } from '../../process/gateways.ts'
import { startSlowBackend, run, times, type GatewayProcess } from '../../process/gateways.ts'
import { ask, codes, expectServed, gone, isAlive, jwtBlock, metricPage } from './workers.ts'
import { startLoad, workerBlocks, workerPids } from './workers.ts'

const wide = { id: 'wide', keys: ['tg_wide'], perMinute: 1_000_000, perDay: 1_000_000 }
/** Of the day, so that no minute ends meanwhile. */
const acme = { id: 'acme', keys: ['tg_acme'], perMinute: 200, perDay: 200 }
const askServed = (gateway: GatewayProcess, key = 'tg_wide') =>
  decided(() => ask(gateway.origin, { key }))

/** Another tunnel for one that a store on a busy machine was too late for. */
async function opened(tunnel: () => Promise<number>): Promise<number> {
  for (let attempt = 0; attempt < 40; attempt++) {
    try {
      return await tunnel()
    } catch (error) {
      if (!(error as Error).message.endsWith(' 503')) throw error
      await sleep(250)
    }
  }
  return tunnel()
}

/** A gateway with requests at a backend that answers when told to. */
async function startBusy(
  workers: number,
  requests: number,
  { drain = '30s', more = {} }: { drain?: string; more?: Record<string, string> } = {},
) {
  const { url, waiting, answerAll } = await startSlowBackend()
  const blocks = workerBlocks(workers, [wide], {
    server: `, timeouts: { drain: ${drain} }`,
    more,
  })
  const gateway = await gatewayProcess(configFile(url, blocks))
  const inFlight = times(requests, () => askServed(gateway))
  await eventually('requests at the backend', () => waiting.length === requests)
  return { gateway, inFlight, answerAll }
}

describe('a roll', () => {
  const { block, file, text } = jwtBlock()
  let gateway: GatewayProcess
  let requests = 0
  const backend = createHttpServer((_, response) => void (requests++, response.end('[]')))
  const tunnels = new WebSocketServer({ server: backend })

  beforeAll(async () => {
    const port = await listening(backend)
    const more = { jwt: block, store: 'store: { timeout: 110ms, onOutage: closed }' }
    const blocks = workerBlocks(2, [wide, acme], { server: ', timeouts: { drain: 60s }', more })
    gateway = await gatewayProcess(configFile(`http://127.0.0.1:${port}`, blocks))
  })
  afterAll(() => tunnels.close())

  it('stops where a new worker cannot begin, keeps the old ones, and says so', async () => {
    const before = workerPids(gateway)
    rmSync(file)
    gateway.signal('SIGUSR2')
    await eventually('the failure', () => gateway.logged('rollFailed').length === 1)
    expect(gateway.logged('rollFailed')).toMatchObject([
      { level: 'error', worker: 1, cause: expect.stringContaining(file) },
    ])
    expect(workerPids(gateway)).toEqual(before)
    expect([...before.values()].every(isAlive)).toBe(true)
    const answers = await Promise.all(times(20, () => askServed(gateway)))
    expect(codes(answers)).toEqual({ '200': 20 })
    writeFileSync(file, text)
  })

  it('replaces every worker: no request is lost, no quota, and tunnels are told goodbye', async () => {
    const before = workerPids(gateway)
    const first = await Promise.all(times(120, () => askServed(gateway, 'tg_acme')))
    expect(codes(first)).toEqual({ '200': 120 })
    const url = `${gateway.origin.replace('http', 'ws')}/v1/live`
    const tunnel = async (): Promise<number> => {
      const socket = new WebSocket(url, { headers: { authorization: 'Bearer tg_wide' } })
      const [code] = (await once(socket, 'close')) as [code: number]
      return code
    }
    const open = () => Promise.all(times(10, () => opened(tunnel)))
    const old = open()
    await eventually('ten tunnels', async () => (await gateway.metric('tollgate_tunnels ')) === 10)
    const servedBefore = requests
    // On kept-alive and on new connections.
    const load = startLoad(gateway.origin, { key: 'tg_wide', callers: 4, keepAlive: 4 })
    await eventually('load', () => load.answers.length > 50)
    gateway.signal('SIGUSR2')
    expect(await old).toEqual(times(10, () => 1001))
    await eventually('the end of the roll', () => gateway.logged('rollDone').length === 1)
    const answered = load.answers.length
    await eventually('load on the new ones', () => load.answers.length > answered + 50)
    await load.stop()
    expect(load.errors).toEqual([])
    expect(requests - servedBefore).toBe(expectServed(load.answers))
    const after = workerPids(gateway)
    for (const [number, pid] of before) expect(after.get(number)).not.toBe(pid)
    await gone(before.values())
    // So many that each worker has callers for all it holds: what others hold comes back late on a busy machine.
    const second = await Promise.all(times(300, () => askServed(gateway, 'tg_acme')))
    expect(codes(second)).toEqual({ '200': 80, '429 rate_limit_exceeded': 220 })

    const young = open()
    await eventually('ten more', async () => (await gateway.metric('tollgate_tunnels ')) === 10)
    const served =
      'tollgate_requests_total{route="listPets",plan="enterprise",method="GET",status="2xx"}'
    await expect.poll(async () => (await metricPage(gateway)).get(served)).toBe(requests)
    const page = await metricPage(gateway)
    expect(page.get('tollgate_worker_restarts_total')).toBe(0)
    expect(page.get('tollgate_workers')).toBe(2)
    expect(page.get('tollgate_tunnels_closed_total{reason="drain"}')).toBe(10)
    // The one that could not begin.
    expect(gateway.logged('workerCrashed')).toHaveLength(1)
    expect(gateway.logged('workerStopped')).toHaveLength(2)
    gateway.signal('SIGTERM')
    expect(await young).toEqual(times(10, () => 1001))
    expect((await gateway.finished).code).toBe(0)
  })

  it('in the midst of which the gateway is stopped has not failed', async () => {
    const { gateway, inFlight, answerAll } = await startBusy(2, 8)
    gateway.signal('SIGUSR2')
    await eventually('the roll', () => gateway.logged('rollStarted').length === 1)
    gateway.signal('SIGTERM')
    await eventually('draining', () => gateway.logged('draining').length >= 2)
    answerAll()
    expect(codes(await Promise.all(inFlight))).toEqual({ '200': 8 })
    expect((await gateway.finished).code).toBe(0)
    expect(gateway.logged('rollFailed')).toEqual([])
    expect(gateway.logged('rollStopped')).toMatchObject([{ level: 'info' }])
  })
})

describe('a stop with workers', () => {
  it('that reaches every process, as a key press does, is one stop: what is in flight ends and is traced, exit 0', async () => {
    const collector = await startCollector()
    const more = { telemetry: `telemetry: { otlp: "${collector.url}", sample: 100% }` }
    const { gateway, inFlight, answerAll } = await startBusy(3, 12, { more })
    for (const pid of workerPids(gateway).values()) process.kill(pid, 'SIGINT')
    gateway.signal('SIGINT')
    await eventually('draining', () => gateway.logged('draining').length === 3)
    expect((await fetch(`${gateway.adminOrigin}/readyz`)).status).toBe(503)
    await eventually('refused connections', () =>
      ask(gateway.origin).then(
        () => false,
        (error: Error) => error.message.includes('ECONNREFUSED'),
      ),
    )
    answerAll()
    for (const { status, headers } of await Promise.all(inFlight))
      expect([status, headers['connection']]).toEqual([200, 'close'])
    expect((await gateway.finished).code).toBe(0)
    const told = gateway.logged('draining').map((line) => Number(line['inFlight']))
    expect(told.reduce((sum, each) => sum + each, 0)).toBe(12)
    await gone(workerPids(gateway).values())
    const spans = collector.spans.filter(({ kind }) => kind === 'server')
    // And what a busy machine answered 503 before.
    expect(spans).toHaveLength(gateway.logged('access').length)
    const own = (name: string) => new Set(spans.map(({ resource }) => resource[name]))
    expect([...workerPids(gateway).values()]).toEqual(
      expect.arrayContaining([...own('process.pid')]),
    )
    expect(own('service.instance.id').size).toBe(own('process.pid').size)
    expect(collector.problems).toEqual([])
  })

  it('comes to an end at once with a second signal, for the workers too', async () => {
    const { gateway, inFlight } = await startBusy(2, 1, { drain: '10m' })
    const cut = inFlight[0]?.catch(() => 'cut off')
    gateway.signal('SIGTERM')
    await eventually('draining', () => gateway.logged('draining').length === 2)
    // Before, it may be the same key press.
    await sleep(700)
    gateway.signal('SIGTERM')
    expect((await gateway.finished).code).toBe(1)
    expect(await cut).toBe('cut off')
    await gone(workerPids(gateway).values())
  })
})

describe('a start with workers', () => {
  it('that cannot have its port says so, as one process does', async () => {
    const port = await listening(createServer())
    const other = await gatewayProcess(configFile('http://127.0.0.1:1', workerBlocks(2)))
    // SO_REUSEPORT alone would let a second gateway share the port of the first.
    for (const inUse of [port, Number(new URL(other.origin).port)]) {
      const file = configFile('http://127.0.0.1:1', {
        server: `server: { listen: "127.0.0.1:${inUse}", workers: 2 }`,
      })
      const { code, stdout, stderr } = await run('start', '--config', file)
      expect([code, stdout]).toEqual([1, ''])
      expect(linesOf(stderr).at(-1)).toMatchObject({
        event: 'startFailed',
        message: `the public listener cannot listen on 127.0.0.1:${inUse}: the address is in use; stop what uses it, or change server.listen in the config (EADDRINUSE)`,
      })
    }
  })

  it('in which a worker cannot begin ends with its reason, and leaves nothing behind', async () => {
    const { block, file } = jwtBlock()
    writeFileSync(file, 'no keys')
    const blocks = workerBlocks(2, [wide], { more: { jwt: block } })
    const { code, stdout, stderr } = await run(
      'start',
      '--config',
      configFile('http://127.0.0.1:1', blocks),
    )
    expect([code, stdout]).toEqual([1, ''])
    const failed = linesOf(stderr).filter((line) => line['event'] === 'startFailed')
    expect(failed).toHaveLength(1)
    expect(failed[0]?.['message']).toContain(`jwt.jwksFile ${file}`)
    expect(stderr).not.toContain('workerRestarting')
  })
})
