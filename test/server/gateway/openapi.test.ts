/** docs/openapi.yaml is sound, says what the service document says, and is what a real gateway and catalogue answer. */
import { describe, expect, it } from 'vitest'
import { gatewayTo, rawBackend } from '../../support/backed.ts'
import { keys, minuteWithAtLeast, sha256, startTestGateway } from '../../support/gateway.ts'
import type { TestGateway } from '../../support/gateway.ts'
import { answer } from '../../support/raw-backend.ts'
import { parseResponses, rawExchange, type ParsedResponse } from '../../support/raw-client.ts'
import { freePort } from '../../support/redis-server.ts'
import { runCatalogue } from '../../tools/catalogue/running-catalogue.ts'
import { openApiDocument, readApiDocument } from './api-document.ts'
import { openApiFaults } from './openapi-form.ts'

const document = readApiDocument()
const ids = ['listPets', 'createPet', 'getPet'] as const
type Id = (typeof ids)[number]

interface Call {
  readonly method?: string
  readonly target?: string
  /** Behind the target. */
  readonly query?: string
  readonly key?: string | undefined
  /** Header lines without line ends. */
  readonly lines?: readonly string[]
  readonly body?: string | undefined
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
  const { method = 'GET', target = '/v1/pets', query = '', key, lines = [], body } = call
  const head = [
    `${method} ${target}${query} HTTP/1.1`,
    'Host: api.example',
    ...(key === undefined ? [] : [`Authorization: Bearer ${key}`]),
    ...(body === undefined ? [] : [`Content-Length: ${Buffer.byteLength(body)}`]),
    ...lines,
  ]
  const bytes = `${head.join('\r\n')}\r\n\r\n${body ?? ''}`
  const { responses, problem } = await rawExchange(gateway.port, bytes, { responses: 1 })
  expect(problem).toBeUndefined()
  const [response] = responses
  if (response === undefined) throw new Error(`no answer to ${head[0]}`)
  return response
}

const quotaFields = [
  'x-ratelimit-limit',
  'x-ratelimit-remaining',
  'x-ratelimit-reset',
  'ratelimit',
  'ratelimit-policy',
]
/** Refused before it is known which operation it is. */
const early = new Set([411, 413, 414, 431, 501])

/** undefined: no operation. Own fields of the call replace those of its sound one. */
type Row = [id: Id | undefined, call: Call, status: number, code?: string | undefined]

/** What is sent as this operation's is answered exactly as the document says of that status. */
async function expectDocumented(
  gateway: TestGateway,
  [id, call, status, code]: Row,
  isQuotaKnown = true,
): Promise<ParsedResponse> {
  const base = id === undefined ? {} : calls[id]
  const response = await send(gateway, { key: keys.enterprise, ...base, ...call })
  const where = `${id ?? 'no operation'} ${status} ${code ?? ''}`
  expect(response.status, where).toBe(status)
  if (code !== undefined)
    expect(JSON.parse(response.body.toString()), where).toMatchObject({ code, status })
  expect(document.faults(id, response), where).toEqual([])
  // What is not known is not told.
  for (const name of quotaFields)
    expect(response.all(name), name).toHaveLength(isQuotaKnown ? 1 : 0)
  if (id !== undefined && !early.has(status) && code !== 'invalid_request')
    for (const name of ['deprecation', 'sunset'])
      expect(response.all(name), name).toHaveLength(id === 'getPet' ? 1 : 0)
  return response
}

