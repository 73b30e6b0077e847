/** docs/openapi.yaml is sound, says what the service document says, and is what a real gateway and catalogue answer. */
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { startCatalogue, type Catalogue } from '../../src/catalogue/server.ts'
import { keys, minuteWithAtLeast, startTestGateway, type TestGateway } from '../support/gateway.ts'
import { answer, startRawBackend } from '../support/raw-backend.ts'
import { parseResponses, rawExchange, type ParsedResponse } from '../support/raw-client.ts'
import { freePort } from '../support/redis-server.ts'
import { openApiDocument, readApiDocument } from './api-document.ts'
import { openApiFaults } from './openapi-form.ts'

const document = readApiDocument()
const ids = ['listPets', 'createPet', 'getPet'] as const
type Id = (typeof ids)[number]

interface Call {
  readonly method?: string
  readonly target?: string
  readonly key?: string | undefined
  /** Header lines without line ends. */
  readonly lines?: readonly string[]
  readonly body?: string
}

/** One sound call per operation; petId 1 is there in a seeded catalogue. */
const calls: Readonly<Record<Id, Call>> = {
  listPets: { target: '/v1/pets' },
  createPet: {
    method: 'POST',
    target: '/v1/pets',
    lines: ['Content-Type: application/json'],
    body: '{"name":"Rex","categoryId":9223372036854775807,"status":"sold"}',
  },
  getPet: { target: '/v1/pets/1' },
}

async function send(gateway: TestGateway, call: Call): Promise<ParsedResponse> {
  const { method = 'GET', target = '/v1/pets', key, lines = [], body } = call
  const head = [
    `${method} ${target} HTTP/1.1`,
    'Host: api.example',
    ...(key === undefined ? [] : [`Authorization: Bearer ${key}`]),
    ...(body === undefined ? [] : [`Content-Length: ${Buffer.byteLength(body)}`]),
    ...lines,
  ]
  const bytes = `${head.join('\r\n')}\r\n\r\n${body ?? ''}`
  const { responses, problem } = await rawExchange(gateway.port, bytes, {
    responses: 1,
    timeoutMs: 15_000,
  })
  expect(problem).toBeUndefined()
  const [response] = responses
  if (response === undefined) throw new Error(`no answer to ${head[0]}`)
  return response
}

/** Sends the call as this operation's, and expects exactly what the document says of that status. */
async function expectDocumented(
  gateway: TestGateway,
  call: Call & { readonly id: Id | undefined },
  { status, code }: { status: number; code?: string },
): Promise<ParsedResponse> {
  const base = call.id === undefined ? {} : calls[call.id]
  const lines = [...(base.lines ?? []), ...(call.lines ?? [])]
  const { id, ...own } = call
  const response = await send(gateway, { ...base, ...own, lines })
  const where = `${id ?? 'no operation'} ${status} ${code ?? ''}`
  expect(response.status, where).toBe(status)
  if (code !== undefined) {
    expect(JSON.parse(response.body.toString('utf8')), where).toMatchObject({ code, status })
  }
  expect(document.faults(id, response), where).toEqual([])
  return response
}

const quotaFields = [
  'x-ratelimit-limit',
  'x-ratelimit-remaining',
  'x-ratelimit-reset',
  'ratelimit',
  'ratelimit-policy',
]

function expectQuota(response: ParsedResponse): void {
  for (const name of quotaFields) expect(response.all(name), name).toHaveLength(1)
}

/** What is not known is not told. */
function expectNoQuota(response: ParsedResponse): void {
  for (const name of quotaFields) expect(response.all(name), name).toHaveLength(0)
}

function expectLifecycle(response: ParsedResponse, id: Id): void {
  const deprecated = id === 'getPet'
  for (const name of ['deprecation', 'sunset'])
    expect(response.all(name), name).toHaveLength(deprecated ? 1 : 0)
}

