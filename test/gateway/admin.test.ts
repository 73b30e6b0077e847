/** The admin listener of a running gateway: liveness, readiness with its reasons, and metrics that are right after known traffic. */
import { describe, expect, it } from 'vitest'
import { backed, gatewayTo, rawBackend } from '../support/backed.ts'
import { keys, minuteWithAtLeast, type TestGateway } from '../support/gateway.ts'
import { answer } from '../support/raw-backend.ts'
import { rawExchange } from '../support/raw-client.ts'
import { freePort, startRedisServer } from '../support/redis-server.ts'

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

const away = async (mode: string): Promise<Record<string, string>> => ({
  store: `store: { redis: "redis://127.0.0.1:${await freePort()}", onOutage: ${mode} }`,
})

describe('/healthz and /readyz', () => {
  it('say that all is well, and nothing of it on the public listener', async () => {
    const { gateway, backend } = await backed()
    const health = await admin(gateway, '/healthz')
    expect([health.status, await health.json()]).toEqual([200, { status: 'alive' }])
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

  it.each([
    ['closed', 503],
    ['local', 200],
    ['open', 200],
  ])('of a store that is away with onOutage: %s is %i', async (mode, status) => {
    const { gateway } = await backed({ blocks: await away(mode) })
    const store = `${status === 503 ? '! ' : ''}away (ECONNREFUSED); onOutage is ${mode}`
    const reasons = { store, backend: 'reachable' }
    expect(await gateway.readiness()).toMatchObject({ status, ready: status === 200, reasons })
  })

  it('are not ready while draining, and gone after it, with the last answer delivered', async () => {
    const held = Promise.withResolvers<void>()
    const { gateway, backend } = await backed({
      respond: () => held.promise.then(() => answer(200, '[]')),
    })
    const last = gateway.status('/v1/pets', { key: keys.pro })
    await backend.waitFor(() => backend.requests.length === 1)
    const stopped = gateway.stop()
    const reasons = { listener: '! starting or draining' }
    expect(await gateway.readiness()).toMatchObject({ status: 503, ready: false, reasons })
    expect((await admin(gateway, '/healthz')).status).toBe(200)
    held.resolve()
    expect(await last).toBe(200)
    await stopped
    await expect(admin(gateway, '/healthz')).rejects.toThrow('fetch failed')
  })
})

const plans = `plans:
  free: { perMinute: 2, perDay: 1000 }
  pro: { perMinute: 300, perDay: 10000 }
  business: { perMinute: 1000, perDay: 100000 }
  enterprise: { custom: true }`

describe('/metrics', () => {
  it('has every family that alerts, the dashboard and operators rely on', async () => {
    const gateway = await gatewayTo(['http://127.0.0.1:1'])
    const page = await (await admin(gateway, '/metrics')).text()
    const types = [...page.matchAll(/^# TYPE (\S+ \w+)$/gm)].map(([, type]) => type)
    expect(types).toEqual(
      expect.arrayContaining([
        'tollgate_requests_total counter',
        'tollgate_deprecated_callers gauge',
        'tollgate_deprecated_requests_total counter',
        'tollgate_request_duration_seconds histogram',
        'tollgate_backend_duration_seconds histogram',
        'tollgate_backend_attempt_seconds histogram',
        'tollgate_requests_in_flight gauge',
        'tollgate_tunnels gauge',
        'tollgate_tunnels_closed_total counter',
        'tollgate_refusals_total counter',
        'tollgate_backend_failures_total counter',
        'tollgate_quota_decisions_total counter',
        'tollgate_store_calls_total counter',
        'tollgate_store_call_duration_seconds histogram',
        'tollgate_store_up gauge',
        'tollgate_store_outages_total counter',
        'tollgate_degraded_decisions_total counter',
        'tollgate_strikes_total counter',
        'tollgate_bans_total counter',
        'tollgate_banned_keys gauge',
        'tollgate_counters_unsaved_seconds gauge',
        'tollgate_config_info gauge',
        'tollgate_config_last_load_timestamp_seconds gauge',
        'tollgate_build_info gauge',
        'process_cpu_seconds_total counter',
        'process_resident_memory_bytes gauge',
        'nodejs_heap_size_used_bytes gauge',
        'nodejs_eventloop_lag_p99_seconds gauge',
        'nodejs_gc_duration_seconds histogram',
      ]),
    )
    const [taken] = gateway.lines('configTaken')
    expect(page).toContain(`tollgate_config_info{revision="${String(taken?.['revision'])}"} 1\n`)
  })

  it('counts requests, refusals, decisions and deprecated use exactly', async () => {
    const { gateway, backend } = await backed({
      respond: ({ target }) => {
        if (target.endsWith('/404')) return answer(404, '{}')
        return target.endsWith('/broken') ? ['nonsense\r\n\r\n'] : answer(200, '[]')
      },
      blocks: { plans },
    })
    await minuteWithAtLeast()
    const traffic: [string, string | undefined, string, number, number][] = [
      ['GET', keys.pro, '/v1/pets', 200, 3],
      ['HEAD', keys.pro, '/v1/pets?limit=1', 200, 1],
      ['POST', keys.business, '/v1/pets', 200, 2],
      ['GET', keys.enterprise, '/v1/pets/1', 200, 2],
      ['GET', keys.enterprise, '/v1/pets/404', 404, 1],
      ['GET', keys.enterprise, '/v1/pets/broken', 502, 1],
      ['DELETE', keys.business, '/v1/elsewhere', 200, 1],
      ['GET', undefined, '/v1/pets/1', 401, 2],
      ['GET', 'nobody', '/v1/pets', 401, 1],
      ['GET', keys.pro, '/outside', 404, 1],
      ['GET', keys.free, '/v1/pets', 200, 2],
      ['GET', keys.free, '/v1/pets/1', 429, 3],
    ]
    for (const [method, key, path, status, times] of traffic) {
      const body = method === 'POST' ? '{}' : null
      for (let time = 0; time < times; time++)
        expect(await gateway.status(path, { method, key, body })).toBe(status)
    }
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
        [labels('createPet', 'business', 'POST', '2xx')]: 2,
        [labels('getPet', 'enterprise', 'GET', '2xx')]: 2,
        [labels('getPet', 'enterprise', 'GET', '4xx')]: 1,
        [labels('getPet', 'enterprise', 'GET', '5xx')]: 1,
        [labels('unmatched', 'business', 'DELETE', '2xx')]: 1,
        [labels('getPet', 'none', 'GET', '4xx')]: 2,
        [labels('listPets', 'none', 'GET', '4xx')]: 1,
        [labels('unmatched', 'none', 'GET', '4xx')]: 1,
        [labels('listPets', 'free', 'GET', '2xx')]: 2,
        [labels('getPet', 'free', 'GET', '4xx')]: 3,
      })
    expect(await family(gateway, 'tollgate_deprecated_requests_total')).toEqual({
      '{route="getPet",plan="enterprise"}': 4,
      '{route="getPet",plan="none"}': 2,
      '{route="getPet",plan="free"}': 3,
    })
    for (const [name, expected] of [
      [
        'refusals_total',
        {
          [refused('missing_api_key', 'none')]: 2,
          [refused('invalid_api_key', 'none')]: 1,
          [refused('not_found', 'none')]: 1,
          [refused('rate_limit_exceeded', 'free', 'minute')]: 3,
          [refused('bad_gateway', 'enterprise')]: 1,
          [refused('invalid_request', 'none')]: 1,
        },
      ],
      [
        'quota_decisions_total',
        { '{window="none",outcome="admitted"}': 13, '{window="minute",outcome="refused"}': 3 },
      ],
      ['backend_failures_total', { '{kind="broken"}': 1 }],
      [
        'request_duration_seconds_count',
        {
          '{route="listPets"}': 7,
          '{route="createPet"}': 2,
          '{route="getPet"}': 9,
          '{route="unmatched"}': 2,
        },
      ],
      [
        'backend_duration_seconds_count',
        {
          '{route="listPets"}': 6,
          '{route="createPet"}': 2,
          '{route="getPet"}': 4,
          '{route="unmatched"}': 1,
        },
      ],
    ] as const)
      expect(nonZero(await family(gateway, `tollgate_${name}`)), name).toEqual(expected)
    expect(backend.requests.length).toBe(13)
    expect(await gateway.metric('tollgate_requests_in_flight')).toBe(0)
  })

  it('names the day where the day is what refuses', async () => {
    const daily = plans.replace('perMinute: 2, perDay: 1000', 'perMinute: 2, perDay: 2')
    const { gateway } = await backed({ blocks: { plans: daily } })
    for (const status of [200, 200, 429])
      expect(await gateway.status('/v1/pets', { key: keys.free })).toBe(status)
    expect(nonZero(await family(gateway, 'tollgate_quota_decisions_total'))).toEqual({
      '{window="none",outcome="admitted"}': 2,
      '{window="day",outcome="refused"}': 1,
    })
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

  it('counts strikes, bans and the keys that are banned', async () => {
    const { gateway } = await backed({
      blocks: { plans, bans: 'bans: { strikes: 2, grace: 0s }' },
    })
    await minuteWithAtLeast()
    const ask = () => gateway.status('/v1/pets', { key: keys.free })
    for (const status of [200, 200, 429]) expect(await ask()).toBe(status)
    let sent = 1
    await expect
      .poll(async () => {
        sent++
        expect(await ask()).toBe(429)
        return gateway.metric('tollgate_bans_total')
      })
      .toBe(1)
    // Strikes are counted in the background, so one more request may have been let through to the quota.
    const refused = (code: string): Promise<number> =>
      gateway.metric(`tollgate_refusals_total{code="${code}"`)
    expect(await ask()).toBe(429)
    await expect
      .poll(async () => (await refused('rate_limit_exceeded')) + (await refused('api_key_banned')))
      .toBe(sent + 1)
    expect(await refused('api_key_banned')).toBeGreaterThan(0)
    const strikes = await gateway.metric('tollgate_strikes_total')
    expect(strikes).toBeGreaterThanOrEqual(2)
    expect(strikes).toBeLessThan(await refused('rate_limit_exceeded'))
    expect(await gateway.metric('tollgate_bans_total')).toBe(1)
    expect(await gateway.metric('tollgate_banned_keys')).toBe(1)
  })

  it('follows the store through an outage and back', async ({ onTestFinished }) => {
    const redis = await startRedisServer()
    onTestFinished(redis.stop)
    const store = `store: { redis: "${redis.url}", onOutage: local }`
    const { gateway } = await backed({ blocks: { store } })
    const up = (): Promise<number> => gateway.metric('tollgate_store_up')
    const reason = async () => (await gateway.readiness()).reasons['store']
    await expect.poll(reason).toBe('available')
    await expect.poll(() => gateway.status('/v1/pets', { key: keys.enterprise })).toBe(200)
    await expect
      .poll(() => gateway.metric('tollgate_store_calls_total{outcome="ok"}'))
      .toBeGreaterThan(0)
    expect(await gateway.metric('tollgate_store_call_duration_seconds_count')).toBeGreaterThan(0)
    expect(await up()).toBe(1)
    const outages = await gateway.metric('tollgate_store_outages_total')
    const degraded = () => gateway.metric('tollgate_degraded_decisions_total{mode="local"}')
    const before = await degraded()

    await redis.kill()
    await expect.poll(up).toBe(0)
    expect(await gateway.metric('tollgate_store_outages_total')).toBe(outages + 1)
    expect((await gateway.readiness()).status).toBe(200)
    expect(await reason()).toMatch(/^away \(.+\); onOutage is local$/)
    expect(await gateway.status('/v1/pets', { key: keys.business })).toBe(200)
    expect(await degraded()).toBeGreaterThan(before)

    await redis.restart()
    await expect.poll(up).toBe(1)
    expect(await reason()).toBe('available')
  })

  it('counts what a gateway that needs its store could not decide', async () => {
    const { gateway, backend } = await backed({ blocks: await away('closed') })
    for (let count = 0; count < 3; count++)
      expect(await gateway.status('/v1/pets', { key: keys.pro })).toBe(503)
    await expect
      .poll(() => gateway.metric('tollgate_refusals_total{code="service_unavailable"'))
      .toBe(3)
    expect(nonZero(await family(gateway, 'tollgate_quota_decisions_total'))).toEqual({
      '{window="none",outcome="unavailable"}': 3,
    })
    expect(nonZero(await family(gateway, 'tollgate_degraded_decisions_total'))).toEqual({
      '{mode="closed"}': 3,
    })
    expect(await gateway.metric('tollgate_store_up')).toBe(0)
    expect(backend.requests.length).toBe(0)
  })

  it('has as many series after a hundred paths, methods and keys as after one', async () => {
    const { gateway } = await backed({ blocks: { anonymous: 'anonymous: { perMinute: 1000 }' } })
    const round = async (at: number): Promise<void> => {
      const path = `/v1/nowhere-${at}/x${at}`
      expect(await gateway.status(path, { key: keys.enterprise })).toBe(200)
      expect(await gateway.status(`/v1/pets/${at}`, { key: `key-${at}` })).toBe(401)
      const head = `M${at.toString(36).toUpperCase()} ${path} HTTP/1.1\r\nHost: a${at}.example\r\n\r\n`
      const { responses } = await rawExchange(gateway.port, head)
      expect(responses[0]?.status).toBe(501)
    }
    const own = async (): Promise<string[]> => {
      const page = await (await admin(gateway, '/metrics')).text()
      return page.match(/^tollgate_\S+(?= )/gm)?.sort() ?? []
    }
    const done = (rounds: number) =>
      expect
        .poll(() => gateway.metric('tollgate_refusals_total{code="invalid_api_key"'))
        .toBe(rounds)
    await round(0)
    await done(1)
    await expect.poll(() => gateway.metric('tollgate_requests_in_flight')).toBe(0)
    const before = await own()
    expect(before.length).toBeGreaterThan(100)
    for (let next = 1; next <= 100; next++) await round(next)
    await done(101)
    expect(await own()).toEqual(before)
    expect(before.join()).not.toMatch(/nowhere|key-|example/)
  })
})
