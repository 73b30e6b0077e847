/** What callers see, over real sockets: every refusal with its headers, and what the backend sees of them. */
import { afterAll, describe, expect, it } from 'vitest'
import { backed, gatewayTo, startBacked } from '../support/backed.ts'
import { keys, minuteWithAtLeast, type GatewayAnswer } from '../support/gateway.ts'
import { rawExchange } from '../support/raw-client.ts'
import { answer } from '../support/raw-backend.ts'

const nowSeconds = (): number => Date.now() / 1000

function expectQuotaHeaders({ header }: GatewayAnswer, limit: number): void {
  expect(header('x-ratelimit-limit')).toBe(String(limit))
  expect(header('x-ratelimit-remaining')).toMatch(/^\d+$/)
  const reset = Number(header('x-ratelimit-reset'))
  expect(reset % 60).toBe(0)
  // A minute may have ended since, a while ago on a busy machine.
  expect(reset).toBeGreaterThan(nowSeconds() - 20)
  expect(header('x-request-id')).toMatch(/^[\w.-]{8,}$/)
  expect(header('via')).toMatch(/1\.1 tollgate$/)
}

function expectError({ status, header, body }: GatewayAnswer, expected: [number, string]): void {
  expect(header('content-type')).toBe('application/json; charset=utf-8')
  const error = JSON.parse(body) as { code: string; status: number }
  expect(Object.keys(error).sort()).toEqual(['code', 'message', 'status'])
  expect([status, error.status, error.code]).toEqual([expected[0], ...expected])
}

const old = {
  deprecation: '@1764892800',
  sunset: 'Thu, 05 Dec 2030 00:00:00 GMT',
  link: '</v1/pets?status=available>; rel="successor-version"',
}

const json = 'Content-Type: application/json; charset=utf-8'
const { backend, gateway, stop } = await startBacked({
  respond: ({ target }) =>
    target === '/v1/pets/404'
      ? answer(404, '{"code":"pet_not_found","message":"no","status":404}', json)
      : answer(200, '[]', json, 'X-RateLimit-Limit: 1', 'Deprecation: @1', 'Sunset: never'),
})
afterAll(stop)
const authorized = (authorization: string) => ({ headers: { authorization } })
const lineOf = (id: string | null | undefined) =>
  gateway.logLines().find((line) => line['id'] === id)

