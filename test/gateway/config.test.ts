/** What the settings of the configuration do to requests at a running gateway. */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import {
  keys,
  minuteWithAtLeast,
  sha256,
  startTestGateway,
  type TestGateway,
} from '../support/gateway.ts'
import { answer, startRawBackend, type RawBackend } from '../support/raw-backend.ts'
import { rawExchange } from '../support/raw-client.ts'
import { freePort } from '../support/redis-server.ts'

const cleanUps: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp()
})

type Options = NonNullable<Parameters<typeof startRawBackend>[0]>

async function backendThat(options: Options = {}): Promise<RawBackend> {
  const backend = await startRawBackend({ respond: () => answer(200, '[]'), ...options })
  cleanUps.push(backend.close)
  return backend
}

async function gatewayTo(
  upstreams: readonly string[],
  blocks: Record<string, string> = {},
): Promise<TestGateway> {
  const gateway = await startTestGateway({ upstreams, blocks })
  cleanUps.push(gateway.stop)
  return gateway
}

const server = (more: string): Record<string, string> => ({
  server: `server: { listen: "127.0.0.1:0", ${more} }`,
})

async function statusOf(gateway: TestGateway, path: string, init?: object): Promise<number> {
  const response = await gateway.fetch(path, init)
  await response.arrayBuffer()
  return response.status
}

describe('trustedProxies', () => {
  const claims = {
    'x-forwarded-for': '198.51.100.7, 203.0.113.9',
    'x-forwarded-proto': 'https',
    'x-request-id': 'of-the-proxy-1',
  }

  it('without any, nobody is believed about the address, the protocol or the request id', async () => {
    const backend = await backendThat()
    const gateway = await gatewayTo([backend.url])
    const response = await gateway.fetch('/v1/pets', { key: keys.pro, headers: claims })
    await response.arrayBuffer()
    const id = response.headers.get('x-request-id')
    expect(id).not.toBe(claims['x-request-id'])
    const seen = backend.requests.at(-1)
    expect(seen?.all('x-forwarded-for')).toEqual(['127.0.0.1'])
    expect(seen?.all('x-forwarded-proto')).toEqual(['http'])
    expect(seen?.all('x-request-id')).toEqual([id])
    await expect
      .poll(() => gateway.logLines().find((line) => line['id'] === id))
      .toMatchObject({ address: '127.0.0.1' })
  })

  it('a peer outside them is not believed', async () => {
    const backend = await backendThat()
    const gateway = await gatewayTo(
      [backend.url],
      server('trustedProxies: [127.0.0.2, 10.0.0.0/8]'),
    )
    const response = await gateway.fetch('/v1/pets', { key: keys.pro, headers: claims })
    await response.arrayBuffer()
    expect(response.headers.get('x-request-id')).not.toBe(claims['x-request-id'])
    expect(backend.requests.at(-1)?.all('x-forwarded-for')).toEqual(['127.0.0.1'])
  })

  it('a peer among them is: the nearest address that is not a proxy is the client', async () => {
    const backend = await backendThat()
    const gateway = await gatewayTo(
      [backend.url],
      server('trustedProxies: [127.0.0.0/8, 203.0.113.0/24]'),
    )
    const response = await gateway.fetch('/v1/pets', {
      key: keys.pro,
      headers: { ...claims, 'x-forwarded-for': `6.6.6.6, ${claims['x-forwarded-for']}` },
    })
    await response.arrayBuffer()
    expect(response.headers.get('x-request-id')).toBe('of-the-proxy-1')
    const seen = backend.requests.at(-1)
    expect(seen?.all('x-forwarded-for')).toEqual(['198.51.100.7, 203.0.113.9, 127.0.0.1'])
    expect(seen?.all('x-forwarded-proto')).toEqual(['https'])
    expect(seen?.all('x-request-id')).toEqual(['of-the-proxy-1'])
    await expect
      .poll(() => gateway.logLines().find((line) => line['id'] === 'of-the-proxy-1'))
      .toMatchObject({ address: '198.51.100.7' })
  })

  it('even theirs is replaced when the request id is not short and plain', async () => {
    const gateway = await gatewayTo(
      [(await backendThat()).url],
      server('trustedProxies: [127.0.0.1]'),
    )
    for (const odd of ['a b', 'x'.repeat(129), '"><script>']) {
      const response = await gateway.fetch('/v1/pets', {
        key: keys.pro,
        headers: { 'x-request-id': odd },
      })
      await response.arrayBuffer()
      expect(response.headers.get('x-request-id')).toMatch(/^[\w.-]{8,128}$/)
      expect(response.headers.get('x-request-id')).not.toBe(odd)
    }
  })

  it('callers without a key are counted by the address behind the proxy, IPv6 ones by their /64', async () => {
    const gateway = await gatewayTo(['http://127.0.0.1:1'], {
      ...server('trustedProxies: [127.0.0.1]'),
      anonymous: 'anonymous: { perMinute: 2 }',
    })
    const from = (address: string): Promise<number> =>
      statusOf(gateway, '/v1/pets', { headers: { 'x-forwarded-for': address } })
    await minuteWithAtLeast()
    expect([await from('198.51.100.7'), await from('198.51.100.7')]).toEqual([401, 401])
    expect(await from('198.51.100.7')).toBe(429)
    expect(await from('198.51.100.8')).toBe(401)
    const network = ['2001:db8:1:2::1', '2001:DB8:1:2:ffff::9', '[2001:db8:1:2::3]:4711']
    const statuses: number[] = []
    for (const address of network) statuses.push(await from(address))
    expect(statuses).toEqual([401, 401, 429])
    expect(await from('2001:db8:1:3::1')).toBe(401)
  })

  it('without them a made-up address is no way around the limit', async () => {
    const gateway = await gatewayTo(['http://127.0.0.1:1'], {
      anonymous: 'anonymous: { perMinute: 2 }',
    })
    await minuteWithAtLeast()
    const statuses: number[] = []
    for (let at = 1; at <= 4; at++) {
      const headers = { 'x-forwarded-for': `198.51.100.${at}` }
      statuses.push(await statusOf(gateway, '/v1/pets', { headers }))
    }
    expect(statuses).toEqual([401, 401, 429, 429])
  })
})

