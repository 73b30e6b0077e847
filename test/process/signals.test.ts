import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { keys } from '../support/gateway.ts'
import { temporaryFile } from '../support/processes.ts'
import { answer } from '../support/raw-backend.ts'
import { freePort, sharedRedis } from '../support/redis-server.ts'
import {
  call,
  configFile,
  decided,
  eventually,
  gatewayProcess,
  isTaken,
  startRawBackend,
  startRedisServer,
  quotaInRedis,
  tally,
  times,
  startTollgate,
  type GatewayProcess,
  gatewayHere,
} from './gateways.ts'

/** A backend that answers when told to. */
async function slowBackend() {
  const waiting: (() => void)[] = []
  const backend = await startRawBackend({
    respond: async () => {
      await new Promise<void>((resolve) => waiting.push(resolve))
      return answer(200, 'at last')
    },
  })
  return { ...backend, waiting, answerAll: () => waiting.splice(0).forEach((go) => go()) }
}

const drain = (time: string) => ({
  server: `server: { listen: "127.0.0.1:0", timeouts: { drain: ${time} } }`,
})
const isDraining = (gateway: GatewayProcess) =>
  eventually('draining', () => gateway.logged('draining').length > 0)

describe.concurrent('a stop', () => {
  it('lets requests in flight end, takes no new ones, and exits with 0', async () => {
    const backend = await slowBackend()
    const gateway = await gatewayProcess(configFile(backend.url, drain('20s')))
    const inFlight = times(5, () => gateway.call(keys.pro))
    await eventually('requests at the backend', () => backend.waiting.length === 5)
    gateway.signal('SIGTERM')
    await isDraining(gateway)
    const port = Number(new URL(gateway.origin).port)
    await eventually('refused connections', async () => !(await isTaken(port)))
    expect((await fetch(`${gateway.adminOrigin}/readyz`)).status).toBe(503)
    backend.answerAll()
    for (const { status, body, headers } of await Promise.all(inFlight))
      expect([status, body, headers.get('connection')]).toEqual([200, 'at last', 'close'])
    const { code, stdout } = await gateway.finished
    expect(code).toBe(0)
    expect(stdout.trim().split('\n')).toHaveLength(2)
    expect(gateway.logged('draining')).toMatchObject([{ inFlight: 5, timeoutMs: 20_000 }])
    expect(gateway.logged('drained')).toMatchObject([{ cutOff: 0 }])
    expect(gateway.logged('access')).toHaveLength(5)
  })

  it.each([1, 2])(
    'with a delay is not ready at once, and takes requests until it is over, with %i process(es)',
    async (workers) => {
      const backend = await startRawBackend()
      // Longer than a busy machine takes to ask four times.
      const delay = `timeouts: { drainDelay: 8s }`
      const server = `server: { listen: "127.0.0.1:0", workers: ${workers}, ${delay} }`
      const file = configFile(backend.url, { server })
      const started = workers === 1 ? await gatewayHere(file) : await gatewayProcess(file)
      const stopped =
        'stop' in started
          ? started.stop()
          : (started.signal('SIGTERM'), started.finished.then(({ code }) => expect(code).toBe(0)))
      const unready = async () =>
        (await (await fetch(`${started.adminOrigin}/readyz`)).text()).includes('or draining')
      await eventually('not ready', unready)
      const answers = await Promise.all(times(3, () => decided(() => started.call(keys.pro))))
      expect(tally(answers)).toEqual({ '200': 3 })
      expect(answers.every(({ headers }) => headers.get('connection') !== 'close')).toBe(true)
      expect(started.logged('drainDelayed')).toMatchObject([{ delayMs: 8_000 }])
      expect(started.logged('draining')).toEqual([])
      await stopped
      expect(started.logged('drained')).toHaveLength(workers)
    },
  )

  it('closes connections that are kept alive but unused', async () => {
    const backend = await startRawBackend()
    const gateway = await gatewayHere(configFile(backend.url, drain('10m')))
    await Promise.all(times(10, () => gateway.call(keys.pro)))
    await gateway.stop()
    expect(gateway.logged('drained')).toMatchObject([{ cutOff: 0 }])
  })

  it('counts two signals at once as one, since npm passes on what the terminal has sent', async () => {
    const backend = await slowBackend()
    const gateway = await gatewayProcess(configFile(backend.url))
    const inFlight = gateway.call(keys.pro)
    await eventually('the request at the backend', () => backend.waiting.length === 1)
    gateway.signal('SIGINT')
    gateway.signal('SIGINT')
    await isDraining(gateway)
    backend.answerAll()
    expect((await inFlight).status).toBe(200)
    expect((await gateway.finished).code).toBe(0)
  })

  it('ends at once with 1 on a second signal', async () => {
    const backend = await slowBackend()
    const gateway = await gatewayProcess(configFile(backend.url, drain('10m')))
    const inFlight = gateway.call(keys.pro).catch(() => 'cut off')
    await eventually('the request at the backend', () => backend.waiting.length === 1)
    gateway.signal('SIGTERM')
    await isDraining(gateway)
    await sleep(700)
    expect(gateway.child.exitCode).toBe(null)
    gateway.signal('SIGINT')
    expect((await gateway.finished).code).toBe(1)
    expect(await inFlight).toBe('cut off')
  })

  it('waits for nothing with a drain time of 0, and answers what it cuts off', async () => {
    const backend = await slowBackend()
    const gateway = await gatewayHere(configFile(backend.url, drain('0s')))
    const inFlight = gateway.call(keys.pro)
    await eventually('the request at the backend', () => backend.waiting.length === 1)
    await gateway.stop()
    expect(await inFlight).toMatchObject({ status: 503, code: 'service_unavailable' })
    expect(gateway.logged('drained')).toMatchObject([{ cutOff: 1 }])
  })

  it('leaves no token behind in the store', async () => {
    const [backend, redis] = [await startRawBackend(), sharedRedis()]
    const store = `store: { redis: "${redis.url}", prefix: ${redis.prefix} }`
    const gateway = await gatewayHere(configFile(backend.url, { store }))
    // Of a plan that lets all of them run at once: a busy machine would let who waits for a turn wait too long.
    const ask = () => gateway.call(keys.enterprise)
    const answers = await Promise.all(times(50, () => decided(ask)))
    await gateway.stop()
    expect(tally(answers)).toEqual({ '200': 50 })
    const { dayTaken, dayUsed } = quotaInRedis(redis, 'enterprise-client', redis.prefix)
    expect({ dayTaken, dayUsed }).toEqual({ dayTaken: 50, dayUsed: 50 })
  })

  it('also comes during the start, while the store is being waited for', async () => {
    const redis = await startRedisServer()
    redis.freeze()
    const store = `store: { redis: "${redis.url}" }`
    const gateway = startTollgate([
      'start',
      '--config',
      configFile('http://127.0.0.1:1', { store }),
    ])
    // Early enough to fall into the start on a fast machine, late enough for the handlers on a slow one.
    await eventually('a connection to Redis', () => gateway.stderr().includes('storeLost'))
    gateway.signal('SIGTERM')
    expect((await gateway.finished).code).toBe(0)
  })
})

