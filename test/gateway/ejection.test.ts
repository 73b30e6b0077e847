/** Who can have a backend left out: one client of several cannot, whatever it asks for. */
import { afterEach, expect, it } from 'vitest'
import { keys, startTestGateway, type TestGateway } from '../support/gateway.ts'
import { answer, startRawBackend } from '../support/raw-backend.ts'

const stops: (() => Promise<unknown>)[] = []
afterEach(async () => {
  for (const stop of stops.splice(0).toReversed()) await stop()
})

/** Two backends; both fail what is asked of them below /pets/bad and /pets/silent. */
async function start(responseTimeout: string): Promise<TestGateway> {
  const respond = ({ target }: { target: string }) => {
    if (target.includes('silent')) return undefined
    return target.includes('bad') ? answer(503, 'no') : answer(200, 'ok')
  }
  const backends = [await startRawBackend({ respond }), await startRawBackend({ respond })]
  const urls = backends.map(({ url }) => url)
  const upstream = `upstream: { urls: [${urls.join(', ')}], balance: round-robin, retry: { attempts: 0 }, timeouts: { response: ${responseTimeout} } }`
  const gateway = await startTestGateway({ upstreams: [], blocks: { upstream } })
  stops.push(...backends.map(({ close }) => close), gateway.stop)
  return gateway
}

it.each([
  { path: '/v1/pets/bad', status: 503, responseTimeout: '30s' },
  { path: '/v1/pets/silent', status: 504, responseTimeout: '1s' },
])('$status again and again to one of several clients leaves no backend out', async (row) => {
  const gateway = await start(row.responseTimeout)
  const ask = async (key: string, path: string): Promise<number> => {
    const response = await gateway.fetch(path, { key })
    await response.arrayBuffer()
    return response.status
  }
  const downs = () => gateway.logLines().filter(({ event }) => event === 'backendDown')
  expect(await ask(keys.pro, '/v1/pets/1')).toBe(200)
  const failing = Array.from({ length: 16 }, () => ask(keys.business, row.path))
  expect(new Set(await Promise.all(failing))).toEqual(new Set([row.status]))
  expect(downs()).toEqual([])
  // Another one sees the same: it is the backend's fault.
  for (let at = 0; at < 4; at++) expect(await ask(keys.pro, row.path)).toBe(row.status)
  await expect.poll(downs).not.toEqual([])
})
