/** The admin listener of a running gateway: liveness, readiness with its reasons, and metrics that are right after known traffic. */
import { afterEach, describe, expect, it } from 'vitest'
import { keys, minuteWithAtLeast, startTestGateway, type TestGateway } from '../support/gateway.ts'
import { answer, startRawBackend, type RawBackend } from '../support/raw-backend.ts'
import { rawExchange } from '../support/raw-client.ts'
import { freePort, startRedisServer } from '../support/redis-server.ts'

const cleanUps: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const cleanUp of cleanUps.splice(0).toReversed()) await cleanUp()
})

async function backendOf(
  respond: (target: string) => ReturnType<typeof answer> | (string | number | Buffer)[],
): Promise<RawBackend> {
  const backend = await startRawBackend({ respond: ({ target }) => respond(target) })
  cleanUps.push(backend.close)
  return backend
}

async function gatewayTo(url: string, blocks: Record<string, string> = {}): Promise<TestGateway> {
  const gateway = await startTestGateway({ upstreams: [url], blocks })
  cleanUps.push(gateway.stop)
  return gateway
}

const admin = (gateway: TestGateway, path: string): Promise<Response> =>
  fetch(`http://127.0.0.1:${gateway.adminPort}${path}`)

interface Readiness {
  readonly status: number
  readonly ready: boolean
  /** Reason by name of the check, with an exclamation mark before that of one that is not ok. */
  readonly reasons: Record<string, string>
}

async function readiness(gateway: TestGateway): Promise<Readiness> {
  const response = await admin(gateway, '/readyz')
  const { ready, checks } = (await response.json()) as {
    ready: boolean
    checks: { name: string; ok: boolean; reason: string }[]
  }
  const reasons = checks.map(({ name, ok, reason }) => [name, ok ? reason : `! ${reason}`])
  return { status: response.status, ready, reasons: Object.fromEntries(reasons) }
}

/** Every sample of the page, by `name{labels}`. */
async function samples(gateway: TestGateway): Promise<Map<string, number>> {
  const page = await (await admin(gateway, '/metrics')).text()
  const lines = page.split('\n').filter((line) => line !== '' && !line.startsWith('#'))
  return new Map(
    lines.map((line) => {
      const cut = line.lastIndexOf(' ')
      return [line.slice(0, cut), Number(line.slice(cut + 1))]
    }),
  )
}

/** Samples of one family, by their labels. */
async function family(gateway: TestGateway, name: string): Promise<Record<string, number>> {
  const found = [...(await samples(gateway))].filter(([sample]) => sample.startsWith(`${name}{`))
  return Object.fromEntries(found.map(([sample, value]) => [sample.slice(name.length), value]))
}

const nonZero = (values: Record<string, number>): Record<string, number> =>
  Object.fromEntries(Object.entries(values).filter(([, value]) => value !== 0))

async function statusOf(gateway: TestGateway, path: string, init?: object): Promise<number> {
  const response = await gateway.fetch(path, init)
  await response.arrayBuffer()
  return response.status
}

