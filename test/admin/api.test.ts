/** The admin API of a running gateway: what it says, what it does, and whom it refuses. All answers are held against docs/admin-openapi.yaml. */
import { hostname } from 'node:os'
import { describe, expect, it } from 'vitest'
import { shownConfig } from '../../src/admin/config/operations.ts'
import { systemOperations } from '../../src/admin/system/operations.ts'
import { openApiFaults } from '../server/gateway/openapi-form.ts'
import { adminDocument, askAdmin } from '../support/admin-client.ts'
import { configText, sha256, startTestGateway, type TestGateway } from '../support/gateway.ts'
import { rawExchange } from '../support/raw-client.ts'
import { readBlocks } from '../support/serving.ts'

const TOKEN = 'an-operators-token'

const text = (blocks: Record<string, string>): string =>
  configText({ upstreams: ['http://127.0.0.1:9'], blocks })

const plain = await startTestGateway({ upstreams: ['http://127.0.0.1:9'] })

/** A gateway whose file can be changed. */
async function gatewayWith(admin: string, more: Record<string, string> = {}) {
  const before = { admin: `admin: { ${admin} }`, ...more }
  let file = text(before)
  const gateway = await startTestGateway({
    upstreams: ['http://127.0.0.1:9'],
    blocks: before,
    reload: () => file,
  })
  return Object.assign(gateway, {
    change: (blocks: Record<string, string>) => (file = text({ ...before, ...blocks })),
  })
}

type Fields = Readonly<Record<string, string>>
const ask = ({ adminPort }: TestGateway, call: string, body?: unknown, headers?: Fields) =>
  askAdmin(`http://127.0.0.1:${adminPort}`, call, body, headers)
const RELOAD = 'POST /api/reload'
const type = (name: string): Fields => ({ 'Content-Type': name })
const from = (origin: string): readonly [undefined, Fields] => [undefined, { origin }]

const routes = (...names: string[]) => ({
  routes: `routes: [${names.map((name) => `{ name: ${name}, match: "GET /${name}" }`).join(', ')}]`,
})

