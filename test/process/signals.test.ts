import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { keys } from '../support/gateway.ts'
import { temporaryFile } from '../support/processes.ts'
import { freePort, isTaken } from '../support/redis-server.ts'
import {
  call,
  configFile,
  decided,
  eventually,
  gatewayProcess,
  startRawBackend,
  startRedisServer,
  startSlowBackend,
  tally,
  times,
  startTollgate,
  type GatewayProcess,
} from './gateways.ts'

const drain = (time: string) => ({
  server: `server: { listen: "127.0.0.1:0", timeouts: { drain: ${time} } }`,
})
const isDraining = (gateway: GatewayProcess) =>
  eventually('draining', () => gateway.logged('draining').length > 0)

describe.concurrent('a stop', () => {
  it('with a delay is not ready at once, and takes requests until it is over, with workers too', async () => {
    const backend = await startRawBackend()
    // Longer than a busy machine takes to ask four times.
    const server = 'server: { listen: "127.0.0.1:0", workers: 2, timeouts: { drainDelay: 8s } }'
    const gateway = await gatewayProcess(configFile(backend.url, { server }))
    gateway.signal('SIGTERM')
    await eventually('not ready', async () => (await gateway.ready()).includes('or draining'))
    const answers = await Promise.all(times(3, () => decided(() => gateway.call(keys.pro))))
    expect(tally(answers)).toEqual({ '200': 3 })
    expect(answers.every(({ headers }) => headers.get('connection') !== 'close')).toBe(true)
    expect(gateway.logged('drainDelayed')).toMatchObject([{ delayMs: 8_000 }])
    expect(gateway.logged('draining')).toEqual([])
    expect((await gateway.finished).code).toBe(0)
    expect(gateway.logged('drained')).toHaveLength(2)
  })

  it('counts two signals at once as one, since npm passes on what the terminal has sent', async () => {
    const backend = await startSlowBackend()
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
    const backend = await startSlowBackend()
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
