/** What the settings of the configuration do to requests at a running gateway. */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { backed, gatewayTo, rawBackend } from '../../support/backed.ts'
import { keys, minuteWithAtLeast, sha256 } from '../../support/gateway.ts'
import { answer } from '../../support/raw-backend.ts'

const key = keys.pro
const server = (more: string): Record<string, string> => ({
  server: `server: { listen: "127.0.0.1:0", ${more} }`,
})

it('callers without a key are counted by the address behind the proxy, IPv6 ones by their /64, and without a proxy by their own', async () => {
  const anonymous = 'anonymous: { perMinute: 2 }'
  const upstreams = ['http://127.0.0.1:1']
  const proxied = await gatewayTo(upstreams, {
    ...server('trustedProxies: [127.0.0.1]'),
    anonymous,
  })
  const direct = await gatewayTo(upstreams, { anonymous })
  await minuteWithAtLeast()
  for (const [gateway, address, status] of [
    [proxied, '198.51.100.7', 401],
    [proxied, '2001:db8:1:2::1', 401],
    [proxied, '2001:DB8:1:2:ffff::9', 401],
    [proxied, '[2001:db8:1:2::3]:4711', 429],
    [proxied, '2001:db8:1:3::1', 401],
    [direct, '198.51.100.1', 401],
    [direct, '198.51.100.2', 401],
    [direct, '198.51.100.3', 429],
  ] as const) {
    const headers = { 'x-forwarded-for': address }
    expect(await gateway.status('/v1/pets', { headers }), address).toBe(status)
  }
})

it('basePath: / puts every operation at the root, and the links of a deprecated one too', async () => {
  const { backend, gateway } = await backed({
    blocks: { ...server('basePath: /'), unmatched: 'unmatched: reject' },
  })
  expect(await gateway.status('/pets', { key })).toBe(200)
  const old = await gateway.ask('/pets/1?a=b', { key })
  expect(old.header('link')).toBe('</pets?status=available>; rel="successor-version"')
  for (const path of ['/', '/v1/pets', '/metrics']) {
    expect(await gateway.status(path, { key })).toBe(404)
    // Nothing is outside of it, so who has no key learns nothing.
    expect(await gateway.status(path)).toBe(401)
  }
  expect(backend.requests.map(({ target }) => target)).toEqual(['/pets', '/pets/1?a=b'])
})

it.each(['direct', 'http-proxy-3'])(
  'upstream with engine %s gives each route its own time, and the others the general one',
  async (engine) => {
    const backend = await rawBackend({
      respond: ({ target }) => [target === '/v1/never' ? 60_000 : 400, answer(200, '[]')],
    })
    const gateway = await gatewayTo([], {
      upstream: `upstream: { urls: [${backend.url}], engine: ${engine}, timeouts: { response: 200ms } }`,
      routes: `routes:
  - { name: listPets, match: GET /pets }
  - { name: slowPets, match: GET /slow, timeouts: { response: 100s } }
  - { name: hasty, match: GET /never, timeouts: { response: 50ms } }`,
    })
    const sentMs = performance.now()
    expect(await gateway.status('/v1/never', { key })).toBe(504)
    expect(performance.now() - sentMs).toBeGreaterThan(45)
    expect(await gateway.status('/v1/pets', { key })).toBe(504)
    expect(await gateway.status('/v1/slow', { key })).toBe(200)
    expect(await gateway.metric('tollgate_backend_failures_total{kind=')).toBe(2)
  },
)

it('clients lose a key at the moment it expires', async () => {
  const expiresMs = Math.ceil(Date.now() / 1000) * 1000 + 2_000
  const expires = new Date(expiresMs).toISOString().replace('.000', '')
  const { gateway } = await backed({
    blocks: {
      clients: `clients:
  - { id: brief, plan: pro, keys: [{ id: brief-1, sha256: ${sha256('brief')}, expires: "${expires}" }] }`,
    },
  })
  const statuses = new Set<number>()
  while (!statuses.has(401)) {
    const sentMs = Date.now()
    const status = await gateway.status('/v1/pets', { key: 'brief' })
    if (Date.now() < expiresMs) expect(status).toBe(200)
    if (sentMs >= expiresMs) expect(status).toBe(401)
    statuses.add(status)
    await sleep(25)
  }
  expect(statuses).toEqual(new Set([200, 401]))
})
