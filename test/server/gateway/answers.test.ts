/** What callers see, over real sockets: every refusal with its headers, and what the backend sees of them. */
import { parseRateLimit } from 'ratelimit-header-parser'
import { describe, expect, it } from 'vitest'
import { askAdmin } from '../../support/admin-client.ts'
import { backed, startBacked } from '../../support/backed.ts'
import { keys, minuteWithAtLeast, sha256, type GatewayAnswer } from '../../support/gateway.ts'
import { answer } from '../../support/raw-backend.ts'
import { rawExchange } from '../../support/raw-client.ts'

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

/** Beside code, message and status the body has these fields alone. */
function expectError(
  { status, header, body }: GatewayAnswer,
  [expected, code]: [number, string],
  more: object = {},
): void {
  expect(header('content-type')).toBe('application/json; charset=utf-8')
  const message = expect.any(String) as string
  expect(JSON.parse(body)).toEqual({ code, message, status: expected, ...more })
  expect(status).toBe(expected)
}

const sunset = 'Thu, 05 Dec 2030 00:00:00 GMT'

const { backend, gateway } = await startBacked()
const authorized = (authorization: string) => ({ headers: { authorization } })
const lineOf = (id: string | null | undefined) =>
  gateway.logLines().find((line) => line['id'] === id)