describe('the document', () => {
  it('has the operations and required fields of the service', () => {
    expect(
      document.operations.map(({ id, method, path, deprecated }) => [id, method, path, deprecated]),
    ).toEqual([
      ['listPets', 'GET', '/pets', false],
      ['createPet', 'POST', '/pets', false],
      ['getPet', 'GET', '/pets/{petId}', true],
    ])
    for (const [at, expected] of [
      ['schemas/PetStatus/enum', ['available', 'pending', 'sold']],
      ['schemas/NewPet/required', ['name', 'categoryId']],
      ['schemas/Error/required', ['code', 'message', 'status']],
      ['securitySchemes/apiKey/type', 'http'],
      ['securitySchemes/apiKey/scheme', 'bearer'],
    ] as const)
      expect(document.resolve(`#/components/${at}`), at).toEqual(expected)
    expect(document.root['security']).toEqual([{ apiKey: [] }])
  })

  it('has the form of OpenAPI 3.1', () => {
    expect(openApiFaults(document.root)).toEqual([])
    expect(document.exampleFaults()).toEqual([])
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

  it.each<[string, string[], string?]>([
    ['a header that is missing', sound.filter((line) => !line.startsWith('WWW-'))],
    ['a header that is not documented', [...sound, 'X-RateLimit-Burst: 5']],
    ['a header sent twice', [...sound, 'X-RateLimit-Limit: 60']],
    ['a header of the wrong type', changed('X-RateLimit-Limit', 'X-RateLimit-Limit: many')],
    ['a header of the wrong form', changed('RateLimit:', 'RateLimit: limit=60')],
    ['a body of another type', changed('Content-Type', 'Content-Type: text/html')],
    ['a body of the wrong form', sound, '{"code":"x"}'],
  ])('refuses %s', (_, lines, text) => expect(faultsOf(lines, text)).toHaveLength(1))

  it('refuses a status that is not documented, where there is no default', () => {
    const paths = { '/pets': { get: { operationId: 'listPets', responses: {} } } }
    const odd = { status: 418, headers: [], all: () => [], body: Buffer.alloc(0) }
    const faults = openApiDocument({ ...document.root, paths }).faults('listPets', odd)
    expect(faults).toEqual(['status 418: not documented'])
  })
})

describe('the answers of a real gateway in front of a real catalogue are as documented:', async () => {
  const { catalogue } = await runCatalogue({ seed: true })
  const upstreams = [`http://127.0.0.1:${catalogue.address.port}`]
  const gateway = await startTestGateway({
    upstreams,
    blocks: { anonymous: 'anonymous: { perMinute: 100000 }' },
  })
  const { body: _, ...bodiless } = calls.createPet
  const each = (call: Call, status: number, code?: string): Row[] =>
    ids.map((id) => [id, call, status, code])
  const fillers = Array.from({ length: 101 }, (_, at) => `X-Filler-${at}: 1`)

  it.each<Row>([
    ['listPets', {}, 200],
    ['createPet', {}, 201],
    ['getPet', {}, 200],
    ['listPets', { query: '?limit=0' }, 400, 'invalid_parameter'],
    ['listPets', { query: '?status=lost' }, 400, 'invalid_parameter'],
    ['createPet', { body: '{"name":"Rex"}' }, 400, 'invalid_body'],
    ['createPet', { body: '{' }, 400, 'invalid_body'],
    ['getPet', { target: '/v1/pets/abc' }, 400, 'invalid_parameter'],
    // Requests that can be read two ways.
    ...each({ lines: ['Transfer-Encoding: chunked', 'Content-Length: 0'] }, 400, 'invalid_request'),
    ...each({ query: '?a=%zz' }, 400, 'invalid_request'),
    ...each({ key: undefined }, 401, 'missing_api_key'),
    ...each({ key: 'nobody' }, 401, 'invalid_api_key'),
    ...each({ key: keys.expired }, 401, 'invalid_api_key'),
    ['getPet', { target: '/v1/pets/9007199254740993' }, 404, 'pet_not_found'],
    [undefined, { target: '/v2' }, 404, 'not_found'],
    ['createPet', { lines: ['Expect: 100-continue'], body: undefined }, 411],
    ...each({ lines: ['Content-Length: 1048577'], body: undefined }, 413),
    ['createPet', { lines: ['Content-Type: text/plain'] }, 415],
    ...each({ query: `?q=${'x'.repeat(8_300)}` }, 414, 'uri_too_long'),
    ...each({ lines: fillers }, 431, 'headers_too_large'),
    ...each({ lines: [`X-Filler: ${'x'.repeat(40_000)}`] }, 431, 'headers_too_large'),
    [undefined, { method: 'TRACE' }, 501, 'method_not_implemented'],
    [undefined, { method: 'BREW' }, 501, 'method_not_implemented'],
  ])('%s %j: %i %s', async (id, call, status, code) => {
    await expectDocumented(gateway, [id, call, status, code])
  })

  it('200 with a link to the next page', async () => {
    const page = await expectDocumented(gateway, [
      'listPets',
      { query: '?limit=1&status=available' },
      200,
    ])
    expect(page.all('link').join()).toContain('rel="next"')
  })

  it('404 and 405 with unmatched: reject', async () => {
    const strict = await gatewayTo(upstreams, { unmatched: 'unmatched: reject' })
    await expectDocumented(strict, [undefined, { target: '/v1/x' }, 404, 'not_found'])
    const deleting: Row = [undefined, { method: 'DELETE' }, 405, 'method_not_allowed']
    expect((await expectDocumented(strict, deleting)).all('allow')).toEqual(['GET, HEAD, POST'])
  })

  it('408 when the body does not come', async () => {
    const timeouts = 'timeouts: { headers: 300ms, request: 300ms }'
    const impatient = await gatewayTo(upstreams, {
      server: `server: { listen: "127.0.0.1:0", ${timeouts} }`,
    })
    const lines = [...(bodiless.lines ?? []), 'Content-Length: 10']
    await expectDocumented(impatient, ['createPet', { body: undefined, lines }, 408])
  })

  it('429 for quota and for a ban', async () => {
    const poor = await gatewayTo(upstreams, {
      plans: 'plans: { free: { perMinute: 1, perDay: 1000 } }',
      clients: `clients: [${ids.map((id) => `{ id: ${id}, plan: free, keys: [{ id: ${id}-1, sha256: ${sha256(id)} }] }`).join()}]`,
      bans: 'bans: { strikes: 1, grace: 0s }',
    })
    for (const id of ids) {
      await minuteWithAtLeast()
      await expectDocumented(poor, [id, { key: id }, id === 'createPet' ? 201 : 200])
      await expectDocumented(poor, [id, { key: id }, 429, 'rate_limit_exceeded'])
      const banned = async () => (await send(poor, { ...calls[id], key: id })).body.toString()
      await expect.poll(banned).toContain('api_key_banned')
      await expectDocumented(poor, [id, { key: id }, 429, 'api_key_banned'])
    }
  })

  it('429 for an address without a key', async () => {
    const wary = await gatewayTo(upstreams, { anonymous: 'anonymous: { perMinute: 1 }' })
    await minuteWithAtLeast()
    await expectDocumented(wary, ['listPets', { key: undefined }, 401, 'missing_api_key'])
    for (const row of each({ key: 'nobody' }, 429, 'rate_limit_exceeded'))
      await expectDocumented(wary, row)
  })

  it('502 from a backend that is not there, and from one that breaks', async () => {
    const broken = await rawBackend({ respond: () => 'HTTP/9.9 nonsense\r\n\r\n' })
    for (const url of [`http://127.0.0.1:${await freePort()}`, broken.url]) {
      const lost = await gatewayTo([url])
      for (const row of each({}, 502, 'bad_gateway')) await expectDocumented(lost, row)
    }
  })

  it.each([
    ['closed', each({}, 503, 'service_unavailable')],
    ['open', ids.map((id): Row => [id, {}, id === 'createPet' ? 201 : 200])],
  ])('what goes without the quota store, with onOutage: %s', async (onOutage, rows) => {
    const store = `store: { redis: "redis://127.0.0.1:${await freePort()}", onOutage: ${onOutage} }`
    const without = await gatewayTo(upstreams, { store })
    for (const row of rows) await expectDocumented(without, row, false)
  })

  it('504 from a backend that is too slow', async () => {
    const slow = await rawBackend({ respond: () => [20_000, answer(200, '[]')] })
    const hasty = await gatewayTo([], {
      upstream: `upstream: { urls: [${slow.url}], timeouts: { response: 100ms } }`,
    })
    for (const row of each({}, 504, 'gateway_timeout')) await expectDocumented(hasty, row)
  })
})
