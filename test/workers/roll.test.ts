import { once } from 'node:events'
import { createServer, type AddressInfo } from 'node:net'
import { rmSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, describe, expect, it } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { answer } from '../support/raw-backend.ts'
import {
  configFile,
  decided,
  endAll,
  eventually,
  gatewayProcess,
  quotaInRedis,
  rawBackend,
  redisServer,
  run,
  times,
  type GatewayProcess,
  linesOf,
} from '../process/gateways.ts'
import {
  ask,
  codes,
  expectServed,
  gone,
  isAlive,
  jwtBlock,
  metricPage,
  startLoad,
  workerBlocks,
  workerPids,
} from './workers.ts'

afterAll(endAll)

const wide = { id: 'wide', keys: ['tg_wide'], perMinute: 1_000_000, perDay: 1_000_000 }
/** Of the day, so that no minute ends meanwhile. */
const acme = { id: 'acme', keys: ['tg_acme'], perMinute: 200, perDay: 200 }
const askServed = (gateway: GatewayProcess, key = 'tg_wide') =>
  decided(() => ask(gateway.origin, { key }))

const rolled = (gateway: GatewayProcess, rolls: number) =>
  eventually('the end of the roll', () => gateway.logged('rollDone').length === rolls, 40_000)

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

/** A backend that answers when told to. */
async function slowBackend() {
  const waiting: (() => void)[] = []
  const backend = await rawBackend({
    respond: async () => {
      await new Promise<void>((resolve) => waiting.push(resolve))
      return answer(200, 'at last')
    },
  })
  return { ...backend, waiting, answerAll: () => waiting.splice(0).forEach((go) => go()) }
}

describe('a roll', () => {
  it('says goodbye to the tunnels of the workers that go, and to no others', async () => {
    const echo = new WebSocketServer({ port: 0, host: '127.0.0.1' })
    echo.on('connection', (socket) => socket.on('message', (data: Buffer) => socket.send(data)))
    await once(echo, 'listening')
    const { port } = echo.address() as AddressInfo
    const server = ', timeouts: { drain: 60s }'
    const blocks = workerBlocks(2, [wide], { server })
    const gateway = await gatewayProcess(configFile(`http://127.0.0.1:${port}`, blocks))
    const headers = { authorization: 'Bearer tg_wide' }
    const url = `${gateway.origin.replace('http', 'ws')}/v1/live`
    const tunnel = async (): Promise<number> => {
      const ended = once(new WebSocket(url, { headers }), 'close') as Promise<[code: number]>
      return (await ended)[0]
    }
    const open = () => Promise.all(times(10, () => opened(tunnel)))
    const old = open()
    await eventually('ten tunnels', async () => (await gateway.metric('tollgate_tunnels ')) === 10)
    gateway.signal('SIGUSR2')
    expect(await old).toEqual(times(10, () => 1001))
    await rolled(gateway, 1)
    const young = open()
    await eventually('ten more', async () => (await gateway.metric('tollgate_tunnels ')) === 10)
    const drained = 'tollgate_tunnels_closed_total{reason="drain"}'
    expect(await gateway.metric(drained)).toBe(10)
    gateway.signal('SIGTERM')
    expect(await young).toEqual(times(10, () => 1001))
    expect((await gateway.finished).code).toBe(0)
    echo.close()
  })

  it('replaces every worker and loses no request, on kept-alive and on new connections', async () => {
    const backend = await rawBackend()
    const gateway = await gatewayProcess(configFile(backend.url, workerBlocks(2, [wide])))
    const before = workerPids(gateway)
    const load = startLoad(gateway.origin, { key: 'tg_wide', callers: 4, keepAlive: 4 })
    await eventually('load', () => load.answers.length > 100)
    for (const rolls of [1, 2]) {
      gateway.signal('SIGUSR2')
      await rolled(gateway, rolls)
    }
    const answered = load.answers.length
    await eventually('load on the new ones', () => load.answers.length > answered + 50)
    await load.stop()
    expect(load.errors).toEqual([])
    const served = expectServed(load.answers)
    expect(backend.requests).toHaveLength(served)
    const after = workerPids(gateway)
    for (const [number, pid] of before) expect(after.get(number)).not.toBe(pid)
    await gone(before.values())
    const page = await metricPage(gateway)
    const requests =
      'tollgate_requests_total{route="listPets",plan="enterprise",method="GET",status="2xx"}'
    expect(page.get(requests)).toBe(served)
    expect(page.get('tollgate_worker_restarts_total')).toBe(0)
    expect(page.get('tollgate_workers')).toBe(2)
    expect(gateway.logged('workerCrashed')).toEqual([])
    expect(gateway.logged('workerStopped')).toHaveLength(4)
  })

  it('hands quota over: what was used stays used, what was not is there again', async () => {
    const redis = await redisServer()
    const backend = await rawBackend()
    for (const store of [
      'store: { timeout: 110ms, onOutage: closed }',
      `store: { redis: "${redis.url}", timeout: 110ms, onOutage: closed }`,
    ]) {
      const blocks = workerBlocks(2, [acme], { more: { store } })
      const gateway = await gatewayProcess(configFile(backend.url, blocks))
      const first = await Promise.all(times(120, () => askServed(gateway, 'tg_acme')))
      expect(codes(first)).toEqual({ '200': 120 })
      gateway.signal('SIGUSR2')
      await rolled(gateway, 1)
      // So many that each worker has callers for all it holds: what others hold comes back late on a busy machine.
      const second = await Promise.all(times(300, () => askServed(gateway, 'tg_acme')))
      expect(codes(second)).toEqual({ '200': 80, '429 rate_limit_exceeded': 220 })
      gateway.signal('SIGTERM')
      expect((await gateway.finished).code).toBe(0)
    }
    expect(quotaInRedis(redis, 'acme')).toMatchObject({ dayTaken: 200, dayUsed: 200 })
  })

  it('stops where a new worker cannot begin, keeps the old ones, and says so', async () => {
    const backend = await rawBackend()
    const { block, file, text } = jwtBlock()
    const blocks = workerBlocks(2, [wide], { more: { jwt: block } })
    const gateway = await gatewayProcess(configFile(backend.url, blocks))
    const before = workerPids(gateway)
    rmSync(file)
    gateway.signal('SIGUSR2')
    await eventually('the failure', () => gateway.logged('rollFailed').length === 1)
    expect(gateway.logged('rollFailed')[0]).toMatchObject({ level: 'error', worker: 1 })
    expect(gateway.logged('rollFailed')[0]?.['cause']).toContain(file)
    expect(workerPids(gateway)).toEqual(before)
    expect([...before.values()].every(isAlive)).toBe(true)
    const answers = await Promise.all(times(20, () => askServed(gateway)))
    expect(codes(answers)).toEqual({ '200': 20 })
    writeFileSync(file, text)
    gateway.signal('SIGUSR2')
    await rolled(gateway, 1)
    await gone(before.values())
  })

  it('in the midst of which the gateway is stopped has not failed', async () => {
    const backend = await slowBackend()
    const gateway = await gatewayProcess(configFile(backend.url, workerBlocks(2, [wide])))
    const inFlight = times(8, () => askServed(gateway))
    await eventually('requests at the backend', () => backend.waiting.length === 8)
    gateway.signal('SIGUSR2')
    await eventually('the roll', () => gateway.logged('rollStarted').length === 1)
    gateway.signal('SIGTERM')
    await eventually('draining', () => gateway.logged('draining').length >= 2)
    backend.answerAll()
    expect(codes(await Promise.all(inFlight))).toEqual({ '200': 8 })
    expect((await gateway.finished).code).toBe(0)
    expect(gateway.logged('rollFailed')).toEqual([])
    expect(gateway.logged('rollStopped')).toMatchObject([{ level: 'info' }])
  })

  it('is refused with a word where there are no workers', async () => {
    const gateway = await gatewayProcess(configFile('http://127.0.0.1:1'))
    gateway.signal('SIGUSR2')
    await eventually('the word', () => gateway.stderr().includes('server.workers: 1'))
    expect((await fetch(`${gateway.adminOrigin}/healthz`)).status).toBe(200)
  })
})