describe('a gateway that forwards what no route matches', () => {
  it('lets a valid key through, with its standing in both windows and the identity for the backend', async () => {
    await minuteWithAtLeast()
    const told = await gateway.ask('/v1/pets?limit=5', {
      key: keys.pro,
      headers: { 'x-client-id': 'forged' },
    })
    expect(told).toMatchObject({ status: 200, body: '[]', left: 299 })
    expectQuotaHeaders(told, 300)
    const { header } = told
    expect(header('ratelimit-policy')).toBe('"minute";q=300;w=60, "day";q=10000;w=86400')
    expect(header('ratelimit')).toMatch(/^"minute";r=299;t=\d{1,2}, "day";r=9999;t=\d{1,5}$/)
    expect([header('deprecation'), header('sunset')]).toEqual([null, null])
    const seen = backend.requests.at(-1)
    expect(seen?.target).toBe('/v1/pets?limit=5')
    for (const [name, value] of [
      ['x-client-id', 'pro-client'],
      ['x-client-plan', 'pro'],
      ['x-request-id', header('x-request-id')],
      ['x-forwarded-for', '127.0.0.1'],
      ['via', '1.1 tollgate'],
    ] as const)
      expect(seen?.all(name)).toEqual([value])
    expect(seen?.header('authorization')).toBeUndefined()
  })

  it('lets Remaining fall by exactly one per admitted request while Reset stands still', async () => {
    await minuteWithAtLeast()
    const standings: string[] = []
    for (const method of ['GET', 'HEAD', 'OPTIONS', 'GET', 'HEAD', 'OPTIONS']) {
      const { left, header } = await gateway.ask('/v1/pets', { key: keys.business, method })
      standings.push(`${left} ${header('x-ratelimit-reset')}`)
    }
    const [left, reset] = standings[0]?.split(' ') ?? []
    expect(standings).toEqual(standings.map((_, at) => `${Number(left) - at} ${reset}`))
  })

  it('answers a missing, unknown, expired or malformed credential with 401 and the standing of the address', async () => {
    const before = backend.requests.length
    expectError(await gateway.ask('/v1/pets'), [401, 'missing_api_key'])
    const bodies = new Set<string>()
    const credentials = ['Bearer unknown', `Bearer ${keys.expired}`, 'Bearer a b', 'Basic dTpw']
    for (const credential of [...credentials, 'Bearer a.b.c']) {
      const told = await gateway.ask('/v1/pets/7', authorized(credential))
      expectError(told, [401, 'invalid_api_key'])
      expectQuotaHeaders(told, 60)
      expect(told.header('www-authenticate')).toBe('Bearer')
      expect(told.header('ratelimit-policy')).toBe('"minute";q=60;w=60')
      expect(told.header('sunset')).toBe(old.sunset)
      bodies.add(told.body)
    }
    expect(bodies.size).toBe(1)
    expect(backend.requests.length).toBe(before)
  })

  it('names client, key and cause of an expired key in the log alone', async () => {
    const [expired, unknown] = [
      await gateway.ask('/v1/pets', { key: keys.expired }),
      await gateway.ask('/v1/pets', { key: 'nobody' }),
    ]
    expect([expired.status, expired.body]).toEqual([401, unknown.body])
    await expect.poll(() => lineOf(unknown.header('x-request-id'))).toBeDefined()
    const line = lineOf(expired.header('x-request-id'))
    const named = { client: 'free-client', key: 'free-old', status: 401 }
    expect(line).toMatchObject({ ...named, refusal: 'invalid_api_key', cause: 'expired' })
    expect(line).not.toHaveProperty('plan')
    expect(lineOf(unknown.header('x-request-id'))).not.toHaveProperty('key')
  })

  it('tells who sends a key without "Bearer" to put it before, valid or not', async () => {
    for (const credential of [keys.enterprise, 'nobody'])
      expect(JSON.parse((await gateway.ask('/v1/pets', authorized(credential))).body)).toEqual({
        code: 'missing_api_key',
        message:
          'Send your API key as "Authorization: Bearer <API_KEY>". Put "Bearer" before the key.',
        status: 401,
      })
    const scheme = authorized(`bEaReR ${keys.enterprise}`)
    expect(await gateway.status('/v1/pets', scheme)).toBe(200)
  })

  it('logs what was asked for where a request was refused before its path was read, without its query', async () => {
    const host = 'Host: x\r\n'
    const send = async (text: string): Promise<Record<string, unknown> | undefined> => {
      const { responses } = await rawExchange(gateway.port, `${text}\r\n`)
      const find = () => lineOf(responses[0]?.header('x-request-id'))
      await expect.poll(find).toBeDefined()
      return find()
    }
    const disguised = await send(`GET /v1/%2e%2e/x?key=secret HTTP/1.1\r\n${host}`)
    expect(disguised).toMatchObject({ status: 400, target: '/v1/%2e%2e/x' })
    const twice = await send(`POST /v1/pets?key=secret HTTP/1.1\r\n${host}${host}`)
    expect(twice).toMatchObject({ status: 400, target: '/v1/pets' })
    const well = await send(`GET /v1/pets HTTP/1.1\r\n${host}Connection: close\r\n`)
    expect(well).not.toHaveProperty('target')
    const chunked = `${host}Transfer-Encoding: chunked\r\n\r\n0\r\n`
    expect(await send(`POST /v1/pets HTTP/1.1\r\n${chunked}`)).toMatchObject({ requestBytes: 0 })
    // This one Node's parser gave up on.
    const ok = `GET /v1/pets HTTP/1.1\r\n${host}\r\n`
    await rawExchange(gateway.port, `${ok}GET /v1/\x9b?key=secret HTTP/1.1\r\n${host}\r\n`)
    await expect
      .poll(() => gateway.lines('clientError').find(({ code }) => code === 'HPE_INVALID_URL'))
      .toMatchObject({ target: '/v1/\\u{9b}' })
    expect(JSON.stringify(gateway.logLines())).not.toContain('secret')
  })

  it.each([
    ['/v1/pets/1', 200],
    ['/v1/pets/404', 404],
  ])('announces deprecation, sunset and successor on every answer: %s', async (path, status) => {
    const told = await gateway.ask(path, { key: keys.enterprise })
    expect(told.status).toBe(status)
    for (const [name, value] of Object.entries(old)) expect(told.header(name)).toBe(value)
  })

  it('labels an unstable route, and forwards what no route matches', async () => {
    const labelled = await gateway.ask('/v1/store/orders', { key: keys.enterprise })
    expect(labelled.header('x-api-stability')).toBe('beta')
    const unmatched = { key: keys.enterprise, method: 'DELETE' }
    expect(await gateway.status('/v1/anything/else', unmatched)).toBe(200)
    expect(backend.requests.at(-1)?.target).toBe('/v1/anything/else')
  })

  it('has nothing outside the base path, whatever the credential, and nothing of admin', async () => {
    for (const path of ['/', '/v1x', '/metrics', '/healthz', '/readyz', '/v2/pets']) {
      const told = await gateway.ask(path, { key: keys.enterprise })
      expectError(told, [404, 'not_found'])
      expectQuotaHeaders(told, 60)
    }
  })

  it('refuses a body over the limit before the backend hears of it', async () => {
    const before = backend.requests.length
    const post = { key: keys.enterprise, method: 'POST', body: 'x'.repeat(1_048_577) }
    expectError(await gateway.ask('/v1/pets', post), [413, 'body_too_large'])
    expect(backend.requests.length).toBe(before)
  })

  it('writes one access line per request, with its standing and without credential or query', async () => {
    const { header } = await gateway.ask('/v1/pets?token=secret', { key: keys.enterprise })
    const id = header('x-request-id')
    const lines = () => gateway.logLines().filter((line) => line['id'] === id)
    await expect.poll(lines).toMatchObject([
      {
        client: 'enterprise-client',
        key: 'enterprise-1',
        plan: 'enterprise',
        route: 'listPets',
        status: 200,
      },
    ])
    const all = JSON.stringify(gateway.logLines())
    for (const secret of ['secret', ...Object.values(keys)]) expect(all).not.toContain(secret)
  })
})

