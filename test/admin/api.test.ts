/** The admin API of a running gateway: what it says, what it does, and whom it refuses. All answers are held against docs/admin-openapi.yaml. */
import { hostname } from 'node:os'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { shownConfig } from '../../src/admin/config/operations.ts'
import { readApiDocument } from '../server/gateway/api-document.ts'
import { openApiFaults } from '../server/gateway/openapi-form.ts'
import { configText, sha256, startTestGateway, type TestGateway } from '../support/gateway.ts'
import { readBlocks } from '../support/serving.ts'
import { rawExchange, type ParsedResponse } from '../support/raw-client.ts'

const document = readApiDocument(join(import.meta.dirname, '../../docs/admin-openapi.yaml'))
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

interface Call {
  readonly method?: string
  readonly path?: string
  readonly host?: string
  readonly fields?: readonly string[]
  readonly body?: string | undefined
}

const jsonType = 'Content-Type: application/json'
/** The answer, after a look whether it is one that the document knows. */
async function ask(gateway: TestGateway, call: Call = {}): Promise<ParsedResponse> {
  const { method = 'POST', path = '/api/reload', body, fields = [] } = call
  const { host = `127.0.0.1:${gateway.adminPort}` } = call
  const length = body === undefined ? [] : [`Content-Length: ${Buffer.byteLength(body)}`]
  const head = [`${method} ${path} HTTP/1.1`, `Host: ${host}`, ...length, ...fields]
  const bytes = `${head.join('\r\n')}\r\n\r\n${body ?? ''}`
  const options = { responses: 1, methods: [method] }
  const { responses } = await rawExchange(gateway.adminPort, bytes, options)
  const [answer] = responses
  if (answer === undefined) throw new Error(`no answer to ${head[0]}`)
  const operation = document.operations.find(
    (one) => one.method === method && one.path === path.split('?')[0],
  )
  if (method !== 'HEAD') expect(document.faults(operation?.id, answer)).toEqual([])
  return answer
}

const bodyOf = (answer: ParsedResponse) =>
  JSON.parse(answer.body.toString()) as Record<string, unknown>
const coded = (answer: ParsedResponse) => [answer.status, bodyOf(answer)['code']]
const typed = (type: string, body: string): Call => ({ body, fields: [type] })
const reloading = (wish: object): Call => typed(jsonType, JSON.stringify(wish))
const from = (origin: string): Call => ({ fields: [`Origin: ${origin}`] })

const routes = (...names: string[]) => ({
  routes: `routes: [${names.map((name) => `{ name: ${name}, match: "GET /${name}" }`).join(', ')}]`,
})

describe('POST /api/reload', () => {
  it('tells what would change, takes just that, and says what has changed', async () => {
    const gateway = await gatewayWith('listen: "127.0.0.1:0"', routes('a', 'b'))
    const first = bodyOf(await ask(gateway, { method: 'GET', path: '/api/config' }))['revision']
    gateway.change(routes('b', 'c'))
    const { over, written, ...dry } = bodyOf(await ask(gateway, reloading({ dryRun: true })))
    expect(over).toMatchObject({ scope: 'store', of: 0, lookedAt: 0, count: 0, clients: [] })
    expect(written).toMatchObject({ routes: [{ name: 'b' }, { name: 'c' }] })
    expect(dry).toMatchObject({
      outcome: 'wouldBeTaken',
      blastRadius: { from: first, to: dry['revision'], routes: { added: ['c'], removed: ['a'] } },
    })
    expect(bodyOf(await ask(gateway, { method: 'GET', path: '/api/config' }))).toMatchObject({
      revision: first,
    })
    gateway.change(routes('b', 'd'))
    const wish = { revision: dry['revision'] }
    expect(coded(await ask(gateway, reloading(wish)))).toEqual([409, 'files_changed'])
    gateway.change(routes('b', 'c'))
    const taken = await ask(gateway, reloading(wish))
    expect(taken.status).toBe(200)
    expect(bodyOf(taken)).toEqual({ ...dry, outcome: 'taken' })
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
      const refused = await ask(gateway, reloading({ dryRun }))
      expect(coded(refused)).toEqual([422, 'config_refused'])
      expect(bodyOf(refused)['problems']).toEqual([
        expect.stringMatching(/^test.yaml:\d+:\d+ bans.strikes: /),
        expect.stringMatching(/^test.yaml:\d+:\d+ anonymous.perMinut: .*did you mean perMinute/),
      ])
      expect(await gateway.metric('tollgate_config_last_reload_successful')).toBe(dryRun ? 1 : 0)
    }
    gateway.change({ admin: 'admin: { listen: "127.0.0.1:1" }' })
    expect(bodyOf(await ask(gateway))['problems']).toEqual([
      'admin.listen: needs a restart; put it back as it was, or restart the gateway',
    ])
  })

  it.each<[string, Call, number, string]>([
    ['a page of another port', from('http://127.0.0.1:3000'), 403, 'foreign_origin'],
    ['such a one by the machine name', from(`http://${hostname()}:3000`), 403, 'foreign_origin'],
    ['a form', typed('Content-Type: text/plain', 'a=1'), 415, 'unsupported_media_type'],
    ['no type', { body: '{}' }, 415, 'unsupported_media_type'],
    ['no JSON', typed(jsonType, '{"dryRun":tru'), 400, 'invalid_request'],
    ['a list', typed(jsonType, '[]'), 400, 'invalid_request'],
    ['an unknown key', reloading({ dryrun: true }), 400, 'invalid_request'],
    ['a number for yes', reloading({ dryRun: 1 }), 400, 'invalid_request'],
    ['too much', reloading({ revision: 'a'.repeat(70_000) }), 413, 'body_too_large'],
    ['a look', { method: 'GET' }, 405, 'method_not_allowed'],
  ])('refuses %s', async (_name, call, status, code) => {
    expect(coded(await ask(plain, call))).toEqual([status, code])
    expect(plain.lines('configTaken')).toHaveLength(1)
  })

  it('is for pages of this listener, under all its names', async () => {
    const gateway = await gatewayWith('listen: "127.0.0.1:0", hosts: [admin.example]')
    const own = `127.0.0.1:${gateway.adminPort}`
    for (const [origin, host, status] of [
      [`http://${own}`, own, 200],
      ['https://admin.example', 'admin.example', 200],
      ['https://admin.example', own, 200],
      [`https://${own}`, own, 403],
    ] as const)
      expect((await ask(gateway, { ...from(origin), host })).status).toBe(status)
  })
})