describe('basePath', () => {
  it('/ puts every operation at the root, and the links of a deprecated one too', async () => {
    const backend = await backendThat()
    const gateway = await gatewayTo([backend.url], {
      ...server('basePath: /'),
      unmatched: 'unmatched: reject',
    })
    expect(await statusOf(gateway, '/pets', { key: keys.pro })).toBe(200)
    expect(backend.requests.at(-1)?.target).toBe('/pets')
    const old = await gateway.fetch('/pets/1?a=b', { key: keys.pro })
    await old.arrayBuffer()
    expect(backend.requests.at(-1)?.target).toBe('/pets/1?a=b')
    expect(old.headers.get('link')).toBe('</pets?status=available>; rel="successor-version"')
    for (const path of ['/', '/v1/pets', '/metrics']) {
      expect(await statusOf(gateway, path, { key: keys.pro })).toBe(404)
      // Nothing is outside of it, so who has no key learns nothing.
      expect(await statusOf(gateway, path)).toBe(401)
    }
    expect(backend.requests.length).toBe(2)
  })

  it('of several segments is passed on whole', async () => {
    const backend = await backendThat()
    const gateway = await gatewayTo([backend.url], server('basePath: /store/api'))
    expect(await statusOf(gateway, '/store/api/pets', { key: keys.pro })).toBe(200)
    expect(backend.requests.at(-1)?.target).toBe('/store/api/pets')
    for (const path of ['/store/apis/pets', '/store', '/pets'])
      expect(await statusOf(gateway, path, { key: keys.pro })).toBe(404)
  })
})

