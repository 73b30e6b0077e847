/** What callers see, over real sockets: every refusal with its headers, and what the backend sees of them. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { keys, minuteWithAtLeast, startTestGateway, type TestGateway } from '../support/gateway.ts'
import { rawExchange } from '../support/raw-client.ts'
import { answer, startRawBackend, type RawBackend } from '../support/raw-backend.ts'

const nowSeconds = (): number => Date.now() / 1000

function expectQuotaHeaders(response: Response, limit: number): void {
  expect(response.headers.get('x-ratelimit-limit')).toBe(String(limit))
  expect(response.headers.get('x-ratelimit-remaining')).toMatch(/^\d+$/)
  const reset = Number(response.headers.get('x-ratelimit-reset'))
  expect(reset % 60).toBe(0)
  // A minute may have ended since, a while ago on a busy machine.
  expect(reset).toBeGreaterThan(nowSeconds() - 20)
  expect(response.headers.get('x-request-id')).toMatch(/^[\w.-]{8,}$/)
  expect(response.headers.get('via')).toMatch(/1\.1 tollgate$/)
}

async function expectError(response: Response, status: number, code: string): Promise<string> {
  expect(response.status).toBe(status)
  expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8')
  const body = (await response.json()) as { code: string; message: string; status: number }
  expect(Object.keys(body).sort()).toEqual(['code', 'message', 'status'])
  expect(body).toMatchObject({ code, status })
  return body.message
}

describe('a gateway that forwards what no route matches', () => {
  let backend: RawBackend
  let gateway: TestGateway

  beforeAll(async () => {
    backend = await startRawBackend({
      respond: ({ target }) =>
        target === '/v1/pets/404'
          ? answer(
              404,
              '{"code":"pet_not_found","message":"no","status":404}',
              'Content-Type: application/json; charset=utf-8',
            )
          : answer(
              200,
              '[]',
              'Content-Type: application/json',
              'X-RateLimit-Limit: 1',
              'Deprecation: @1',
              'Sunset: never',
            ),
    })
    gateway = await startTestGateway({ upstreams: [backend.url] })
  })
  afterAll(async () => {
    await gateway.stop()
    await backend.close()
  })

  it('lets a valid key through, with its standing in both windows and the identity for the backend', async () => {
    await minuteWithAtLeast()
    const response = await gateway.fetch('/v1/pets?limit=5', {
      key: keys.pro,
      headers: { 'x-client-id': 'forged' },
    })
    expect(response.status).toBe(200)
    expect(await response.text()).toBe('[]')
    expectQuotaHeaders(response, 300)
    expect(response.headers.get('x-ratelimit-remaining')).toBe('299')
    expect(response.headers.get('ratelimit-policy')).toBe(
      '"minute";q=300;w=60, "day";q=10000;w=86400',
    )
    expect(response.headers.get('ratelimit')).toMatch(
      /^"minute";r=299;t=\d{1,2}, "day";r=9999;t=\d{1,5}$/,
    )
    expect(response.headers.get('deprecation')).toBeNull()
    expect(response.headers.get('sunset')).toBeNull()
    const seen = backend.requests.at(-1)
    expect(seen?.target).toBe('/v1/pets?limit=5')
    expect(seen?.all('x-client-id')).toEqual(['pro-client'])
    expect(seen?.all('x-client-plan')).toEqual(['pro'])
    expect(seen?.all('x-request-id')).toEqual([response.headers.get('x-request-id')])
    expect(seen?.all('x-forwarded-for')).toEqual(['127.0.0.1'])
    expect(seen?.all('via')).toEqual(['1.1 tollgate'])
    expect(seen?.header('authorization')).toBeUndefined()
  })

  it('lets Remaining fall by exactly one per admitted request while Reset stands still', async () => {
    await minuteWithAtLeast()
    const standings: number[] = []
    const resets = new Set<string | null>()
    for (let count = 0; count < 8; count++) {
      const method = ['GET', 'HEAD', 'OPTIONS'][count % 3] ?? 'GET'
      const response = await gateway.fetch('/v1/pets', { key: keys.business, method })
      await response.arrayBuffer()
      standings.push(Number(response.headers.get('x-ratelimit-remaining')))
      resets.add(response.headers.get('x-ratelimit-reset'))
    }
    expect(standings).toEqual(standings.map((_, at) => (standings[0] ?? 0) - at))
    expect(resets.size).toBe(1)
  })

  it('answers a missing, unknown, expired or malformed credential with 401 and the standing of the address', async () => {
    const before = backend.requests.length
    const missing = await gateway.fetch('/v1/pets')
    await expectError(missing, 401, 'missing_api_key')
    const bodies = new Set<string>()
    for (const authorization of [
      'Bearer unknown',
      `Bearer ${keys.expired}`,
      'Bearer a b',
      'Basic dTpw',
      'Bearer a.b.c',
    ]) {
      const response = await gateway.fetch('/v1/pets/7', { headers: { authorization } })
      expect(response.headers.get('www-authenticate')).toBe('Bearer')
      expectQuotaHeaders(response, 60)
      expect(response.headers.get('ratelimit-policy')).toBe('"minute";q=60;w=60')
      expect(response.headers.get('sunset')).toBe('Thu, 05 Dec 2030 00:00:00 GMT')
      bodies.add(await response.text())
    }
    expect(bodies.size).toBe(1)
    expect([...bodies][0]).toContain('invalid_api_key')
    expect(backend.requests.length).toBe(before)
  })

  it('names client, key and cause of an expired key in the log alone', async () => {
    const response = await gateway.fetch('/v1/pets', { key: keys.expired })
    const unknown = await gateway.fetch('/v1/pets', { key: 'nobody' })
    expect([response.status, await response.text()]).toEqual([401, await unknown.text()])
    const lineOf = (one: Response) =>
      gateway.logLines().find((line) => line['id'] === one.headers.get('x-request-id'))
    await expect.poll(() => lineOf(unknown)).toBeDefined()
    expect(lineOf(response)).toMatchObject({
      client: 'free-client',
      key: 'free-old',
      refusal: 'invalid_api_key',
      cause: 'expired',
      status: 401,
    })
    expect(lineOf(response)).not.toHaveProperty('plan')
    expect(lineOf(unknown)).not.toHaveProperty('key')
  })

  it('tells who sends a key without "Bearer" to put it before, valid or not', async () => {
    const bodies = new Set<string>()
    for (const authorization of [keys.enterprise, 'nobody']) {
      const response = await gateway.fetch('/v1/pets', { headers: { authorization } })
      expect(response.status).toBe(401)
      bodies.add(await response.text())
    }
    expect([...bodies].map((body) => JSON.parse(body) as object)).toEqual([
      {
        code: 'missing_api_key',
        message:
          'Send your API key as "Authorization: Bearer <API_KEY>". Put "Bearer" before the key.',
        status: 401,
      },
    ])
  })

  it('logs what was asked for where a request was refused before its path was read, without its query', async () => {
    const send = async (text: string): Promise<Record<string, unknown> | undefined> => {
      const { responses } = await rawExchange(gateway.port, text)
      const id = responses[0]?.header('x-request-id')
      const find = () => gateway.logLines().find((line) => line['id'] === id)
      await expect.poll(find).toBeDefined()
      return find()
    }
    const host = 'Host: x\r\n'
    expect(await send(`GET /v1/%2e%2e/x?key=secret HTTP/1.1\r\n${host}\r\n`)).toMatchObject({
      status: 400,
      target: '/v1/%2e%2e/x',
    })
    expect(await send(`POST /v1/pets?key=secret HTTP/1.1\r\n${host}${host}\r\n`)).toMatchObject({
      status: 400,
      target: '/v1/pets',
    })
    expect(
      await send(`GET /v1/pets HTTP/1.1\r\n${host}Connection: close\r\n\r\n`),
    ).not.toHaveProperty('target')
    const chunked = `${host}Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n`
    expect(await send(`POST /v1/pets HTTP/1.1\r\n${chunked}`)).toMatchObject({ requestBytes: 0 })
    // This one Node's parser gave up on.
    const ok = `GET /v1/pets HTTP/1.1\r\n${host}\r\n`
    await rawExchange(gateway.port, `${ok}GET /v1/\x9b?key=secret HTTP/1.1\r\n${host}\r\n`)
    await expect
      .poll(() => gateway.logLines().find((line) => line['code'] === 'HPE_INVALID_URL'))
      .toMatchObject({ event: 'clientError', target: '/v1/\\u{9b}' })
    expect(JSON.stringify(gateway.logLines())).not.toContain('secret')
  })

  it('takes the scheme in any case', async () => {
    const response = await gateway.fetch('/v1/pets', {
      headers: { authorization: `bEaReR ${keys.enterprise}` },
    })
    expect(response.status).toBe(200)
    await response.arrayBuffer()
  })

  it('announces deprecation, sunset and successor on every answer of the route, a 404 of the backend included', async () => {
    for (const [path, status] of [
      ['/v1/pets/1', 200],
      ['/v1/pets/404', 404],
    ] as const) {
      const response = await gateway.fetch(path, { key: keys.enterprise })
      await response.arrayBuffer()
      expect(response.status).toBe(status)
      expect(response.headers.get('deprecation')).toBe('@1764892800')
      expect(response.headers.get('sunset')).toBe('Thu, 05 Dec 2030 00:00:00 GMT')
      expect(response.headers.get('link')).toBe(
        '</v1/pets?status=available>; rel="successor-version"',
      )
    }
  })

  it('labels an unstable route, and forwards what no route matches', async () => {
    const labelled = await gateway.fetch('/v1/store/orders', { key: keys.enterprise })
    await labelled.arrayBuffer()
    expect(labelled.headers.get('x-api-stability')).toBe('beta')
    const unmatched = await gateway.fetch('/v1/anything/else', {
      key: keys.enterprise,
      method: 'DELETE',
    })
    await unmatched.arrayBuffer()
    expect(unmatched.status).toBe(200)
    expect(backend.requests.at(-1)?.target).toBe('/v1/anything/else')
  })

  it('has nothing outside the base path, whatever the credential, and nothing of admin', async () => {
    for (const path of ['/', '/v1x', '/metrics', '/healthz', '/readyz', '/v2/pets']) {
      const response = await gateway.fetch(path, { key: keys.enterprise })
      await expectError(response, 404, 'not_found')
      expectQuotaHeaders(response, 60)
    }
  })

  it('refuses a body over the limit before the backend hears of it', async () => {
    const before = backend.requests.length
    const response = await gateway.fetch('/v1/pets', {
      key: keys.enterprise,
      method: 'POST',
      body: 'x'.repeat(1_048_577),
    })
    await expectError(response, 413, 'body_too_large')
    expect(backend.requests.length).toBe(before)
  })

  it('writes one access line per request, with its standing and without credential or query', async () => {
    const response = await gateway.fetch('/v1/pets?token=secret', { key: keys.enterprise })
    await response.arrayBuffer()
    const id = response.headers.get('x-request-id')
    await expect
      .poll(
        () =>
          gateway.logLines().filter((line) => line['requestId'] === id || line['id'] === id).length,
      )
      .toBe(1)
    const line = gateway.logLines().find((entry) => entry['requestId'] === id || entry['id'] === id)
    expect(line).toMatchObject({
      client: 'enterprise-client',
      key: 'enterprise-1',
      plan: 'enterprise',
      route: 'listPets',
      status: 200,
    })
    const all = JSON.stringify(gateway.logLines())
    expect(all).not.toContain('secret')
    for (const key of Object.values(keys)) expect(all).not.toContain(key)
  })
})

describe('a gateway that rejects what no route matches', () => {
  let backend: RawBackend
  let gateway: TestGateway

  beforeAll(async () => {
    backend = await startRawBackend()
    gateway = await startTestGateway({
      upstreams: [backend.url],
      blocks: { unmatched: 'unmatched: reject' },
    })
  })
  afterAll(async () => {
    await gateway.stop()
    await backend.close()
  })

  it('tells 404 and 405 only to those with a valid key, free of charge', async () => {
    await minuteWithAtLeast()
    await expectError(await gateway.fetch('/v1/nothing'), 401, 'missing_api_key')
    const unknown = await gateway.fetch('/v1/nothing', { key: keys.free })
    await expectError(unknown, 404, 'not_found')
    expect(unknown.headers.get('x-ratelimit-remaining')).toBe('60')
    const method = await gateway.fetch('/v1/pets', { key: keys.free, method: 'DELETE' })
    await expectError(method, 405, 'method_not_allowed')
    expect(method.headers.get('allow')?.split(', ').sort()).toEqual(
      expect.arrayContaining(['GET', 'HEAD', 'POST']),
    )
    expectQuotaHeaders(method, 60)
    expect(backend.requests.length).toBe(0)
    const admitted = await gateway.fetch('/v1/pets', { key: keys.free })
    await admitted.arrayBuffer()
    expect(admitted.headers.get('x-ratelimit-remaining')).toBe('59')
  })
})

describe('quota', () => {
  let backend: RawBackend
  let gateway: TestGateway

  beforeAll(async () => {
    backend = await startRawBackend()
    gateway = await startTestGateway({ upstreams: [backend.url] })
  })
  afterAll(async () => {
    await gateway.stop()
    await backend.close()
  })

  it('admits 60 in a minute, refuses the 61st until the minute ends, and leaves the day where it was', async () => {
    await minuteWithAtLeast(20_000)
    for (let count = 1; count <= 60; count++) {
      const response = await gateway.fetch('/v1/pets', { key: keys.free })
      await response.arrayBuffer()
      expect(response.status).toBe(200)
      expect(response.headers.get('x-ratelimit-remaining')).toBe(String(60 - count))
    }
    for (let count = 0; count < 15; count++) {
      const response = await gateway.fetch('/v1/pets/1', { key: keys.free })
      await expectError(response, 429, 'rate_limit_exceeded')
      expectQuotaHeaders(response, 60)
      expect(response.headers.get('x-ratelimit-remaining')).toBe('0')
      expect(response.headers.get('ratelimit')).toMatch(/^"minute";r=0;t=\d+, "day";r=940;t=\d+$/)
      expect(response.headers.get('sunset')).toBe('Thu, 05 Dec 2030 00:00:00 GMT')
      const left = Number(response.headers.get('x-ratelimit-reset')) - nowSeconds()
      const wait = Number(response.headers.get('retry-after'))
      expect(wait).toBeGreaterThanOrEqual(left)
      expect(wait).toBeLessThan(left + 1.5)
    }
    expect(backend.requests.length).toBe(60)
    expect(await gateway.metric('tollgate_refusals_total{code="rate_limit_exceeded"')).toBe(15)
  }, 60_000)
})

describe('requests without a valid credential', () => {
  it('get 429 above the limit of their address, while a valid key from there goes on', async () => {
    const backend = await startRawBackend()
    const gateway = await startTestGateway({
      upstreams: [backend.url],
      blocks: { anonymous: 'anonymous: { perMinute: 5 }' },
    })
    await minuteWithAtLeast()
    const statuses: number[] = []
    for (let count = 0; count < 7; count++) {
      const response = await gateway.fetch('/v1/pets', { key: 'nobody' })
      await response.arrayBuffer()
      statuses.push(response.status)
      expect(response.headers.get('x-ratelimit-limit')).toBe('5')
      expect(response.headers.get('x-ratelimit-remaining')).toBe(String(Math.max(0, 4 - count)))
      expect(response.headers.has('retry-after')).toBe(count >= 5)
    }
    expect(statuses).toEqual([401, 401, 401, 401, 401, 429, 429])
    const valid = await gateway.fetch('/v1/pets', { key: keys.pro })
    await valid.arrayBuffer()
    expect(valid.status).toBe(200)
    await gateway.stop()
    await backend.close()
  })
})

describe('a backend that cannot be reached', () => {
  it('costs the caller no quota', async () => {
    const gateway = await startTestGateway({ upstreams: ['http://127.0.0.1:1'] })
    await minuteWithAtLeast()
    const first = await gateway.fetch('/v1/pets', { key: keys.free })
    await expectError(first, 502, 'bad_gateway')
    expect(first.headers.get('x-ratelimit-remaining')).toBe('60')
    const second = await gateway.fetch('/v1/pets', { key: keys.free })
    await expectError(second, 502, 'bad_gateway')
    expect(second.headers.get('x-ratelimit-remaining')).toBe('60')
    expect(await gateway.metric('tollgate_backend_failures_total{kind="unreachable"}')).toBe(2)
    await gateway.stop()
  })
})
