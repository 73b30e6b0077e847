/** Who can have a backend left out, or the gateway taken for useless: no client who fails where another is served. */
import { expect, it } from 'vitest'
import { gatewayTo, rawBackend } from '../../support/backed.ts'
import { keys } from '../../support/gateway.ts'
import { answer, closeConnection, type Answer } from '../../support/raw-backend.ts'

/** So many backends, each of which answers as `respond` says of its number and the path. */
async function start(
  count: number,
  respond: (target: string, backend: number) => Answer,
  settings = '',
) {
  const urls: string[] = []
  for (let nth = 0; nth < count; nth++)
    urls.push((await rawBackend({ respond: ({ target }) => respond(target, nth) })).url)
  const gateway = await gatewayTo([], {
    upstream: `upstream: { urls: [${urls.join(', ')}], balance: round-robin${settings} }`,
    plans: `plans: { free: { perMinute: 1000, perDay: 9000 }, pro: { perMinute: 1000, perDay: 9000 }, business: { perMinute: 1000, perDay: 9000 }, enterprise: { custom: true } }`,
  })
  return {
    urls,
    ask: (key: string, path: string) => gateway.status(path, { key }),
    isReady: async () => (await gateway.readiness()).ready,
    downs: () => gateway.lines('backendDown'),
  }
}

const bad = '/v1/pets/bad'
const failsWith = (how: Answer) => (target: string) =>
  target.includes('bad') ? how : answer(200, 'ok')

it.each([
  ['closed', 1, closeConnection],
  ['502', 1, answer(502, 'no')],
  ['closed', 2, closeConnection],
  ['502', 2, answer(502, 'no')],
] as const)(
  'two clients on a path that fails for everybody (%s), while another is served: of %i backends none is down, and the gateway is ready',
  async (_, count, how) => {
    const { ask, isReady, downs } = await start(count, failsWith(how))
    // Of each backend; who is served is so for ten seconds.
    const bystander = async () => {
      for (let at = 0; at < count; at++) expect(await ask(keys.enterprise, '/v1/pets/1')).toBe(200)
    }
    const [one, other] = [keys.free, keys.business]
    await bystander()
    await Promise.all(Array.from({ length: 24 }, (_, at) => ask(at % 2 ? one : other, bad)))
    for (let look = 0; look < 8; look++) {
      expect(await isReady()).toBe(true)
      for (const key of [one, other]) expect(await ask(key, bad)).toBe(502)
      expect(await isReady()).toBe(true)
      await bystander()
    }
    expect(downs()).toEqual([])
  },
)

it('one client whom every request fails, while nobody else asks, leaves the gateway ready: the backend answers its own question', async () => {
  const { urls, ask, isReady, downs } = await start(1, failsWith(answer(503, 'no')))
  for (let count = 0; count < 8; count++) expect(await ask(keys.free, bad)).toBe(503)
  expect(downs()).toMatchObject([{ backend: urls[0], cause: 'answers 503' }])
  expect(await isReady()).toBe(true)
  // Another is served at once, and then it is up again.
  expect(await ask(keys.pro, '/v1/pets/1')).toBe(200)
  for (let count = 0; count < 8; count++) expect(await ask(keys.free, bad)).toBe(503)
  expect(downs()).toHaveLength(1)
})
