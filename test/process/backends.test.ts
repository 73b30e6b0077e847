/** Three backends under load, one of which freezes, dies and comes back: what clients feel, and where it is named. */
import { expect, it } from 'vitest'
import { answer, startRawBackend } from '../support/raw-backend.ts'
import { freePort } from '../support/redis-server.ts'
import { again, clientsBlock, configFile, eventually, gatewayHere } from './gateways.ts'
import { gatewayProcess, pick, tally, times, type Answer, type Gateway } from './gateways.ts'

/** One that takes requests and does not answer them while it is frozen, and goes and comes on one port. */
async function startBackend() {
  const port = await freePort()
  const state = { isFrozen: false }
  const respond = () => (state.isFrozen ? undefined : answer(200, 'ok'))
  const start = () => startRawBackend({ port, respond })
  let running = await start()
  return {
    url: `http://127.0.0.1:${port}`,
    freeze: (isFrozen: boolean) => void (state.isFrozen = isFrozen),
    die: () => running.close(),
    comeBack: async () => void (running = await start()),
  }
}

/** Clients that send a GET soon after the last one is answered. */
function startLoad({ call }: Gateway, keys: readonly string[]) {
  const answers: Answer[] = []
  const stop = again(keys.length, async (at) => answers.push(await call(pick(keys, at))), 200)
  return {
    answers,
    /** The next so many. */
    next: async (count: number): Promise<Answer[]> => {
      const from = answers.length
      await eventually('answers', () => answers.length >= from + count)
      return answers.slice(from)
    },
    stop,
  }
}

const failed = (answers: readonly Answer[]) => answers.filter(({ status }) => status !== 200).length

/** As it says it of its backends. */
const readiness = async ({ check }: Gateway) => {
  const { backends = [], ...told } = await check('backend')
  return { ...told, backends }
}

it.concurrent(
  'one of three backends that freezes or dies costs hardly a request, is named, and comes back',
  async () => {
    const backends = await Promise.all(times(3, startBackend))
    const [one, two] = [pick(backends, 0), pick(backends, 1)]
    const [first, second] = [one.url, two.url]
    const keys = times(24, (at) => `tg_test_backends_${at}`)
    const clients = keys.map((key, at) => ({ id: `c${at}`, keys: [key], perMinute: 1_000_000 }))
    const urls = backends.map(({ url }) => url).join(', ')
    const gateway = await gatewayHere(
      configFile('', {
        upstream: `upstream: { urls: [${urls}], timeouts: { response: 2s }, eject: { for: 2s } }`,
        clients: clientsBlock(clients),
        // A busy machine is no failure of a backend, neither by its store nor by itself.
        server: 'server: { listen: "127.0.0.1:0", overload: { lag: 10s } }',
        store: 'store: { file: "", onOutage: open }',
        log: 'log: { access: false }',
      }),
    )
    const named = (event: string, backend: string) =>
      gateway.logged(event).filter((line) => line['backend'] === backend)
    const isUp = (backend: string) => gateway.metric(`tollgate_backend_up{backend="${backend}"}`)
    const outcome = `{backend="${first}",outcome="response_timeout"}`
    const timeouts = () => gateway.metric(`tollgate_backend_requests_total${outcome}`)
    const load = startLoad(gateway, keys.slice(0, 12))
    expect(failed(await load.next(36))).toBe(0)

    one.freeze(true)
    await eventually('the frozen backend is named', () => named('backendDown', first).length > 0)
    const before = await timeouts()
    expect(before).toBeGreaterThan(0)
    const after = await load.next(120)
    expect(failed(after), JSON.stringify(tally(after))).toBeLessThanOrEqual(1)
    // What was on its way to it, and a trial or two: else it would be a third of them.
    expect((await timeouts()) - before).toBeLessThanOrEqual(20)
    // GETs that it swallowed were sent to another.
    expect(failed(load.answers)).toBeLessThanOrEqual(load.answers.length / 100)
    const cause = expect.stringContaining('no answer') as string
    expect(named('backendDown', first)[0]).toMatchObject({ level: 'error', cause })
    const ill = await readiness(gateway)
    expect([ill.status, ill.reason]).toEqual([200, expect.stringContaining(`${first}: `)])
    expect(ill.backends.map(({ state }) => state === 'up')).toEqual([false, true, true])
    expect([await isUp(first), await isUp(second)]).toEqual([0, 1])

    one.freeze(false)
    await eventually('the backend is back', async () => (await isUp(first)) === 1)
    await eventually('and said to be', async () =>
      (await readiness(gateway)).backends.every(({ state }) => state === 'up'),
    )
    expect(named('backendUp', first)).toHaveLength(1)
    expect(named('backendDown', first)).toHaveLength(1)

    await load.stop()
    // Others, as a client whose repeat failed too, which a busy machine may bring about, is granted one repeat a second.
    const meanwhile = startLoad(gateway, keys.slice(12))
    await meanwhile.next(12)
    await two.die()
    await eventually('the dead backend is named', () => named('backendDown', second).length > 0)
    await meanwhile.next(60)
    await two.comeBack()
    await eventually('it is back', async () => (await isUp(second)) === 1)
    await meanwhile.stop()
    const { answers } = meanwhile
    expect(failed(answers), JSON.stringify(tally(answers))).toBe(0)
  },
)

it.concurrent.each([1, 2])(
  'with checks and %i workers is ready once a backend was seen',
  async (workers) => {
    const [gone, well] = [`http://127.0.0.1:${await freePort()}`, await startBackend()]
    const start = async (...urls: string[]) => {
      const file = configFile('', {
        server: `server: { listen: "127.0.0.1:0", workers: ${workers} }`,
        // Nobody asks a second time.
        upstream: `upstream: { urls: [${urls.join(', ')}], health: { path: /, every: 1h, timeout: 1m } }`,
      })
      return workers === 1 ? gatewayHere(file) : gatewayProcess(file)
    }
    const fromMs = Date.now()
    const isNamed = async (gateway: Gateway): Promise<void> => {
      await eventually('the first check', async () => {
        const [backend] = (await readiness(gateway)).backends
        return backend?.cause?.includes('ECONNREFUSED') ?? false
      })
      const [backend] = (await readiness(gateway)).backends
      expect(backend?.state).toBe('ejected')
      const sinceMs = Date.parse(backend?.since ?? '')
      expect(sinceMs).toBeGreaterThanOrEqual(fromMs - 10)
      expect(sinceMs).toBeLessThanOrEqual(Date.now())
    }
    if (workers === 1) {
      const alone = await start(gone)
      expect((await readiness(alone)).status).toBe(503)
      await isNamed(alone)
      expect((await readiness(alone)).status).toBe(503)
    }
    const both = await start(gone, well.url)
    await eventually('ready', async () => (await readiness(both)).status === 200)
    await isNamed(both)
    expect((await readiness(both)).backends[1]).toEqual({ name: well.url, state: 'up' })
  },
)