describe.concurrent('a fault that nobody handles', () => {
  const preload = temporaryFile(
    'preload.mjs',
    `process.on('SIGURG', () => void Promise.reject(new Error('boom')))
     process.on('SIGWINCH', () => { throw new TypeError('bang') })`,
  )
  const env = { NODE_OPTIONS: `--import=${preload}` }

  it('ends the gateway with 1 and one line that says why', async () => {
    const backend = await startRawBackend()
    const gateway = await gatewayProcess(configFile(backend.url), { env })
    await gateway.call(keys.pro)
    gateway.signal('SIGURG')
    const { code, stderr } = await gateway.finished
    expect(code).toBe(1)
    expect(gateway.logged('crash')).toMatchObject([{ level: 'fatal', error: 'Error: boom' }])
    // What was logged before is not lost with it.
    expect(gateway.logged('access')).toHaveLength(1)
    expect(stderr.trim().split('\n').at(-1)).toContain('"event":"crash"')
  })

  it('ends the catalogue service likewise', async () => {
    const catalogue = startTollgate(['catalogue', '--listen', '127.0.0.1:0', '--db', 'pets.db'], {
      env,
    })
    await catalogue.listening('catalogue')
    catalogue.signal('SIGWINCH')
    const { code, stderr } = await catalogue.finished
    expect(code).toBe(1)
    expect(JSON.parse(stderr)).toMatchObject({ event: 'crash', error: 'TypeError: bang' })
  })
})

describe.concurrent('output that nobody reads', () => {
  it('does not end the demo, though its readers left before it printed anything', async () => {
    const [port, admin, upstream] = await Promise.all([freePort(), freePort(), freePort()])
    const file = configFile(`http://127.0.0.1:${upstream}`, {
      server: `server: { listen: "127.0.0.1:${port}" }`,
      admin: `admin: { listen: "127.0.0.1:${admin}" }`,
    })
    const demo = startTollgate(['demo', '--config', file])
    demo.child.stdout?.destroy()
    demo.child.stderr?.destroy()
    const origin = `http://127.0.0.1:${port}`
    await eventually('the listener', () => isTaken(port))
    for (let round = 0; round < 3; round++) {
      const ask = () => call(`${origin}/v1/pets`, keys.enterprise)
      expect((await decided(ask)).status).toBe(200)
      // Longer than log lines wait for their batch.
      await sleep(300)
    }
    expect(demo.child.exitCode).toBe(null)
    demo.signal('SIGTERM')
    expect((await demo.finished).code).toBe(0)
  })
})
