/** The admin listener of a running gateway: liveness, readiness with its reasons, and metrics that are right after known traffic; of its store by test/process/outage.test.ts. */
import { describe, expect, it } from 'vitest'
import { backed, gatewayTo, rawBackend } from '../../support/backed.ts'
import { keys, minuteWithAtLeast, type TestGateway } from '../../support/gateway.ts'
import { answer } from '../../support/raw-backend.ts'
import { rawExchange } from '../../support/raw-client.ts'
import { freePort } from '../../support/redis-server.ts'

const admin = (gateway: TestGateway, path: string): Promise<Response> =>
  fetch(`http://127.0.0.1:${gateway.adminPort}${path}`)

/** Every sample of the page that begins like this, by its labels; of a family without them by ''. */
async function family(gateway: TestGateway, name: string): Promise<Record<string, number>> {
  const page = await (await admin(gateway, '/metrics')).text()
  const lines = page.split('\n').filter((line) => line.startsWith(`${name}{`))
  const samples = lines.map((line): [string, number] => {
    const cut = line.lastIndexOf(' ')
    return [line.slice(name.length, cut), Number(line.slice(cut + 1))]
  })
  return Object.fromEntries(samples)
}

const nonZero = (values: Record<string, number>): Record<string, number> =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== 0))

describe('/healthz and /readyz', () => {
  it('say that all is well, and nothing of it on the public listener', async () => {
    const { gateway, backend } = await backed()
    const health = await admin(gateway, '/healthz')
    expect([health.status, await health.json()]).toEqual([200, { status: 'alive' }])
    expect(health.headers.get('cache-control')).toBe('no-store')
    expect(await gateway.readiness()).toEqual({
      status: 200,
      ready: true,
      reasons: {
        config: expect.stringMatching(/^revision [0-9a-f]{12}$/) as string,
        listener: 'up',
        load: 'in time',
        store: 'embedded',
        credentials: 'API keys',
        backend: 'reachable',
      },
    })
    for (const path of ['/healthz', '/readyz', '/metrics'])
      expect(await gateway.status(path, { key: keys.pro })).toBe(404)
    expect(backend.requests.length).toBe(0)
  })

  it('and the metrics tell of one process that takes requests, and since when it has its configuration', async () => {
    const beforeSeconds = Date.now() / 1000
    const { gateway } = await backed()
    expect(await gateway.metric('tollgate_workers ')).toBe(1)
    const taken = await gateway.metric('tollgate_config_last_load_timestamp_seconds ')
    expect(taken).toBeGreaterThanOrEqual(beforeSeconds)
    expect(taken).toBeLessThanOrEqual(Date.now() / 1000)
  })

  it('tell a backend that is away, for as long as it is, while the process stays alive; one of two is enough', async () => {
    const port = await freePort()
    const gone = `http://127.0.0.1:${port}`
    const gateway = await gatewayTo([gone])
    expect(await gateway.readiness()).toMatchObject({
      status: 503,
      ready: false,
      reasons: { listener: 'up', backend: `! ${gone}: ECONNREFUSED` },
    })
    expect((await admin(gateway, '/healthz')).status).toBe(200)
    const well = await rawBackend()
    const both = await gatewayTo([gone, well.url])
    const reasons = { backend: `${gone}: ECONNREFUSED` }
    expect(await both.readiness()).toMatchObject({ status: 200, ready: true, reasons })
    await rawBackend({ port })
    await expect
      .poll(() => gateway.readiness())
      .toMatchObject({ status: 200, ready: true, reasons: { backend: 'reachable' } })
  })
})

const plans = `plans:
  free: { perMinute: 2, perDay: 1000 }
  pro: { perMinute: 300, perDay: 10000 }
  business: { perMinute: 1, perDay: 1 }
  enterprise: { custom: true }`

