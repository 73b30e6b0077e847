/** What the settings of the configuration do to requests at a running gateway. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { backed, gatewayTo, rawBackend } from '../support/backed.ts'
import { keys, minuteWithAtLeast, sha256 } from '../support/gateway.ts'
import { answer } from '../support/raw-backend.ts'
import { rawExchange } from '../support/raw-client.ts'
import { freePort } from '../support/redis-server.ts'

const key = keys.pro
const server = (more: string): Record<string, string> => ({
  server: `server: { listen: "127.0.0.1:0", ${more} }`,
})

describe('trustedProxies', () => {
  const claims = {
    'x-forwarded-for': '6.6.6.6, 198.51.100.7, 203.0.113.9',
    'x-forwarded-proto': 'https',
    'x-request-id': 'of-the-proxy-1',
  }

  it.each([
    ['without any, nobody is', {}],
    ['a peer outside them is not', server('trustedProxies: [127.0.0.2, 10.0.0.0/8]')],
  ])('%s believed about the address, the protocol or the request id', async (_, blocks) => {
    const { backend, gateway } = await backed({ blocks })
    const { header } = await gateway.ask('/v1/pets', { key, headers: claims })
    const id = header('x-request-id')
    expect(id).not.toBe(claims['x-request-id'])
    const [seen] = backend.requests
    expect(seen?.all('x-forwarded-for')).toEqual(['127.0.0.1'])
    expect(seen?.all('x-forwarded-proto')).toEqual(['http'])
    expect(seen?.all('x-request-id')).toEqual([id])
    await expect.poll(() => gateway.lines('access')).toMatchObject([{ id, address: '127.0.0.1' }])
  })

  it('a peer among them is: the nearest address that is not a proxy is the client; but for an id that is not short and plain', async () => {
    const { backend, gateway } = await backed({
      blocks: server('trustedProxies: [127.0.0.0/8, 203.0.113.0/24]'),
    })
    const { header } = await gateway.ask('/v1/pets', { key, headers: claims })
    const id = claims['x-request-id']
    expect(header('x-request-id')).toBe(id)
    const [seen] = backend.requests
    expect(seen?.all('x-forwarded-for')).toEqual(['198.51.100.7, 203.0.113.9, 127.0.0.1'])
    expect(seen?.all('x-forwarded-proto')).toEqual(['https'])
    expect(seen?.all('x-request-id')).toEqual([id])
    const lines = () => gateway.lines('access')
    await expect.poll(lines).toMatchObject([{ id, address: '198.51.100.7' }])
    for (const odd of ['a b', 'x'.repeat(129), '"><script>']) {
      const own = await gateway.ask('/v1/pets', { key, headers: { 'x-request-id': odd } })
      expect(own.header('x-request-id')).toMatch(/^[\w.-]{8,128}$/)
      expect(own.header('x-request-id')).not.toBe(odd)
    }
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
      [proxied, '198.51.100.7', 401],
      [proxied, '198.51.100.7', 429],
      [proxied, '198.51.100.8', 401],
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
})

describe('basePath', () => {
  it('/ puts every operation at the root, and the links of a deprecated one too', async () => {
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

  it('of several segments is passed on whole', async () => {
    const { backend, gateway } = await backed({ blocks: server('basePath: /store/api') })
    expect(await gateway.status('/store/api/pets', { key })).toBe(200)
    for (const path of ['/store/apis/pets', '/store', '/pets'])
      expect(await gateway.status(path, { key })).toBe(404)
    expect(backend.requests.map(({ target }) => target)).toEqual(['/store/api/pets'])
  })
})

describe.each(['direct', 'undici', 'http-proxy-3'])('upstream with engine %s', (engine) => {
  const upstream = (urls: readonly string[], more = ''): Record<string, string> => ({
    upstream: `upstream: { urls: [${urls.join(', ')}], engine: ${engine}${more} }`,
  })

  it('takes its backends in turn', async () => {
    const [one, other] = [await rawBackend(), await rawBackend()]
    const gateway = await gatewayTo([], upstream([one.url, other.url]))
    for (let count = 0; count < 10; count++)
      expect(await gateway.status('/v1/pets', { key })).toBe(200)
    expect([one.requests.length, other.requests.length]).toEqual([5, 5])
  })

  it('goes on with the others while one is down, POST included, and comes back to it', async () => {
    const port = await freePort()
    const alive = await rawBackend()
    const gateway = await gatewayTo([], upstream([`http://127.0.0.1:${port}`, alive.url]))
    const post = { key, method: 'POST', body: '{"name":"Rex"}' }
    for (let count = 0; count < 6; count++) {
      expect(await gateway.status('/v1/pets', { key })).toBe(200)
      expect(await gateway.status('/v1/pets', post)).toBe(200)
    }
    const bodies = alive.requests.map(({ method, body }) => `${method} ${String(body)}`)
    expect(bodies).toEqual(
      Array.from({ length: 12 }, (_, at) => (at % 2 ? `POST ${post.body}` : 'GET ')),
    )
    // The second attempts were not charged.
    expect(await gateway.ask('/v1/pets', { key })).toMatchObject({ dayLeft: 9_987 })

    const back = await rawBackend({ port })
    const seen = async () => {
      await gateway.status('/v1/pets', { key: keys.enterprise })
      return back.requests.length
    }
    await expect.poll(seen, { interval: 100 }).toBeGreaterThan(0)
  })

  it('is charged to nobody when all are down', async () => {
    const urls = [await freePort(), await freePort()].map((port) => `http://127.0.0.1:${port}`)
    const gateway = await gatewayTo([], upstream(urls))
    for (let count = 0; count < 3; count++)
      expect(await gateway.ask('/v1/pets', { key })).toMatchObject({ status: 502, left: 300 })
  })

  it('gives each route its own time, and the others the general one', async () => {
    const backend = await rawBackend({
      respond: ({ target }) => [target === '/v1/never' ? 60_000 : 400, answer(200, '[]')],
    })
    const gateway = await gatewayTo([], {
      ...upstream([backend.url], ', timeouts: { response: 200ms }'),
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
    expect(await gateway.metric('tollgate_backend_failures_total{kind="response_timeout"}')).toBe(2)
  })
})

describe('server.limits', () => {
  const limits = 'limits: { headerBytes: 2KiB, headerCount: 10, bodyBytes: 10B, urlBytes: 64B }'
  const head = (start: string, ...lines: readonly string[]): string =>
    [`${start} HTTP/1.1`, 'Host: a', `Authorization: Bearer ${key}`, ...lines, '', ''].join('\r\n')

  it('are those of the file, to the byte, for a chunked body, too, whose length nobody told', async () => {
    const { backend, gateway } = await backed({ blocks: server(limits) })
    const post = (body: string) => gateway.status('/v1/pets', { key, method: 'POST', body })
    const raw = async (text: string): Promise<number | undefined> =>
      (await rawExchange(gateway.port, text, { responses: 1 })).responses[0]?.status
    const chunked = (text: string) =>
      raw(
        head('POST /v1/pets', 'Transfer-Encoding: chunked') +
          text.replace(/./g, '1\r\n$&\r\n') +
          '0\r\n\r\n',
      )
    const withFields = (count: number) =>
      raw(head('GET /v1/pets', ...Array.from({ length: count - 2 }, (_, at) => `X-${at}: 1`)))
    expect([await post('x'.repeat(10)), await post('x'.repeat(11))]).toEqual([200, 413])
    expect([await chunked('0123456789'), await chunked('0123456789A')]).toEqual([200, 413])
    expect(await gateway.status(`/v1/${'x'.repeat(60)}`, { key })).toBe(200)
    expect(await gateway.status(`/v1/${'x'.repeat(61)}`, { key })).toBe(414)
    expect([await withFields(10), await withFields(11)]).toEqual([200, 431])
    const long = { a: 'x'.repeat(2_048) }
    expect(await gateway.status('/v1/pets', { key, headers: long })).toBe(431)
    expect(backend.requests.map(({ body }) => body.length)).toEqual([10, 10, 0, 0])
  })
})

describe('clients', () => {
  it('share one quota among all their keys, and an enterprise client has its own limits', async () => {
    const { gateway } = await backed({
      blocks: {
        clients: `clients:
  - { id: twin, plan: free, keys: [{ id: twin-1, sha256: ${sha256('one')} }, { id: twin-2, sha256: ${sha256('two')} }] }
  - { id: large, plan: enterprise, limits: { perMinute: 7, perDay: 9 }, keys: [{ id: large-1, sha256: ${sha256('large')} }] }`,
      },
    })
    await minuteWithAtLeast()
    const standings: string[] = []
    for (const own of ['one', 'two', 'one', 'large', 'large']) {
      const { header, left } = await gateway.ask('/v1/pets', { key: own })
      standings.push(`${header('x-ratelimit-limit')} ${left}`)
    }
    expect(standings).toEqual(['60 59', '60 58', '60 57', '7 6', '7 5'])
  })

  it('lose a key at the moment it expires', async () => {
    const expiresMs = Math.ceil(Date.now() / 1000) * 1000 + 2_000
    const expires = new Date(expiresMs).toISOString().replace('.000', '')
    const { gateway } = await backed({
      blocks: {
        clients: `clients:
  - { id: brief, plan: pro, keys: [{ id: brief-1, sha256: ${sha256('brief')}, expires: "${expires}" }] }`,
      },
    })
    const statuses = new Set<number>()
    for (let sentMs = Date.now(); sentMs < expiresMs + 100; sentMs = Date.now()) {
      const status = await gateway.status('/v1/pets', { key: 'brief' })
      if (Date.now() < expiresMs) expect(status).toBe(200)
      if (sentMs >= expiresMs) expect(status).toBe(401)
      statuses.add(status)
      await sleep(25)
    }
    expect(statuses).toEqual(new Set([200, 401]))
  })
})

describe('log', () => {
  it('access: false leaves out the lines of requests and keeps the others', async () => {
    const { gateway } = await backed({ blocks: { log: 'log: { access: false }' } })
    expect(await gateway.status('/v1/pets', { key })).toBe(200)
    await gateway.stop()
    const counts = ['listening', 'drained', 'access'].map((event) => gateway.lines(event).length)
    expect(counts).toEqual([2, 1, 0])
  })

  it('level: warn leaves out what is ordinary, and shows a backend that fails', async () => {
    const gateway = await gatewayTo([`http://127.0.0.1:${await freePort()}`], {
      log: 'log: { level: warn }',
    })
    expect(await gateway.status('/v1/pets')).toBe(401)
    expect(await gateway.status('/v1/pets', { key })).toBe(502)
    await gateway.stop()
    // How many files may be open is the machine's to say. The warning is of the expired key.
    const lines = gateway.logLines().filter(({ event }) => event !== 'filesAreFew')
    const told = lines.map(({ level, event }) => `${String(level)} ${String(event)}`)
    expect(told.toSorted()).toEqual(['warn access', 'warn backendFailed', 'warn configWarning'])
  })
})