describe('POST /api/reload', () => {
  it('tells what would change, takes just that, and says what has changed', async () => {
    const gateway = await gatewayWith('listen: "127.0.0.1:0"', routes('a', 'b'))
    const first = (await ask(gateway, 'GET /api/config')).body['revision']
    gateway.change(routes('b', 'c'))
    const { over, written, ...dry } = (await ask(gateway, RELOAD, { dryRun: true })).body
    expect(over).toMatchObject({ scope: 'store', of: 0, lookedAt: 0, count: 0, clients: [] })
    expect(written).toMatchObject({ routes: [{ name: 'b' }, { name: 'c' }] })
    expect(dry).toMatchObject({
      outcome: 'wouldBeTaken',
      blastRadius: { from: first, to: dry['revision'], routes: { added: ['c'], removed: ['a'] } },
    })
    expect((await ask(gateway, 'GET /api/config')).body).toMatchObject({ revision: first })
    gateway.change(routes('b', 'd'))
    const wish = { revision: dry['revision'] }
    expect((await ask(gateway, RELOAD, wish)).coded).toEqual([409, 'files_changed'])
    gateway.change(routes('b', 'c'))
    const taken = await ask(gateway, RELOAD, wish)
    expect(taken.status).toBe(200)
    expect(taken.body).toEqual({ ...dry, outcome: 'taken' })
    expect(gateway.lines('audit')).toMatchObject([
      { who: '127.0.0.1', action: 'reload', dryRun: true, status: 200, before: first },
      { status: 409, outcome: 'filesChanged', after: first },
      { status: 200, outcome: 'taken', before: first, after: dry['revision'] },
    ])
  })

  it('names all that is wrong with what cannot be taken', async () => {
    const gateway = await gatewayWith('listen: "127.0.0.1:0"')
    gateway.change({ bans: 'bans: { strikes: none }', anonymous: 'anonymous: { perMinut: 1 }' })
    for (const dryRun of [true, false]) {
      const refused = await ask(gateway, RELOAD, { dryRun })
      expect(refused.coded).toEqual([422, 'config_refused'])
      expect(refused.body['problems']).toEqual([
        expect.stringMatching(/^test.yaml:\d+:\d+ bans.strikes: /),
        expect.stringMatching(/^test.yaml:\d+:\d+ anonymous.perMinut: .*did you mean perMinute/),
      ])
      expect(await gateway.metric('tollgate_config_last_reload_successful')).toBe(dryRun ? 1 : 0)
    }
    gateway.change({ admin: 'admin: { listen: "127.0.0.1:1" }' })
    expect((await ask(gateway, RELOAD)).body['problems']).toEqual([
      'admin.listen: needs a restart; put it back as it was, or restart the gateway',
    ])
  })

  it.each<[string, readonly [unknown, Fields?], number, string]>([
    ['a page of another port', from('http://127.0.0.1:3000'), 403, 'foreign_origin'],
    ['such a one by the machine name', from(`http://${hostname()}:3000`), 403, 'foreign_origin'],
    ['a form', [Buffer.from('a=1'), type('text/plain')], 415, 'unsupported_media_type'],
    ['no type', [Buffer.from('{}')], 415, 'unsupported_media_type'],
    ['no JSON', [Buffer.from('{"dryRun":tru'), type('application/json')], 400, 'invalid_request'],
    ['a list', [[]], 400, 'invalid_request'],
    ['an unknown key', [{ dryrun: true }], 400, 'invalid_request'],
    ['a number for yes', [{ dryRun: 1 }], 400, 'invalid_request'],
    ['too much', [{ revision: 'a'.repeat(70_000) }], 413, 'body_too_large'],
  ])('refuses %s', async (_name, [body, headers], status, code) => {
    expect((await ask(plain, RELOAD, body, headers)).coded).toEqual([status, code])
    expect(plain.lines('configTaken')).toHaveLength(1)
  })

  it('is for pages of this listener, under all its names', async () => {
    const { adminPort } = await gatewayWith('listen: "127.0.0.1:0", hosts: [admin.example]')
    const own = `127.0.0.1:${adminPort}`
    for (const [origin, host, status] of [
      [`http://${own}`, own, 200],
      ['https://admin.example', 'admin.example', 200],
      ['https://admin.example', own, 200],
      [`https://${own}`, own, 403],
    ] as const) {
      const head = `POST /api/reload HTTP/1.1\r\nHost: ${host}\r\nOrigin: ${origin}\r\n\r\n`
      const { responses } = await rawExchange(adminPort, head, { responses: 1 })
      expect(responses[0]?.status).toBe(status)
    }
  })
})

describe('the token of the admin API', () => {
  const bearer = (token: string) => ({ authorization: `Bearer ${token}` })

  it('is asked for before anything is told, and a reload may change it', async () => {
    const gateway = await gatewayWith(`listen: "127.0.0.1:0", tokenSha256: ${sha256(TOKEN)}`)
    for (const [call, headers] of [
      [RELOAD, {}],
      [RELOAD, bearer(`${TOKEN}x`)],
      ['POST /api/none', {}],
    ] as const) {
      const refused = await ask(gateway, call, undefined, headers)
      expect(refused.coded).toEqual([401, 'invalid_token'])
      expect(refused.headers.get('www-authenticate')).toBe('Bearer')
    }
    const page = async (path: string, headers = {}, method = 'GET') =>
      (await fetch(`http://127.0.0.1:${gateway.adminPort}${path}`, { method, headers })).status
    for (const path of ['/healthz', '/readyz']) expect([200, 503]).toContain(await page(path))
    expect(await page('/metrics')).toBe(401)
    expect(await page('/metrics', bearer(TOKEN))).toBe(200)
    gateway.change({
      admin: `admin: { listen: "127.0.0.1:0", openMetrics: true, tokenSha256: ${sha256('the-next')} }`,
    })
    expect((await ask(gateway, RELOAD, undefined, bearer(TOKEN))).status).toBe(200)
    expect((await ask(gateway, RELOAD, undefined, bearer(TOKEN))).status).toBe(401)
    expect(await page('/metrics')).toBe(200)
    expect(await page('/api/config', bearer('the-next'), 'HEAD')).toBe(200)
    await gateway.stop()
    const who = `token ${sha256(TOKEN).slice(0, 8)}`
    expect(gateway.lines('audit')[0]).toMatchObject({ who, outcome: 'taken' })
    const intruders = gateway.lines('auditRefused')
    expect(intruders.reduce((sum, { count }) => sum + Number(count), 0)).toBe(4)
  })
})

