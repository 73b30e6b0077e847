/** Who can have a backend left out, or the gateway taken for useless: no client who fails where another is served. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import { keys, startTestGateway } from '../support/gateway.ts'
import { answer, closeConnection, startRawBackend, type Answer } from '../support/raw-backend.ts'

const stops: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const stop of stops.splice(0).toReversed()) await stop()
})

/** So many backends, each of which answers as `respond` says of its number and the path. */
async function start(
  count: number,
  respond: (target: string, backend: number) => Answer,
  settings = '',
) {
  const urls: string[] = []
  for (let nth = 0; nth < count; nth++) {
    const backend = await startRawBackend({ respond: ({ target }) => respond(target, nth) })
    stops.push(backend.close)
    urls.push(backend.url)
  }
  const upstream = `upstream: { urls: [${urls.join(', ')}], balance: round-robin${settings} }`
  const gateway = await startTestGateway({ upstreams: [], blocks: { upstream } })
  stops.push(gateway.stop)
  return {
    urls,
    ask: async (key: string, path: string): Promise<number> => {
      const response = await gateway.fetch(path, { key })
      await response.arrayBuffer()
      return response.status
    },
    readiness: async () => {
      const response = await fetch(`http://127.0.0.1:${gateway.adminPort}/readyz`)
      await response.arrayBuffer()
      return response.status
    },
    downs: () => gateway.logLines().filter(({ event }) => event === 'backendDown'),
  }
}

const bad = '/v1/pets/bad'
const failsWith = (how: Answer) => (target: string) =>
  target.includes('bad') ? how : answer(200, 'ok')

describe('two clients on a path that fails for everybody, while another is served', () => {
  it.each([
    ['closed', 1, closeConnection],
    ['502', 1, answer(502, 'no')],
    ['closed', 2, closeConnection],
    ['502', 2, answer(502, 'no')],
  ] as const)(
    '%s: of %i backends none is down, and the gateway is ready',
    async (_, count, how) => {
      const { ask, readiness, downs } = await start(count, failsWith(how))
      const served: number[] = []
      const looks: number[] = []
      const over = new AbortController()
      const bystander = (async () => {
        while (!over.signal.aborted) {
          served.push(await ask(keys.enterprise, '/v1/pets/1'))
          await sleep(20)
        }
      })()
      while (served.length < 5) await sleep(5)
      const burst = [keys.free, keys.business].flatMap((key) =>
        Array.from({ length: 12 }, () => key),
      )
      await Promise.all(burst.map((key) => ask(key, bad)))
      for (let look = 0; look < 8; look++) {
        looks.push(await readiness())
        for (const key of [keys.free, keys.business]) expect(await ask(key, bad)).toBe(502)
        looks.push(await readiness())
        await sleep(150)
      }
      over.abort()
      await bystander
      expect(new Set(served)).toEqual(new Set([200]))
      expect(new Set(looks)).toEqual(new Set([200]))
      expect(downs()).toEqual([])
    },
  )
})

it('one client whom every request fails, while nobody else asks, leaves the gateway ready: the backend answers its own question', async () => {
  const { urls, ask, readiness, downs } = await start(1, failsWith(answer(503, 'no')))
  for (let count = 0; count < 8; count++) expect(await ask(keys.free, bad)).toBe(503)
  expect(downs()).toMatchObject([{ backend: urls[0], cause: 'answers 503' }])
  expect(await readiness()).toBe(200)
  // Another is served at once, and then it is up again.
  expect(await ask(keys.pro, '/v1/pets/1')).toBe(200)
  for (let count = 0; count < 8; count++) expect(await ask(keys.free, bad)).toBe(503)
  expect(downs()).toHaveLength(1)
})

it('a backend that answers nobody, nor the gateway, makes it not ready', async () => {
  const { ask, readiness } = await start(1, () => undefined, ', timeouts: { response: 100ms }')
  for (let count = 0; count < 5; count++) expect(await ask(keys.free, bad)).toBe(504)
  expect(await readiness()).toBe(503)
})

it.each([1, 2])(
  'a backend that answers 503 to all of its %i clients is left out',
  async (count) => {
    const respond = (_: string, nth: number) => (nth === 0 ? answer(503, 'no') : answer(200, 'ok'))
    const { urls, ask, downs } = await start(2, respond)
    const clients = [keys.pro, keys.business].slice(0, count)
    const statuses: number[] = []
    const askAll = async () => {
      for (const key of clients) statuses.push(await ask(key, '/v1/pets'))
      return downs()
    }
    await expect
      .poll(askAll, { timeout: 20_000, interval: 50 })
      .toMatchObject([{ backend: urls[0] }])
    expect(statuses.filter((status) => status === 503).length).toBeLessThan(15)
  },
)