it('a gateway that rejects what no route matches tells 404 and 405 only to those with a valid key, free of charge', async () => {
  const { gateway, backend } = await backed({ blocks: { unmatched: 'unmatched: reject' } })
  expectError(await gateway.ask('/v1/nothing'), [401, 'missing_api_key'])
  const unknown = await gateway.ask('/v1/nothing', { key: keys.free })
  expectError(unknown, [404, 'not_found'])
  const method = await gateway.ask('/v1/pets', { key: keys.free, method: 'DELETE' })
  expectError(method, [405, 'method_not_allowed'])
  expect([unknown.left, method.left]).toEqual([60, 60])
  expect(method.header('allow')).toBe('GET, HEAD, POST')
  expectQuotaHeaders(method, 60)
  expect(backend.requests.length).toBe(0)
  expect(await gateway.ask('/v1/pets', { key: keys.free })).toMatchObject({ dayLeft: 999 })
})

it('quota admits 60 in a minute, refuses the 61st until the minute ends, and leaves the day where it was', async () => {
  const { gateway, backend } = await backed()
  await minuteWithAtLeast()
  for (let count = 1; count <= 60; count++) {
    const { status, left } = await gateway.ask('/v1/pets', { key: keys.free })
    expect([status, left]).toEqual([200, 60 - count])
  }
  for (let count = 0; count < 3; count++) {
    const askedSeconds = nowSeconds()
    const told = await gateway.ask('/v1/pets/1', { key: keys.free })
    expectError(told, [429, 'rate_limit_exceeded'])
    expectQuotaHeaders(told, 60)
    expect(told.header('ratelimit')).toMatch(/^"minute";r=0;t=\d+, "day";r=940;t=\d+$/)
    expect([told.left, told.header('sunset')]).toEqual([0, old.sunset])
    const [reset, wait] = ['x-ratelimit-reset', 'retry-after'].map((name) =>
      Number(told.header(name)),
    )
    expect(wait).toBeGreaterThanOrEqual((reset ?? 0) - nowSeconds())
    // Rounded up.
    expect(wait).toBeLessThan((reset ?? 0) - askedSeconds + 1)
  }
  expect(backend.requests.length).toBe(60)
  expect(await gateway.metric('tollgate_refusals_total{code="rate_limit_exceeded"')).toBe(3)
})

it('requests without a valid credential get 429 above the limit of their address, while a valid key from there goes on', async () => {
  const { gateway } = await backed({ blocks: { anonymous: 'anonymous: { perMinute: 5 }' } })
  await minuteWithAtLeast()
  for (const [count, status] of [401, 401, 401, 401, 401, 429, 429].entries()) {
    const told = await gateway.ask('/v1/pets', { key: 'nobody' })
    expect(told).toMatchObject({ status, left: Math.max(0, 4 - count) })
    expect(told.header('x-ratelimit-limit')).toBe('5')
    expect(told.header('retry-after') !== null).toBe(status === 429)
  }
  expect(await gateway.status('/v1/pets', { key: keys.pro })).toBe(200)
})

it('a backend that cannot be reached costs the caller no quota', async () => {
  const gateway = await gatewayTo(['http://127.0.0.1:1'])
  for (let count = 0; count < 2; count++) {
    const told = await gateway.ask('/v1/pets', { key: keys.free })
    expectError(told, [502, 'bad_gateway'])
    expect(told.left).toBe(60)
  }
  expect(await gateway.metric('tollgate_backend_failures_total{kind="unreachable"}')).toBe(2)
})