describe('GET /api/config', () => {
  it('shows what is in force with its defaults, and nothing secret', async () => {
    const redis =
      'redis: { url: "redis://127.0.0.1:9", username: gate, password: pass-of-redis }, onOutage: open'
    const gateway = await gatewayWith(`listen: "127.0.0.1:0", tokenSha256: ${sha256(TOKEN)}`, {
      store: `store: { ${redis} }`,
      plans:
        'plans: { secret-password: { perMinute: 7, perDay: 70 }, pro: { perMinute: 60, perDay: 1000 } }',
      clients:
        'clients: [{ id: acme, plan: pro, keys: [{ id: acme-1, sha256: ' +
        sha256('acme') +
        ' }] }]',
    })
    const { body } = await ask(gateway, 'GET /api/config', undefined, {
      authorization: `Bearer ${TOKEN}`,
    })
    expect(JSON.stringify(body)).not.toMatch(/[0-9a-f]{64}|pass-of-redis|sha256/i)
    expect(body).toMatchObject({
      clientCount: 1,
      config: {
        store: {
          timeoutMs: 100,
          redis: { addresses: [{ host: '127.0.0.1', port: 9 }], username: 'gate' },
        },
        // Whatever its name.
        plans: { 'secret-password': { limits: { perMinute: 7, perDay: 70 } } },
        clients: [{ id: 'acme', keys: [{ id: 'acme-1' }] }],
      },
    })
  })

  it('is made once for each configuration, with the first 1,000 clients, however often it is asked for', () => {
    const many = Array.from({ length: 1_001 }, (_, n) => `  - { id: c-${n}, plan: pro, keys: [] }`)
    const configOf = () =>
      readBlocks(['http://127.0.0.1:9'], { clients: `clients:\n${many.join('\n')}\n` })
    const [config, next] = [configOf(), configOf()]
    const { body } = shownConfig(config)
    const shown = JSON.parse(String(body)) as { clientCount: number; config: { clients: object[] } }
    expect([shown.clientCount, shown.config.clients.length]).toEqual([1_001, 1_000])
    expect(shownConfig(config).body).toBe(body)
    expect(shownConfig(next).body).not.toBe(body)
  })
})

describe('GET /api/keys', () => {
  it('shows keys by client, or those of one, or those that end soon, and never a digest', async () => {
    const soon = new Date(Date.now() + 86_400_000).toISOString()
    const key = (id: string, more = '') => `{ id: ${id}, sha256: ${sha256(id)}${more} }`
    const gateway = await gatewayWith('listen: "127.0.0.1:0"', {
      clients: `clients:
  - { id: acme, plan: pro, keys: [${key('acme-1')}, ${key('acme-2', `, expires: ${soon}`)}] }
  - { id: bolt, plan: free, keys: [${key('bolt-old', ', expires: 2020-01-01')}] }
`,
    })
    const get = (query: string) => ask(gateway, `GET /api/keys${query}`)
    const shown = (id: string, expires: string | null) => ({
      id,
      expires,
      fingerprint: sha256(sha256(id)).slice(0, 8),
    })
    const acme = { id: 'acme', plan: 'pro', limits: { perMinute: 300, perDay: 10_000 } }
    const soonOnly = [{ ...acme, keys: [shown('acme-2', soon)] }]
    const bolt = {
      id: 'bolt',
      plan: 'free',
      limits: { perMinute: 60, perDay: 1_000 },
      keys: [shown('bolt-old', '2020-01-01T00:00:00.000Z')],
    }
    const all = [{ ...acme, keys: [shown('acme-1', null), shown('acme-2', soon)] }, bolt]
    for (const [query, clients] of [
      ['', all],
      ['?cursor=1', [bolt]],
      ['?cursor=999999999', []],
      ['?client=bolt', [bolt]],
      ['?expiring=30d', soonOnly],
      ['?expiring=1h', []],
      ['?client=acme&expiring=30d', soonOnly],
    ] as const)
      expect((await get(query)).body, query).toMatchObject({ clients, cursor: null })
    for (const query of ['?cursor=-1', '?cursor=1e3', '?expiring=soon', '?client=', '?plan=pro'])
      expect((await get(query)).coded, query).toEqual([400, 'invalid_request'])
  })
})