describe('the document', () => {
  it('has the operations, paths, parameters and required fields of the service', () => {
    expect(
      document.operations.map(({ id, method, path, deprecated }) => ({
        id,
        method,
        path,
        deprecated,
      })),
    ).toEqual([
      { id: 'listPets', method: 'GET', path: '/pets', deprecated: false },
      { id: 'createPet', method: 'POST', path: '/pets', deprecated: false },
      { id: 'getPet', method: 'GET', path: '/pets/{petId}', deprecated: true },
    ])
    const [limit] = document.operations[0]?.parameters ?? []
    expect(limit).toMatchObject({
      name: 'limit',
      in: 'query',
      schema: { type: 'integer', minimum: 1, maximum: 100, default: 20 },
    })
    const path = document.operations[2]?.parameters[0]
    expect(path).toMatchObject({ name: 'petId', in: 'path', required: true })
    expect(document.resolve('#/components/schemas/PetStatus')).toMatchObject({
      enum: ['available', 'pending', 'sold'],
    })
    expect(document.resolve('#/components/schemas/NewPet/required')).toEqual(['name', 'categoryId'])
    expect(document.resolve('#/components/schemas/Error/required')).toEqual([
      'code',
      'message',
      'status',
    ])
    expect(document.root['security']).toEqual([{ apiKey: [] }])
    expect(document.resolve('#/components/securitySchemes/apiKey')).toMatchObject({
      type: 'http',
      scheme: 'bearer',
    })
  })

  it('has the form of OpenAPI 3.1', () => {
    expect(openApiFaults(document.root)).toEqual([])
    const { paths: _, ...pathless } = document.root
    expect(openApiFaults(pathless)).not.toEqual([])
    expect(openApiFaults({ ...document.root, swagger: '2.0' })).not.toEqual([])
  })

  it('has only references that lead somewhere, and nothing that nothing refers to', () => {
    const refs = document.refs()
    expect(refs.length).toBeGreaterThan(50)
    for (const ref of refs) expect(() => document.resolve(ref), ref).not.toThrow()
    expect(() => document.resolve('#/components/schemas/Nobody')).toThrow('nothing at')
    const named = Object.entries(
      document.root['components'] as Record<string, Record<string, unknown>>,
    )
      .filter(([kind]) => kind !== 'securitySchemes')
      .flatMap(([kind, entries]) =>
        Object.keys(entries).map((name) => `#/components/${kind}/${name}`),
      )
    expect(named.filter((ref) => !refs.includes(ref))).toEqual([])
  })

  it('has strict JSON Schemas (2020-12) that take what they should and refuse the rest', () => {
    const schemas = document.resolve('#/components/schemas') as Record<string, unknown>
    for (const name of Object.keys(schemas)) document.compile(`#/components/schemas/${name}`)
    const pet = document.compile('#/components/schemas/Pet')
    expect(pet({ id: 1, name: 'Rex', categoryId: 2 })).toBe(true)
    expect(pet({ id: 1, name: 'Rex', categoryId: 2, status: 'lost' })).toBe(false)
    expect(pet({ id: 1.5, name: 'Rex', categoryId: 2 })).toBe(false)
    expect(pet({ name: 'Rex', categoryId: 2 })).toBe(false)
    const broken = openApiDocument({
      ...document.root,
      components: { schemas: { Odd: { type: 'integer', minimun: 1 } } },
    })
    expect(() => broken.compile('#/components/schemas/Odd')).toThrow('minimun')
  })
})