describe('a stop with workers', () => {
  it('lets requests in flight end on all of them, and exits with 0', async () => {
    const backend = await slowBackend()
    const gateway = await gatewayProcess(configFile(backend.url, workerBlocks(3, [wide])))
    const inFlight = times(12, () => askServed(gateway))
    await eventually('requests at the backend', () => backend.waiting.length === 12)
    gateway.signal('SIGTERM')
    await eventually('draining', () => gateway.logged('draining').length === 3)
    expect((await fetch(`${gateway.adminOrigin}/readyz`)).status).toBe(503)
    await eventually('refused connections', () =>
      ask(gateway.origin).then(
        () => false,
        (error: Error) => error.message.includes('ECONNREFUSED'),
      ),
    )
    backend.answerAll()
    for (const { status, headers } of await Promise.all(inFlight)) {
      expect(status).toBe(200)
      expect(headers['connection']).toBe('close')
    }
    expect((await gateway.finished).code).toBe(0)
    const inFlightTold = gateway.logged('draining').map((line) => Number(line['inFlight']))
    expect(inFlightTold.reduce((sum, told) => sum + told, 0)).toBe(12)
    await gone(workerPids(gateway).values())
  })

  it('comes to an end at once with a second signal, for the workers too', async () => {
    const backend = await slowBackend()
    const blocks = workerBlocks(2, [wide], { server: ', timeouts: { drain: 10m }' })
    const gateway = await gatewayProcess(configFile(backend.url, blocks))
    const inFlight = askServed(gateway).catch(() => 'cut off')
    await eventually('the request at the backend', () => backend.waiting.length === 1)
    gateway.signal('SIGTERM')
    await eventually('draining', () => gateway.logged('draining').length === 2)
    await new Promise((resolve) => setTimeout(resolve, 700))
    gateway.signal('SIGTERM')
    expect((await gateway.finished).code).toBe(1)
    expect(await inFlight).toBe('cut off')
    await gone(workerPids(gateway).values())
  })

  it('that reaches every process, as a key press does, is one stop', async () => {
    const backend = await slowBackend()
    const gateway = await gatewayProcess(configFile(backend.url, workerBlocks(2, [wide])))
    const inFlight = times(4, () => askServed(gateway))
    await eventually('requests at the backend', () => backend.waiting.length === 4)
    for (const pid of workerPids(gateway).values()) process.kill(pid, 'SIGINT')
    gateway.signal('SIGINT')
    await eventually('draining', () => gateway.logged('draining').length === 2)
    backend.answerAll()
    expect(codes(await Promise.all(inFlight))).toEqual({ '200': 4 })
    expect((await gateway.finished).code).toBe(0)
  })
})

describe('a start with workers', () => {
  it('that cannot have its port says so, as one process does', async () => {
    const taken = createServer()
    await new Promise<void>((resolve) => taken.listen(0, '127.0.0.1', resolve))
    const { port } = taken.address() as { port: number }
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
    await new Promise((resolve) => taken.close(resolve))
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

  it('is no command of its own', async () => {
    const { code, stderr } = await run('worker')
    expect(code).toBe(2)
    expect(stderr).toContain('server.workers')
  })
})
