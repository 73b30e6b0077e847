/** Three backends under load, one of which freezes, dies and comes back: what clients feel, and where it is named. */
import { spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, describe, expect, it } from 'vitest'
import { freePort } from '../support/redis-server.ts'
import {
  clientsBlock,
  configFile,
  endAll,
  eventually,
  gatewayProcess,
  times,
  type GatewayProcess,
} from './gateways.ts'

const children: ChildProcess[] = []
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL')
  await endAll()
})

const script = `require('node:http').createServer((_, response) => response.end('ok'))
  .listen(Number(process.argv[1]), '127.0.0.1', () => console.log('up'))`

/** Tries again while the port is in use: what was there is gone soon. */
async function startBackend(port: number): Promise<ChildProcess> {
  for (;;) {
    const child = spawn(process.execPath, ['-e', script, String(port)], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    children.push(child)
    const up = once(child.stdout, 'data').then(() => true)
    if (await Promise.race([up, once(child, 'exit').then(() => false)])) return child
    await sleep(200)
  }
}

interface Sent {
  readonly atMs: number
  readonly tookMs: number
  readonly status: number
}

/** How long a client waits for its next GET, so that the load leaves the machine time for others. */
const PAUSE_MS = 100

/** Clients that send a GET soon after the last one is answered, each on a connection of its own that is kept. */
function startLoad({ origin }: GatewayProcess, keys: readonly string[]) {
  const sent: Sent[] = []
  const over = new AbortController()
  const agent = new Agent({ keepAlive: true })
  const get = (key: string): Promise<number> =>
    new Promise((resolve) => {
      const headers = { authorization: `Bearer ${key}` }
      request(`${origin}/v1/pets`, { agent, headers }, (response) =>
        response.resume().once('close', () => resolve(response.statusCode ?? 0)),
      )
        .once('error', () => resolve(0))
        .end()
    })
  const client = async (key: string): Promise<void> => {
    while (!over.signal.aborted) {
      const atMs = performance.now()
      const status = await get(key)
      sent.push({ atMs, tookMs: performance.now() - atMs, status })
      await sleep(PAUSE_MS)
    }
  }
  const clients = keys.map(client)
  return {
    /** What was sent within the next so many milliseconds. */
    during: async (ms: number): Promise<Sent[]> => {
      const fromMs = performance.now()
      await sleep(ms)
      return sent.filter(({ atMs }) => atMs >= fromMs)
    },
    all: () => sent,
    stop: async () => {
      over.abort()
      await Promise.all(clients)
      agent.destroy()
    },
  }
}

const failed = (sent: readonly Sent[]): Sent[] => sent.filter(({ status }) => status !== 200)

const statuses = (sent: readonly Sent[]): string =>
  Array.from(
    Map.groupBy(sent, ({ status }) => status),
    ([status, { length }]) => `${length} x ${status}`,
  ).join(', ')

interface Check {
  readonly name: string
  readonly ok: boolean
  readonly reason: string
  readonly backends?: readonly {
    readonly name: string
    readonly state: string
    readonly cause?: string
    readonly since?: string
  }[]
}
async function readiness({ adminOrigin }: GatewayProcess) {
  const response = await fetch(`${adminOrigin}/readyz`)
  const { checks } = (await response.json()) as { checks: Check[] }
  return { status: response.status, check: checks.find(({ name }) => name === 'backend') }
}

describe.concurrent.each([
  ['direct', 1],
  ['undici', 2],
  ['http-proxy-3', 1],
] as const)('one of three backends (engine %s, workers: %i)', (engine, workers) => {
  it('that freezes or dies costs hardly a request, is named, and comes back', async () => {
    const ports = await Promise.all(times(3, () => freePort()))
    const [one, two] = await Promise.all(ports.map(startBackend))
    const urls = ports.map((port) => `http://127.0.0.1:${port}`)
    const clients = times(24, (at) => ({
      id: `c${at}`,
      keys: [`tg_test_backends_${at}`],
      perMinute: 1_000_000,
    }))
    const gateway = await gatewayProcess(
      configFile('', {
        server: `server: { listen: "127.0.0.1:0", workers: ${workers}, overload: { lag: 10s } }`,
        upstream: `upstream:
  urls: [${urls.join(', ')}]
  engine: ${engine}
  timeouts: { response: 2s }
  eject: { for: 2s }`,
        clients: clientsBlock(clients),
        // A store that is late on a busy machine is no failure of a backend.
        store: 'store: { file: "", onOutage: open }',
        log: 'log: { access: false }',
      }),
    )
    const [first = '', second = ''] = urls
    const named = (event: string, backend: string) =>
      gateway.logged(event).filter((line) => line['backend'] === backend)
    const isUp = (backend: string) => gateway.metric(`tollgate_backend_up{backend="${backend}"}`)
    const load = startLoad(
      gateway,
      clients.flatMap(({ keys }) => keys),
    )
    await load.during(1_000)
    const before = await load.during(2_000)
    expect(failed(before)).toEqual([])

    one?.kill('SIGSTOP')
    await eventually('the frozen backend is named', () => named('backendDown', first).length > 0)
    const after = await load.during(4_000)
    expect(failed(after).length, statuses(after)).toBeLessThanOrEqual(after.length / 100)
    // Other work on this machine comes and goes.
    expect(after.length / 4).toBeGreaterThan((0.4 * before.length) / 2)
    // GETs that it swallowed were sent to another.
    expect(failed(load.all()).length).toBeLessThanOrEqual(load.all().length / 100)
    expect(named('backendDown', first)[0]).toMatchObject({
      level: 'error',
      cause: expect.stringMatching(/no answer|HEADERS_TIMEOUT|Headers Timeout/i) as string,
    })
    const ill = await readiness(gateway)
    expect(ill.status).toBe(200)
    expect(ill.check?.reason).toContain(`${first}: `)
    expect(ill.check?.backends?.map(({ state }) => state === 'up')).toEqual([false, true, true])
    expect([await isUp(first), await isUp(second)]).toEqual([0, 1])
    const labels = `{backend="${first}",outcome="response_timeout"}`
    expect(await gateway.metric(`tollgate_backend_requests_total${labels}`)).toBeGreaterThan(4)

    one?.kill('SIGCONT')
    await eventually('the backend is back', async () => (await isUp(first)) === 1)
    await eventually('and said to be', async () => {
      const { check } = await readiness(gateway)
      return check?.backends?.every(({ state }) => state === 'up') ?? false
    })
    // Once for each worker that has seen it go.
    await eventually(
      'the log says so',
      () => named('backendUp', first).length === named('backendDown', first).length,
    )
    expect(named('backendUp', first).length).toBeLessThanOrEqual(workers)

    const whole = load.all().length
    two?.kill('SIGKILL')
    await eventually('the dead backend is named', () => named('backendDown', second).length > 0)
    await load.during(2_000)
    expect(failed(load.all().slice(whole))).toEqual([])
    await startBackend(ports[1] ?? 0)
    await eventually('it is back', async () => (await isUp(second)) === 1)
    await load.stop()
    expect(failed(load.all().slice(whole))).toEqual([])
  }, 180_000)
})

it.concurrent.each([1, 2])(
  'with checks and %i workers is ready once a backend was seen',
  async (workers) => {
    const [gone, well] = [await freePort(), await freePort()]
    await startBackend(well)
    const start = (ports: readonly number[]) =>
      gatewayProcess(
        configFile('', {
          server: `server: { listen: "127.0.0.1:0", workers: ${workers} }`,
          // Nobody asks a second time.
          upstream: `upstream:
  urls: [${ports.map((port) => `http://127.0.0.1:${port}`).join(', ')}]
  health: { path: /, every: 1h, timeout: 1m }`,
        }),
      )
    const alone = await start([gone])
    expect((await readiness(alone)).status).toBe(503)
    await eventually('the first check', async () => {
      const [backend] = (await readiness(alone)).check?.backends ?? []
      return backend?.cause?.includes('ECONNREFUSED') ?? false
    })
    const { status, check } = await readiness(alone)
    expect([status, check?.backends?.[0]?.state]).toEqual([503, 'ejected'])
    const sinceMs = Date.parse(check?.backends?.[0]?.since ?? '')
    expect(Math.abs(Date.now() - sinceMs)).toBeLessThan(60_000)
    const both = await start([gone, well])
    await eventually('ready', async () => (await readiness(both)).status === 200)
    const [, seen] = (await readiness(both)).check?.backends ?? []
    expect(seen).toEqual({ name: `http://127.0.0.1:${well}`, state: 'up' })
  },
)