describe('the check of answers', () => {
  const sound = [
    'HTTP/1.1 401 Unauthorized',
    'Content-Type: application/json; charset=utf-8',
    'X-RateLimit-Limit: 60',
    'X-RateLimit-Remaining: 59',
    'X-RateLimit-Reset: 1800000000',
    'RateLimit: "minute";r=59;t=10',
    'RateLimit-Policy: "minute";q=60;w=60',
    'X-Request-Id: abc',
    'Via: 1.1 tollgate',
    'WWW-Authenticate: Bearer',
  ]
  const body = '{"code":"missing_api_key","message":"m","status":401}'
  const faultsOf = (lines: readonly string[], text = body): string[] => {
    const bytes = `${lines.join('\r\n')}\r\nContent-Length: ${text.length}\r\n\r\n${text}`
    const [response] = parseResponses(Buffer.from(bytes)).responses
    if (response === undefined) throw new Error('the answer of the test is malformed')
    return document.faults('listPets', response)
  }
  const changed = (from: string, to: string): string[] =>
    sound.map((line) => (line.startsWith(from) ? to : line))

  it('takes a sound one', () => expect(faultsOf(sound)).toEqual([]))

  it.each([
    ['a header that is missing', sound.filter((line) => !line.startsWith('WWW-'))],
    ['a header that is not documented', [...sound, 'X-RateLimit-Burst: 5']],
    ['a header sent twice', [...sound, 'X-RateLimit-Limit: 60']],
    ['a header of the wrong type', changed('X-RateLimit-Limit', 'X-RateLimit-Limit: many')],
    ['a header of the wrong form', changed('RateLimit:', 'RateLimit: limit=60')],
    ['a body of another type', changed('Content-Type', 'Content-Type: text/html')],
  ])('refuses %s', (_, lines) => expect(faultsOf(lines)).toHaveLength(1))

  it('refuses a body of the wrong form', () => {
    expect(faultsOf(sound, '{"code":"x"}')).toHaveLength(1)
    expect(faultsOf(changed('HTTP', 'HTTP/1.1 200 OK'), '[{"id":"1"}]').join()).toContain('body')
  })

  it('refuses a status that is not documented, where there is no default', () => {
    const paths = structuredClone(document.root['paths']) as Record<
      string,
      Record<string, { responses: Record<string, unknown> }>
    >
    delete paths['/pets']?.['get']?.responses['default']
    const [response] = parseResponses(
      Buffer.from('HTTP/1.1 418 No\r\nContent-Length: 0\r\n\r\n'),
    ).responses
    if (response === undefined) throw new Error('the answer of the test is malformed')
    expect(openApiDocument({ ...document.root, paths }).faults('listPets', response)).toEqual([
      'status 418: not documented',
    ])
  })
})

/** Limits that one request uses up, so that the next is refused, and the one after that is a strike. */
const scarce = {
  plans: `plans:
  free: { perMinute: 1, perDay: 1000 }
  pro: { perMinute: 300, perDay: 10000 }
  business: { perMinute: 1000, perDay: 100000 }
  enterprise: { custom: true }`,
  bans: 'bans: { strikes: 1, grace: 0s }',
}