describe.each(['direct', 'undici', 'http-proxy-3'])('upstream with engine %s', (engine) => {
  const upstream = (urls: readonly string[], more = ''): Record<string, string> => ({
    upstream: `upstream: { urls: [${urls.join(', ')}], engine: ${engine}${more} }`,
  })

  it('takes its backends in turn', async () => {
    const [one, other] = [await backendThat(), await backendThat()]
    const gateway = await gatewayTo([], upstream([one.url, other.url]))
    for (let count = 0; count < 10; count++)
      expect(await statusOf(gateway, '/v1/pets', { key: keys.pro })).toBe(200)
    expect([one.requests.length, other.requests.length]).toEqual([5, 5])
  })

  it('goes on with the others while one is down, POST included, and comes back to it', async () => {
    const port = await freePort()
    const alive = await backendThat()
    const gateway = await gatewayTo([], upstream([`http://127.0.0.1:${port}`, alive.url]))
    await minuteWithAtLeast()
    const statuses: number[] = []
    for (let count = 0; count < 6; count++) {
      statuses.push(await statusOf(gateway, '/v1/pets', { key: keys.free }))
      const post = { key: keys.free, method: 'POST', body: '{"name":"Rex"}' }
      statuses.push(await statusOf(gateway, '/v1/pets', post))
    }
    expect(statuses).toEqual(Array.from({ length: 12 }, () => 200))
    expect(alive.requests.length).toBe(12)
    const bodies = alive.requests.filter(({ method }) => method === 'POST').map(({ body }) => body)
    expect(bodies.map(String)).toEqual(Array.from({ length: 6 }, () => '{"name":"Rex"}'))
    // The second attempt was not charged.
    const response = await gateway.fetch('/v1/pets', { key: keys.free })
    await response.arrayBuffer()
    expect(response.headers.get('x-ratelimit-remaining')).toBe('47')

    const back = await backendThat({ port })
    await expect
      .poll(
        async () => {
          await statusOf(gateway, '/v1/pets', { key: keys.enterprise })
          return back.requests.length
        },
        { timeout: 10_000, interval: 100 },
      )
      .toBeGreaterThan(0)
  })

  it('is charged to nobody when all are down', async () => {
    const urls = [await freePort(), await freePort()].map((port) => `http://127.0.0.1:${port}`)
    const gateway = await gatewayTo([], upstream(urls))
    await minuteWithAtLeast()
    for (let count = 0; count < 3; count++) {
      const response = await gateway.fetch('/v1/pets', { key: keys.free })
      await response.arrayBuffer()
      expect(response.status).toBe(502)
      expect(response.headers.get('x-ratelimit-remaining')).toBe('60')
    }
  })

  it('gives each route its own time, and the others the general one', async () => {
    const backend = await backendThat({
      respond: ({ target }) => [target === '/v1/never' ? 60_000 : 700, answer(200, '[]')],
    })
    const gateway = await gatewayTo([], {
      ...upstream([backend.url], ', timeouts: { response: 250ms }'),
      routes: `routes:
  - { name: listPets, match: GET /pets }
  - { name: slowPets, match: GET /slow, timeouts: { response: 20s } }
  - { name: hasty, match: GET /never, timeouts: { response: 50ms } }`,
    })
    const sentMs = performance.now()
    expect(await statusOf(gateway, '/v1/never', { key: keys.pro })).toBe(504)
    expect(performance.now() - sentMs).toBeGreaterThan(45)
    expect(await statusOf(gateway, '/v1/pets', { key: keys.pro })).toBe(504)
    expect(await statusOf(gateway, '/v1/slow', { key: keys.pro })).toBe(200)
    expect(await gateway.metric('tollgate_backend_failures_total{kind="response_timeout"}')).toBe(2)
  })
})

describe('server.limits', () => {
  it('are those of the file, to the byte', async () => {
    const backend = await backendThat()
    const gateway = await gatewayTo(
      [backend.url],
      server('limits: { headerBytes: 2KiB, headerCount: 10, bodyBytes: 10B, urlBytes: 64B }'),
    )
    const key = keys.pro
    const post = (body: string): Promise<number> =>
      statusOf(gateway, '/v1/pets', { key, method: 'POST', body })
    expect(await post('x'.repeat(10))).toBe(200)
    expect(await post('x'.repeat(11))).toBe(413)
    expect(await statusOf(gateway, `/v1/${'x'.repeat(60)}`, { key })).toBe(200)
    expect(await statusOf(gateway, `/v1/${'x'.repeat(61)}`, { key })).toBe(414)
    const withFields = async (count: number): Promise<number | undefined> => {
      const lines = Array.from({ length: count - 2 }, (_, at) => `X-${at}: 1\r\n`).join('')
      const head = `GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\n${lines}\r\n`
      return (await rawExchange(gateway.port, head, { responses: 1 })).responses[0]?.status
    }
    expect(await withFields(10)).toBe(200)
    expect(await withFields(11)).toBe(431)
    expect(await statusOf(gateway, '/v1/pets', { key, headers: { a: 'x'.repeat(2_048) } })).toBe(
      431,
    )
    expect(backend.requests.length).toBe(3)
  })

  it('hold for a chunked body whose length nobody told', async () => {
    const backend = await backendThat({ respond: () => [50, answer(200, '[]')] })
    const gateway = await gatewayTo([backend.url], server('limits: { bodyBytes: 10B }'))
    const chunked = (text: string): string =>
      `POST /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${keys.pro}\r\nTransfer-Encoding: chunked\r\n\r\n${text
        .split('')
        .map((char) => `1\r\n${char}\r\n`)
        .join('')}0\r\n\r\n`
    const status = async (text: string): Promise<number | undefined> =>
      (await rawExchange(gateway.port, chunked(text), { responses: 1 })).responses[0]?.status
    expect(await status('0123456789')).toBe(200)
    expect(await status('0123456789A')).toBe(413)
  })
})