describe('the token of the admin API', () => {
  const bearer = (token: string): Call => ({ fields: [`Authorization: Bearer ${token}`] })

  it('is asked for before anything is told, and a reload may change it', async () => {
    const gateway = await gatewayWith(`listen: "127.0.0.1:0", tokenSha256: ${sha256(TOKEN)}`)
    for (const call of [{}, bearer(`${TOKEN}x`), { path: '/api/none' }]) {
      const refused = await ask(gateway, call)
      expect(coded(refused)).toEqual([401, 'invalid_token'])
      expect(refused.header('www-authenticate')).toBe('Bearer')
    }
    const page = async (path: string, headers = {}) =>
      (await fetch(`http://127.0.0.1:${gateway.adminPort}${path}`, { headers })).status
    for (const path of ['/healthz', '/readyz']) expect([200, 503]).toContain(await page(path))
    expect(await page('/metrics')).toBe(401)
    expect(await page('/metrics', { authorization: `Bearer ${TOKEN}` })).toBe(200)
    gateway.change({
      admin: `admin: { listen: "127.0.0.1:0", openMetrics: true, tokenSha256: ${sha256('the-next')} }`,
    })
    expect((await ask(gateway, bearer(TOKEN))).status).toBe(200)
    expect((await ask(gateway, bearer(TOKEN))).status).toBe(401)
    expect(await page('/metrics')).toBe(200)
    expect(
      (await ask(gateway, { ...bearer('the-next'), method: 'HEAD', path: '/api/config' })).status,
    ).toBe(200)
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
    const answer = await ask(gateway, {
      method: 'GET',
      path: '/api/config',
      fields: [`Authorization: Bearer ${TOKEN}`],
    })
    const shown = answer.body.toString()
    expect(shown).not.toMatch(/[0-9a-f]{64}|pass-of-redis|sha256/i)
    expect(bodyOf(answer)).toMatchObject({
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
    const get = async (query = '') => ask(gateway, { method: 'GET', path: `/api/keys${query}` })
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
      expect(bodyOf(await get(query)), query).toMatchObject({ clients, cursor: null })
    for (const query of ['?cursor=-1', '?cursor=1e3', '?expiring=soon', '?client=', '?plan=pro'])
      expect(coded(await get(query)), query).toEqual([400, 'invalid_request'])
  })
})

describe('what a gateway says of its parts', () => {
  it('is that of one process where there is one', async () => {
    const get = async (path: string) => bodyOf(await ask(plain, { method: 'GET', path }))
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
      deprecated: {
        since: '2025-12-05T00:00:00.000Z',
        sunset: '2030-12-05T00:00:00.000Z',
        successor: '/pets?status=available',
        stage: 'announce',
      },
      requests: 0,
    })
  })
})

it('docs/admin-openapi.yaml is sound', () => {
  expect(openApiFaults(document.root)).toEqual([])
  expect(document.exampleFaults()).toEqual([])
})