describe('the answers of a real gateway in front of a real catalogue are as documented:', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tollgate-openapi-'))
  const started: TestGateway[] = []
  let catalogue: Catalogue
  let upstream: string
  let gateway: TestGateway

  async function start(blocks: Record<string, string> = {}, url = upstream): Promise<TestGateway> {
    const made = await startTestGateway({ upstreams: [url], blocks })
    started.push(made)
    return made
  }

  beforeAll(async () => {
    catalogue = await startCatalogue({
      host: '127.0.0.1',
      port: 0,
      file: join(folder, 'catalogue.db'),
      seed: true,
    })
    upstream = `http://127.0.0.1:${catalogue.address.port}`
    gateway = await start({ anonymous: 'anonymous: { perMinute: 100000 }' })
  })
  afterAll(async () => {
    await Promise.all(started.map((each) => each.stop()))
    await catalogue.close()
    rmSync(folder, { recursive: true, force: true })
  })
  const key = keys.enterprise

  it('200 and 201 of every operation', async () => {
    for (const id of ids) {
      const status = id === 'createPet' ? 201 : 200
      const response = await expectDocumented(gateway, { id, key }, { status })
      expectQuota(response)
      expectLifecycle(response, id)
    }
    const page = await expectDocumented(
      gateway,
      { id: 'listPets', key, target: '/v1/pets?limit=1&status=available' },
      { status: 200 },
    )
    expect(page.all('link').join()).toContain('rel="next"')
  })

  it('400 for parameters and bodies', async () => {
    const wrong: [Id, Partial<Call>, string][] = [
      ['listPets', { target: '/v1/pets?limit=0' }, 'invalid_parameter'],
      ['listPets', { target: '/v1/pets?status=lost' }, 'invalid_parameter'],
      ['createPet', { body: '{"name":"Rex"}' }, 'invalid_body'],
      ['createPet', { body: '{' }, 'invalid_body'],
      ['getPet', { target: '/v1/pets/abc' }, 'invalid_parameter'],
    ]
    for (const [id, call, code] of wrong) {
      const response = await expectDocumented(gateway, { id, key, ...call }, { status: 400, code })
      expectQuota(response)
      expectLifecycle(response, id)
    }
  })

  it('400 for requests that can be read two ways', async () => {
    for (const id of ids) {
      const lines = ['Transfer-Encoding: chunked', 'Content-Length: 0']
      const code = 'invalid_request'
      expectQuota(await expectDocumented(gateway, { id, key, lines }, { status: 400, code }))
      const target = `${calls[id].target ?? ''}?a=%zz`
      expectQuota(await expectDocumented(gateway, { id, key, target }, { status: 400, code }))
    }
  })

  it('401 without a key and with a wrong one', async () => {
    for (const id of ids) {
      for (const [wrong, code] of [
        [undefined, 'missing_api_key'],
        ['nobody', 'invalid_api_key'],
        [keys.expired, 'invalid_api_key'],
      ] as const) {
        const response = await expectDocumented(gateway, { id, key: wrong }, { status: 401, code })
        expectQuota(response)
        expectLifecycle(response, id)
      }
    }
  })

  it('404 for an animal that is not there', async () => {
    const response = await expectDocumented(
      gateway,
      { id: 'getPet', key, target: '/v1/pets/9007199254740993' },
      { status: 404, code: 'pet_not_found' },
    )
    expectQuota(response)
    expectLifecycle(response, 'getPet')
  })

  it('411, 413 and 415 for bodies', async () => {
    const id = 'createPet'
    const bare = { id, method: 'POST', target: '/v1/pets', key } as const
    const without = await send(gateway, { ...bare, lines: ['Expect: 100-continue'] })
    expect(without.status).toBe(411)
    expect(document.faults(id, without)).toEqual([])
    expectQuota(without)
    const lines = ['Content-Type: text/plain']
    const plain = await send(gateway, { ...bare, lines, body: '{"name":"Rex","categoryId":1}' })
    expect(plain.status).toBe(415)
    expect(document.faults(id, plain)).toEqual([])
    expectQuota(plain)
    for (const each of ids) {
      const { body: _, ...call } = calls[each]
      const large = await send(gateway, { ...call, key, lines: ['Content-Length: 1048577'] })
      expect(large.status).toBe(413)
      expect(document.faults(each, large)).toEqual([])
      expectQuota(large)
    }
  })

  it('414, 431 and 501', async () => {
    for (const id of ids) {
      const target = `${calls[id].target ?? ''}?q=${'x'.repeat(8_300)}`
      const long = { status: 414, code: 'uri_too_long' }
      expectQuota(await expectDocumented(gateway, { id, key, target }, long))
      const many = { status: 431, code: 'headers_too_large' }
      const fields = Array.from({ length: 101 }, (_, at) => `X-Filler-${at}: 1`)
      expectQuota(await expectDocumented(gateway, { id, key, lines: fields }, many))
      const wide = [`X-Filler: ${'x'.repeat(40_000)}`]
      expectQuota(await expectDocumented(gateway, { id, key, lines: wide }, many))
    }
    for (const method of ['TRACE', 'BREW'])
      expectQuota(
        await expectDocumented(
          gateway,
          { id: undefined, method, key },
          { status: 501, code: 'method_not_implemented' },
        ),
      )
  })

  it('404 outside the base path, and 404 and 405 with unmatched: reject', async () => {
    const notFound = { status: 404, code: 'not_found' }
    expectQuota(await expectDocumented(gateway, { id: undefined, key, target: '/v2' }, notFound))
    const strict = await start({ unmatched: 'unmatched: reject' })
    expectQuota(await expectDocumented(strict, { id: undefined, key, target: '/v1/x' }, notFound))
    const response = await expectDocumented(
      strict,
      { id: undefined, key, method: 'DELETE' },
      { status: 405, code: 'method_not_allowed' },
    )
    expect(response.all('allow')).toEqual(['GET, HEAD, POST'])
    expectQuota(response)
  })

  it('408 when the body does not come', async () => {
    const impatient = await start({
      server: 'server: { listen: "127.0.0.1:0", timeouts: { headers: 1s, request: 1s } }',
    })
    const { body: _, ...call } = calls.createPet
    const lines = [...(call.lines ?? []), 'Content-Length: 10']
    const response = await send(impatient, { ...call, key, lines })
    expect(response.status).toBe(408)
    expect(document.faults('createPet', response)).toEqual([])
    expectQuota(response)
  })

  it('429 for quota and for a ban', async () => {
    for (const id of ids) {
      const poor = await start(scarce)
      await minuteWithAtLeast()
      const free = { id, key: keys.free }
      expectQuota(await expectDocumented(poor, free, { status: id === 'createPet' ? 201 : 200 }))
      const over = { status: 429, code: 'rate_limit_exceeded' }
      const refused = await expectDocumented(poor, free, over)
      expectQuota(refused)
      expectLifecycle(refused, id)
      const banned = async (): Promise<string> =>
        (await send(poor, { ...calls[id], key: keys.free })).body.toString()
      await expect.poll(banned).toContain('api_key_banned')
      const ban = await expectDocumented(poor, free, { status: 429, code: 'api_key_banned' })
      expectQuota(ban)
      expectLifecycle(ban, id)
    }
  })

  it('429 for an address without a key', async () => {
    for (const id of ids) {
      const wary = await start({ anonymous: 'anonymous: { perMinute: 1 }' })
      await minuteWithAtLeast()
      await expectDocumented(wary, { id }, { status: 401, code: 'missing_api_key' })
      const over = { status: 429, code: 'rate_limit_exceeded' }
      const response = await expectDocumented(wary, { id, key: 'nobody' }, over)
      expectQuota(response)
      expectLifecycle(response, id)
    }
  })

  it('502 from a backend that is not there, and from one that breaks', async () => {
    const broken = await startRawBackend({ respond: () => 'HTTP/9.9 nonsense\r\n\r\n' })
    const code = 'bad_gateway'
    for (const url of [`http://127.0.0.1:${await freePort()}`, broken.url]) {
      const lost = await start({}, url)
      for (const id of ids) {
        const response = await expectDocumented(lost, { id, key }, { status: 502, code })
        expectQuota(response)
        expectLifecycle(response, id)
      }
    }
    await broken.close()
  })

  it('503 without the quota store, with onOutage: closed', async () => {
    const port = await freePort()
    const store = `store: { redis: "redis://127.0.0.1:${port}", onOutage: closed }`
    const closed = await start({ store })
    for (const id of ids) {
      const refused = { status: 503, code: 'service_unavailable' }
      const response = await expectDocumented(closed, { id, key }, refused)
      expectNoQuota(response)
      expectLifecycle(response, id)
    }
  })

  it('200 and 201 without the quota store, with onOutage: open', async () => {
    const port = await freePort()
    const store = `store: { redis: "redis://127.0.0.1:${port}", onOutage: open }`
    const open = await start({ store })
    for (const id of ids) {
      const status = id === 'createPet' ? 201 : 200
      expectNoQuota(await expectDocumented(open, { id, key }, { status }))
    }
  })

  it('504 from a backend that is too slow', async () => {
    const slow = await startRawBackend({ respond: () => [20_000, answer(200, '[]')] })
    const hasty = await start({
      upstream: `upstream: { urls: [${slow.url}], timeouts: { response: 100ms } }`,
    })
    for (const id of ids) {
      const late = { status: 504, code: 'gateway_timeout' }
      const response = await expectDocumented(hasty, { id, key }, late)
      expectQuota(response)
      expectLifecycle(response, id)
    }
    await slow.close()
  })
})