describe('clients', () => {
  it('share one quota among all their keys, and an enterprise client has its own limits', async () => {
    const backend = await backendThat()
    const gateway = await gatewayTo([backend.url], {
      clients: `clients:
  - { id: twin, plan: free, keys: [{ id: twin-1, sha256: ${sha256('one')} }, { id: twin-2, sha256: ${sha256('two')} }] }
  - { id: large, plan: enterprise, limits: { perMinute: 7, perDay: 9 }, keys: [{ id: large-1, sha256: ${sha256('large')} }] }`,
    })
    await minuteWithAtLeast()
    const standing = async (key: string): Promise<string> => {
      const response = await gateway.fetch('/v1/pets', { key })
      await response.arrayBuffer()
      return ['limit', 'remaining'].map((of) => response.headers.get(`x-ratelimit-${of}`)).join(' ')
    }
    expect([await standing('one'), await standing('two'), await standing('one')]).toEqual([
      '60 59',
      '60 58',
      '60 57',
    ])
    expect([await standing('large'), await standing('large')]).toEqual(['7 6', '7 5'])
  })

  it('lose a key at the moment it expires', async () => {
    const backend = await backendThat()
    const expiresMs = Math.ceil(Date.now() / 1000) * 1000 + 2_000
    const expires = new Date(expiresMs).toISOString().replace('.000', '')
    const gateway = await gatewayTo([backend.url], {
      clients: `clients:
  - { id: brief, plan: pro, keys: [{ id: brief-1, sha256: ${sha256('brief')}, expires: "${expires}" }] }`,
    })
    let refused = 0
    let admitted = 0
    while (refused < 3) {
      const sentMs = Date.now()
      const status = await statusOf(gateway, '/v1/pets', { key: 'brief' })
      if (Date.now() < expiresMs) expect(status).toBe(200)
      if (sentMs >= expiresMs) expect(status).toBe(401)
      if (status === 200) admitted++
      else refused++
      await sleep(25)
    }
    expect(admitted).toBeGreaterThan(0)
  })
})

describe('log', () => {
  it('access: false leaves out the lines of requests and keeps the others', async () => {
    const backend = await backendThat()
    const gateway = await gatewayTo([backend.url], { log: 'log: { access: false }' })
    expect(await statusOf(gateway, '/v1/pets', { key: keys.pro })).toBe(200)
    await gateway.stop()
    const events = gateway.logLines().map((line) => line['event'])
    expect(events).toContain('listening')
    expect(events).toContain('drained')
    expect(events).not.toContain('access')
  })

  it('level: warn leaves out what is ordinary, and shows a backend that fails', async () => {
    const gateway = await gatewayTo([`http://127.0.0.1:${await freePort()}`], {
      log: 'log: { level: warn }',
    })
    expect(await statusOf(gateway, '/v1/pets')).toBe(401)
    expect(await statusOf(gateway, '/v1/pets', { key: keys.pro })).toBe(502)
    await gateway.stop()
    // How many files may be open is the machine's to say.
    const lines = gateway.logLines().filter(({ event }) => event !== 'filesAreFew')
    expect(new Set(lines.map((line) => line['level']))).toEqual(new Set(['warn']))
    expect(new Set(lines.map((line) => line['event']))).toEqual(
      // The warning is of the expired key.
      new Set(['configWarning', 'access', 'backendFailed']),
    )
    expect(lines).toHaveLength(3)
  })
})