describe('what a gateway says of its parts', () => {
  it('is that of one process where there is one', async () => {
    const get = async (path: string) => (await ask(plain, `GET ${path}`)).body
    expect(await get('/api/reload')).toMatchObject({ status: 405, code: 'method_not_allowed' })
    expect(await get('/api/store')).toMatchObject({ kind: 'embedded', where: null, state: 'up' })
    expect(await get('/api/backends')).toMatchObject({
      scope: 'gateway',
      backends: [{ name: 'http://127.0.0.1:9', requestsPerSecond: 0, p99Ms: null }],
    })
    const { wanted, workers } = await get('/api/workers')
    expect({ wanted, workers }).toMatchObject({
      wanted: 1,
      workers: [{ number: 1, pid: process.pid, state: 'listening', restarts: 0 }],
    })
    expect((await get('/api/routes'))['routes']).toContainEqual({
      name: 'getPet',
      methods: ['GET'],
      path: '/pets/{petId}',
      matchesOnly: null,
      deprecated: {
        since: '2025-12-05T00:00:00.000Z',
        sunset: '2030-12-05T00:00:00.000Z',
        successor: '/pets?status=available',
        stage: 'announce',
      },
      requests: 0,
    })
  })

  it('names the one path of a route that repeats the base path', async () => {
    const gateway = await gatewayWith('listen: "127.0.0.1:0"', {
      routes: 'routes: [{ name: a, match: GET /v1/a }, { name: b, match: GET /v10/b }]',
    })
    const { routes } = (await ask(gateway, 'GET /api/routes')).body
    expect(routes).toMatchObject([{ matchesOnly: '/v1/v1/a' }, { matchesOnly: null }])
    expect((await ask(gateway, 'GET /api/overview')).body['attention']).toMatchObject([
      { kind: 'config', severity: 'warn', subject: null },
    ])
  })

  it('is, of a backend, that of the gateway to which it looks worst', async () => {
    const name = 'http://127.0.0.1:9'
    const rates = { requestsPerSecond: 0.5, failuresPerSecond: 0, p99Ms: null }
    const here = { name, state: 'down', fault: 'a time-out', since: undefined, isUsable: true }
    const there = { name, state: 'ejected', since: null, cause: 'five', nextTry: null, ...rates }
    const gateways = { answered: ['one', 'two'], silent: [], why: [] }
    const missing = ['worker 2 did not answer']
    const needs = {
      state: { backends: () => [here] },
      live: { changes: { backendSinceMs: () => undefined }, seconds: { backend: () => rates } },
      reloads: { config: { upstream: { urls: [name] } } },
      fleet: { ask: () => Promise.resolve({ parts: [{ backends: [there], missing }], gateways }) },
    }
    const [backends] = systemOperations
    const answer = await backends?.handle(needs as never, { request: {} } as never)
    expect(JSON.parse(answer?.body as string)).toMatchObject({
      scope: 'store',
      missing: ['two: worker 2 did not answer'],
      backends: [{ state: 'ejected', cause: 'five (seen by two)', requestsPerSecond: 1 }],
    })
  })
})

it('docs/admin-openapi.yaml is sound', () => {
  expect(openApiFaults(adminDocument.root)).toEqual([])
  expect(adminDocument.exampleFaults()).toEqual([])
})