describe('/healthz and /readyz', () => {
  it('say that all is well, and nothing of it on the public listener', async () => {
    const backend = await backendOf(() => answer(200, '[]'))
    const gateway = await gatewayTo(backend.url)
    const health = await admin(gateway, '/healthz')
    expect([health.status, await health.json()]).toEqual([200, { status: 'alive' }])
    expect(await readiness(gateway)).toEqual({
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
      expect(await statusOf(gateway, path, { key: keys.pro })).toBe(404)
    expect(backend.requests.length).toBe(0)
  })

  it('tell a backend that is away, for as long as it is, while the process stays alive', async () => {
    const port = await freePort()
    const gateway = await gatewayTo(`http://127.0.0.1:${port}`)
    const away = await readiness(gateway)
    expect(away).toMatchObject({ status: 503, ready: false, reasons: { listener: 'up' } })
    expect(away.reasons['backend']).toBe(`! http://127.0.0.1:${port}: ECONNREFUSED`)
    expect((await admin(gateway, '/healthz')).status).toBe(200)
    const backend = await startRawBackend({ port })
    cleanUps.push(backend.close)
    await expect
      .poll(() => readiness(gateway), { timeout: 10_000 })
      .toMatchObject({ status: 200, ready: true, reasons: { backend: 'reachable' } })
  })

  it('are ready with one backend of two', async () => {
    const backend = await backendOf(() => answer(200, '[]'))
    const gone = `http://127.0.0.1:${await freePort()}`
    const upstream = `upstream: { urls: [${gone}, ${backend.url}] }`
    const gateway = await gatewayTo('', { upstream })
    const reasons = { backend: `${gone}: ECONNREFUSED` }
    expect(await readiness(gateway)).toMatchObject({ status: 200, ready: true, reasons })
  })

  it('are not ready without a store that every decision needs, and ready where others do', async () => {
    const backend = await backendOf(() => answer(200, '[]'))
    const url = `redis://127.0.0.1:${await freePort()}`
    for (const [mode, status] of [
      ['closed', 503],
      ['local', 200],
      ['open', 200],
    ] as const) {
      const store = `store: { redis: "${url}", onOutage: ${mode} }`
      const gateway = await gatewayTo(backend.url, { store })
      const mark = status === 503 ? '! ' : ''
      expect(await readiness(gateway)).toMatchObject({
        status,
        ready: status === 200,
        reasons: { store: `${mark}away (ECONNREFUSED); onOutage is ${mode}`, backend: 'reachable' },
      })
    }
  })

  it('are not ready while draining, and gone after it, with the last answer delivered', async () => {
    let release: (() => void) | undefined
    const backend = await startRawBackend({
      respond: async () => {
        await new Promise<void>((resolve) => (release = resolve))
        return answer(200, '[]')
      },
    })
    cleanUps.push(backend.close)
    const gateway = await gatewayTo(backend.url)
    const last = gateway.fetch('/v1/pets', { key: keys.pro })
    await backend.waitFor(() => release !== undefined)
    const stopped = gateway.stop()
    expect(await readiness(gateway)).toMatchObject({
      status: 503,
      ready: false,
      reasons: { listener: '! starting or draining' },
    })
    expect((await admin(gateway, '/healthz')).status).toBe(200)
    release?.()
    expect((await last).status).toBe(200)
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
    const gateway = await gatewayTo('http://127.0.0.1:1')
    const page = await (await admin(gateway, '/metrics')).text()
    for (const name of [
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
    ])
      expect(page, name).toContain(`# TYPE ${name}\n`)
    const revision = gateway.logLines().find((line) => line['event'] === 'configTaken')?.[
      'revision'
    ]
    expect(page).toContain(`tollgate_config_info{revision="${String(revision)}"} 1\n`)
  })

  it('counts requests, refusals, decisions and deprecated use exactly', async () => {
    const backend = await backendOf((target) => {
      if (target.endsWith('/404')) return answer(404, '{}')
      return target.endsWith('/broken') ? ['nonsense\r\n\r\n'] : answer(200, '[]')
    })
    const gateway = await gatewayTo(backend.url, { plans })
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
      const body = method === 'POST' ? '{}' : undefined
      for (let time = 0; time < times; time++)
        expect(await statusOf(gateway, path, { method, key, body })).toBe(status)
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
    expect(nonZero(await family(gateway, 'tollgate_refusals_total'))).toEqual({
      [refused('missing_api_key', 'none')]: 2,
      [refused('invalid_api_key', 'none')]: 1,
      [refused('not_found', 'none')]: 1,
      [refused('rate_limit_exceeded', 'free', 'minute')]: 3,
      [refused('bad_gateway', 'enterprise')]: 1,
      [refused('invalid_request', 'none')]: 1,
    })
    expect(nonZero(await family(gateway, 'tollgate_quota_decisions_total'))).toEqual({
      '{window="none",outcome="admitted"}': 13,
      '{window="minute",outcome="refused"}': 3,
    })
    expect(nonZero(await family(gateway, 'tollgate_backend_failures_total'))).toEqual({
      '{kind="broken"}': 1,
    })
    expect(await family(gateway, 'tollgate_request_duration_seconds_count')).toEqual({
      '{route="listPets"}': 7,
      '{route="createPet"}': 2,
      '{route="getPet"}': 9,
      '{route="unmatched"}': 2,
      '{route="listOrders"}': 0,
      '{route="live"}': 0,
    })
    expect(nonZero(await family(gateway, 'tollgate_backend_duration_seconds_count'))).toEqual({
      '{route="listPets"}': 6,
      '{route="createPet"}': 2,
      '{route="getPet"}': 4,
      '{route="unmatched"}': 1,
    })
    expect(backend.requests.length).toBe(13)
    expect(await gateway.metric('tollgate_requests_in_flight')).toBe(0)
  })

  it('names the day where the day is what refuses', async () => {
    const backend = await backendOf(() => answer(200, '[]'))
    const daily = plans.replace('perMinute: 2, perDay: 1000', 'perMinute: 2, perDay: 2')
    const gateway = await gatewayTo(backend.url, { plans: daily })
    for (const status of [200, 200, 429])
      expect(await statusOf(gateway, '/v1/pets', { key: keys.free })).toBe(status)
    expect(nonZero(await family(gateway, 'tollgate_quota_decisions_total'))).toEqual({
      '{window="none",outcome="admitted"}': 2,
      '{window="day",outcome="refused"}': 1,
    })
  })

  it('keeps the time of the backend apart from the time of the gateway', async () => {
    const backend = await backendOf(() => [1_000, answer(200, '[]')])
    const gateway = await gatewayTo(backend.url)
    const request = statusOf(gateway, '/v1/pets', { key: keys.pro })
    await backend.waitFor(() => backend.requests.length === 1)
    expect(await gateway.metric('tollgate_requests_in_flight')).toBe(1)
    expect(await request).toBe(200)
    const sum = (name: string): Promise<number> =>
      gateway.metric(`tollgate_${name}_duration_seconds_sum{route="listPets"}`)
    await expect.poll(() => sum('backend')).toBeGreaterThan(0.99)
    expect(await sum('request')).toBeGreaterThan(0)
    expect(await sum('request')).toBeLessThan(await sum('backend'))
    const fast = 'tollgate_backend_duration_seconds_bucket{route="listPets",le="0.5"}'
    expect(await gateway.metric(fast)).toBe(0)
  })

  it('counts strikes, bans and the keys that are banned', async () => {
    const backend = await backendOf(() => answer(200, '[]'))
    const bans = 'bans: { strikes: 2, grace: 0s }'
    const gateway = await gatewayTo(backend.url, { plans, bans })
    await minuteWithAtLeast()
    for (const status of [200, 200, 429])
      expect(await statusOf(gateway, '/v1/pets', { key: keys.free })).toBe(status)
    let sent = 1
    await expect
      .poll(async () => {
        sent++
        expect(await statusOf(gateway, '/v1/pets', { key: keys.free })).toBe(429)
        return gateway.metric('tollgate_bans_total')
      })
      .toBe(1)
    // Strikes are counted in the background, so one more request may have been let through to the quota.
    const refused = (code: string): Promise<number> =>
      gateway.metric(`tollgate_refusals_total{code="${code}"`)
    expect(await statusOf(gateway, '/v1/pets', { key: keys.free })).toBe(429)
    sent++
    await expect
      .poll(async () => (await refused('rate_limit_exceeded')) + (await refused('api_key_banned')))
      .toBe(sent)
    expect(await refused('api_key_banned')).toBeGreaterThan(0)
    expect(await gateway.metric('tollgate_strikes_total')).toBeGreaterThanOrEqual(2)
    expect(await gateway.metric('tollgate_strikes_total')).toBeLessThan(
      await refused('rate_limit_exceeded'),
    )
    expect(await gateway.metric('tollgate_bans_total')).toBe(1)
    expect(await gateway.metric('tollgate_banned_keys')).toBe(1)
  })

  it('follows the store through an outage and back', async () => {
    const redis = await startRedisServer()
    cleanUps.push(redis.stop)
    const backend = await backendOf(() => answer(200, '[]'))
    const store = `store: { redis: "${redis.url}", onOutage: local }`
    const gateway = await gatewayTo(backend.url, { store })
    const up = (): Promise<number> => gateway.metric('tollgate_store_up')
    await expect
      .poll(async () => (await readiness(gateway)).reasons['store'], { timeout: 10_000 })
      .toBe('available')
    await expect.poll(() => statusOf(gateway, '/v1/pets', { key: keys.enterprise })).toBe(200)
    await expect
      .poll(() => gateway.metric('tollgate_store_calls_total{outcome="ok"}'))
      .toBeGreaterThan(0)
    expect(await gateway.metric('tollgate_store_call_duration_seconds_count')).toBeGreaterThan(0)
    expect(await up()).toBe(1)
    const outages = await gateway.metric('tollgate_store_outages_total')
    const degraded = await gateway.metric('tollgate_degraded_decisions_total{mode="local"}')

    await redis.kill()
    await expect.poll(up, { timeout: 10_000 }).toBe(0)
    expect(await gateway.metric('tollgate_store_outages_total')).toBe(outages + 1)
    expect(await readiness(gateway)).toMatchObject({
      status: 200,
      reasons: { store: expect.stringMatching(/^away \(.+\); onOutage is local$/) as string },
    })
    expect(await statusOf(gateway, '/v1/pets', { key: keys.business })).toBe(200)
    expect(await gateway.metric('tollgate_degraded_decisions_total{mode="local"}')).toBeGreaterThan(
      degraded,
    )

    await redis.restart()
    await expect.poll(up, { timeout: 10_000 }).toBe(1)
    expect((await readiness(gateway)).reasons['store']).toBe('available')
  })

  it('counts what a gateway that needs its store could not decide', async () => {
    const backend = await backendOf(() => answer(200, '[]'))
    const store = `store: { redis: "redis://127.0.0.1:${await freePort()}", onOutage: closed }`
    const gateway = await gatewayTo(backend.url, { store })
    for (let count = 0; count < 3; count++)
      expect(await statusOf(gateway, '/v1/pets', { key: keys.pro })).toBe(503)
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

  it('has as many series after thousands of paths, methods and keys as before', async () => {
    const backend = await backendOf(() => answer(200, '[]'))
    const anonymous = 'anonymous: { perMinute: 1000000 }'
    const gateway = await gatewayTo(backend.url, { anonymous })
    const round = async (at: number): Promise<void> => {
      const path = `/v1/nowhere-${at}/x${at}`
      expect(await statusOf(gateway, path, { key: keys.enterprise })).toBe(200)
      expect(await statusOf(gateway, `/v1/pets/${at}`, { key: `key-${at}` })).toBe(401)
      const head = `M${at.toString(36).toUpperCase()} ${path} HTTP/1.1\r\nHost: a${at}.example\r\n\r\n`
      expect(
        (await rawExchange(gateway.port, head, { timeoutMs: 15_000 })).responses[0]?.status,
      ).toBe(501)
    }
    const own = async (): Promise<string[]> =>
      [...(await samples(gateway)).keys()].filter((name) => name.startsWith('tollgate_')).sort()
    await round(0)
    await expect.poll(() => gateway.metric('tollgate_requests_in_flight')).toBe(0)
    const before = await own()
    let next = 1
    await Promise.all(
      Array.from({ length: 20 }, async () => {
        while (next <= 2_000) await round(next++)
      }),
    )
    await expect
      .poll(() => gateway.metric('tollgate_refusals_total{code="invalid_api_key"'))
      .toBe(2_001)
    expect(await own()).toEqual(before)
    expect(before.join()).not.toMatch(/nowhere|key-|example/)
  }, 120_000)
})