describe('/metrics', () => {
  it('counts requests, refusals, decisions and deprecated use exactly', async () => {
    const { gateway, backend } = await backed({
      respond: ({ target }) =>
        target.endsWith('/broken') ? ['nonsense\r\n\r\n'] : answer(200, '[]'),
      blocks: { plans },
    })
    await minuteWithAtLeast()
    const traffic: [string, string | undefined, string, number, number][] = [
      ['GET', keys.pro, '/v1/pets', 200, 3],
      ['HEAD', keys.pro, '/v1/pets?limit=1', 200, 1],
      ['GET', keys.enterprise, '/v1/pets/1', 200, 2],
      ['GET', keys.enterprise, '/v1/pets/broken', 502, 1],
      ['DELETE', keys.business, '/v1/elsewhere', 200, 1],
      ['GET', keys.business, '/v1/pets', 429, 1],
      ['GET', undefined, '/v1/pets/1', 401, 2],
      ['GET', keys.pro, '/outside', 404, 1],
      ['GET', keys.free, '/v1/pets', 200, 2],
      ['GET', keys.free, '/v1/pets/1', 429, 3],
    ]
    for (const [method, key, path, status, times] of traffic)
      for (let time = 0; time < times; time++)
        expect(await gateway.status(path, { method, key })).toBe(status)
    const unreadable = await rawExchange(gateway.port, 'GET / HTTP/9.9\r\n\r\n')
    expect(unreadable.responses[0]?.status).toBe(400)

    const labels = (route: string, plan: string, method: string, status: string): string =>
      `{route="${route}",plan="${plan}",method="${method}",status="${status}"}`
    const refused = (code: string, plan: string, window = 'none'): string =>
      `{code="${code}",plan="${plan}",window="${window}"}`
    await expect
      .poll(() => family(gateway, 'tollgate_requests_total'))
      .toEqual({
        [labels('listPets', 'pro', 'GET', '2xx')]: 3,
        [labels('listPets', 'pro', 'HEAD', '2xx')]: 1,
        [labels('getPet', 'enterprise', 'GET', '2xx')]: 2,
        [labels('getPet', 'enterprise', 'GET', '5xx')]: 1,
        [labels('unmatched', 'business', 'DELETE', '2xx')]: 1,
        [labels('listPets', 'business', 'GET', '4xx')]: 1,
        [labels('getPet', 'none', 'GET', '4xx')]: 2,
        [labels('unmatched', 'none', 'GET', '4xx')]: 1,
        [labels('listPets', 'free', 'GET', '2xx')]: 2,
        [labels('getPet', 'free', 'GET', '4xx')]: 3,
      })
    for (const [name, expected] of Object.entries({
      deprecated_requests_total: {
        '{route="getPet",plan="enterprise"}': 3,
        '{route="getPet",plan="none"}': 2,
        '{route="getPet",plan="free"}': 3,
      },
      refusals_total: {
        [refused('missing_api_key', 'none')]: 2,
        [refused('not_found', 'none')]: 1,
        [refused('rate_limit_exceeded', 'free', 'minute')]: 3,
        [refused('rate_limit_exceeded', 'business', 'day')]: 1,
        [refused('bad_gateway', 'enterprise')]: 1,
        [refused('invalid_request', 'none')]: 1,
      },
      quota_decisions_total: {
        '{window="none",outcome="admitted"}': 10,
        '{window="minute",outcome="refused"}': 3,
        '{window="day",outcome="refused"}': 1,
      },
      backend_failures_total: { '{kind="broken"}': 1 },
      request_duration_seconds_count: {
        '{route="listPets"}': 7,
        '{route="getPet"}': 8,
        '{route="unmatched"}': 2,
      },
      backend_duration_seconds_count: {
        '{route="listPets"}': 6,
        '{route="getPet"}': 3,
        '{route="unmatched"}': 1,
      },
    }))
      expect(nonZero(await family(gateway, `tollgate_${name}`)), name).toEqual(expected)
    expect(backend.requests.length).toBe(10)
    expect(await gateway.metric('tollgate_requests_in_flight')).toBe(0)
  })

  it('keeps the time of the backend apart from the time of the gateway', async () => {
    const { gateway, backend } = await backed({ respond: () => [600, answer(200, '[]')] })
    const request = gateway.status('/v1/pets', { key: keys.pro })
    await backend.waitFor(() => backend.requests.length === 1)
    expect(await gateway.metric('tollgate_requests_in_flight')).toBe(1)
    expect(await request).toBe(200)
    const sum = (name: string): Promise<number> =>
      gateway.metric(`tollgate_${name}_duration_seconds_sum{route="listPets"}`)
    await expect.poll(() => sum('backend')).toBeGreaterThan(0.59)
    expect(await sum('request')).toBeGreaterThan(0)
    expect(await sum('request')).toBeLessThan(await sum('backend'))
    const fast = 'tollgate_backend_duration_seconds_bucket{route="listPets",le="0.5"}'
    expect(await gateway.metric(fast)).toBe(0)
  })
})