describe('a gateway that forwards what no route matches', () => {
  it('lets a valid key through, with its standing in both windows and the identity for the backend', async () => {
    await minuteWithAtLeast()
    const told = await gateway.ask('/v1/pets?token=secret', { key: keys.pro })
    expect(told).toMatchObject({ status: 200, body: 'ok', left: 299 })
    expectQuotaHeaders(told, 300)
    const { header } = told
    expect(header('ratelimit-policy')).toBe('"minute";q=300;w=60, "day";q=10000;w=86400')
    expect(header('ratelimit')).toMatch(/^"minute";r=299;t=\d{1,2}, "day";r=9999;t=\d{1,5}$/)
    expect([header('deprecation'), header('sunset')]).toEqual([null, null])
    const seen = backend.requests.at(-1)
    expect(seen?.target).toBe('/v1/pets?token=secret')
    for (const [name, value] of [
      ['x-client-id', 'pro-client'],
      ['x-client-plan', 'pro'],
      ['x-request-id', header('x-request-id')],
      ['x-forwarded-for', '127.0.0.1'],
      ['via', '1.1 tollgate'],
    ] as const)
      expect(seen?.all(name)).toEqual([value])
    expect(seen?.header('authorization')).toBeUndefined()
    const standing = { client: 'pro-client', key: 'pro-1', plan: 'pro', route: 'listPets' }
    const lines = () => gateway.logLines().filter(({ id }) => id === header('x-request-id'))
    await expect.poll(lines).toMatchObject([{ ...standing, status: 200 }])
    for (const secret of ['secret', keys.pro])
      expect(JSON.stringify(gateway.logLines())).not.toContain(secret)
  })

  it('answers a missing, unknown, expired or malformed credential with 401 and the standing of the address', async () => {
    const before = backend.requests.length
    expectError(await gateway.ask('/v1/pets'), [401, 'missing_api_key'])
    const bodies = new Set<string>()
    for (const credential of ['Bearer unknown', `Bearer ${keys.expired}`, 'Basic dTpw']) {
      const told = await gateway.ask('/v1/pets/7', authorized(credential))
      expectError(told, [401, 'invalid_api_key'])
      expectQuotaHeaders(told, 60)
      expect(told.header('www-authenticate')).toBe('Bearer')
      expect(told.header('ratelimit-policy')).toBe('"minute";q=60;w=60')
      expect(told.header('sunset')).toBe(sunset)
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
    // This one is no request.
    const ok = `GET /v1/pets HTTP/1.1\r\n${host}\r\n`
    await rawExchange(gateway.port, `${ok}GET /v1/x?key=secret HTTP/1.7\r\n${host}\r\n`)
    await expect
      .poll(() =>
        gateway.lines('clientError').find(({ code }) => code === 'malformed request line'),
      )
      .toMatchObject({ target: '/v1/x' })
    expect(JSON.stringify(gateway.logLines())).not.toContain('secret')
  })

  it('has nothing outside the base path, whatever the credential', async () => {
    const told = await gateway.ask('/v1x', { key: keys.enterprise })
    expectError(told, [404, 'not_found'])
    expectQuotaHeaders(told, 60)
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
    const retryAfter = Number(told.header('retry-after'))
    expectError(told, [429, 'rate_limit_exceeded'], { window: 'minute', limit: 60, retryAfter })
    expectQuotaHeaders(told, 60)
    expect(told.header('ratelimit')).toMatch(/^"minute";r=0;t=\d+, "day";r=940;t=\d+$/)
    expect([told.left, told.header('sunset')]).toEqual([0, sunset])
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

it('a 429 for an address, for strikes and for a ban by hand says in fields why, and how long to wait', async () => {
  const blocks = {
    anonymous: 'anonymous: { perMinute: 1 }',
    plans:
      'plans: { free: { perMinute: 1, perDay: 50 }, pro: { perMinute: 300, perDay: 10000 }, business: { perMinute: 1000, perDay: 100000 }, enterprise: { custom: true, concurrent: 10000 } }',
    bans: 'bans: { strikes: 1, grace: 0s }',
  }
  const { gateway } = await backed({ blocks })
  const refused = async (key: string | undefined, code: string, more: object): Promise<void> => {
    const answered = await gateway.ask('/v1/pets', { key })
    const retryAfter = Number(answered.header('retry-after'))
    expect(retryAfter).toBeGreaterThan(0)
    expectError(answered, [429, code], { retryAfter, ...more })
  }
  await minuteWithAtLeast()
  await gateway.ask('/v1/pets')
  await refused(undefined, 'rate_limit_exceeded', { window: 'minute', limit: 1 })
  await gateway.ask('/v1/pets', { key: keys.free })
  await refused(keys.free, 'rate_limit_exceeded', { window: 'minute', limit: 1 })
  const isBanned = async () => (await gateway.ask('/v1/pets', { key: keys.free })).code
  await expect.poll(isBanned).toBe('api_key_banned')
  const why = (text: string) => expect.stringContaining(`banned. ${text} Retry in `) as string
  const message = why('It went on after 429 answers.')
  await refused(keys.free, 'api_key_banned', { reason: 'strikes', message })
  const admin = `http://127.0.0.1:${gateway.adminPort}`
  const wish = { for: '1h', reason: 'what stays inside' }
  expect((await askAdmin(admin, 'PUT /api/bans/pro-1', wish)).status).toBe(200)
  const byHand = { reason: 'operator', message: why('An operator banned it.') }
  await refused(keys.pro, 'api_key_banned', byHand)
})

// A client library of an older draft reads NaN where the structured pair is sent.
it('structuredQuotaHeaders: false lets ratelimit-header-parser read true numbers from every answer', async () => {
  const structured = ['RateLimit: limit=9, remaining=9, reset=9', 'RateLimit-Policy: 9;w=9']
  const { gateway } = await backed({
    respond: () => answer(200, 'ok', ...structured),
    blocks: {
      server: 'server: { listen: "127.0.0.1:0", structuredQuotaHeaders: false }',
      plans: 'plans: { free: { perMinute: 2, perDay: 50 } }',
      clients: `clients: [{ id: free-client, plan: free, keys: [{ id: free-1, sha256: ${sha256(keys.free)} }] }]`,
      bans: 'bans: { strikes: 1, grace: 0s }',
    },
  })
  await minuteWithAtLeast()
  const read = async (key?: string, path = '/v1/pets'): Promise<object> => {
    const response = await gateway.fetch(path, key === undefined ? {} : { key })
    await response.arrayBuffer()
    for (const name of ['ratelimit', 'ratelimit-policy'])
      expect(response.headers.get(name), `${name} of a ${response.status}`).toBeNull()
    const { limit, used, remaining, reset } = parseRateLimit(response) ?? {}
    expect(reset?.getTime()).toBe(Number(response.headers.get('x-ratelimit-reset')) * 1000)
    return { status: response.status, limit, used, remaining }
  }
  expect(await read(keys.free)).toEqual({ status: 200, limit: 2, used: 1, remaining: 1 })
  expect(await read(keys.free)).toEqual({ status: 200, limit: 2, used: 2, remaining: 0 })
  for (let again = 0; again < 2; again++)
    expect(await read(keys.free)).toEqual({ status: 429, limit: 2, used: 2, remaining: 0 })
  // A strike needs a later millisecond than the refusal before it.
  const banned = async () => {
    await gateway.status('/v1/pets', { key: keys.free })
    return gateway.metric('tollgate_banned_keys')
  }
  await expect.poll(banned).toBe(1)
  expect(await read(keys.free)).toMatchObject({ status: 429, limit: 2, remaining: 0 })
  expect(await read('nobody')).toEqual({ status: 401, limit: 60, used: 1, remaining: 59 })
  expect(await read()).toEqual({ status: 401, limit: 60, used: 2, remaining: 58 })
  expect(await read(undefined, '/elsewhere')).toMatchObject({ status: 404, remaining: 58 })
  const { responses } = await rawExchange(gateway.port, 'GET / HTTP/9.9\r\n\r\n')
  expect(responses.map(({ status }) => status)).toEqual([400])
  expect(responses[0]?.header('x-ratelimit-remaining')).toBe('58')
  expect(responses[0]?.header('ratelimit')).toBeUndefined()
})
