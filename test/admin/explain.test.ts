/** What a running gateway says of a request: by what it knows, without that anything changes. All answers are held against docs/admin-openapi.yaml. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { ExplainAnswer, Explanation } from '../../src/api/explain.ts'
import { explainedLines } from '../../src/operator/explained-text.ts'
import { askAdmin } from '../support/admin-client.ts'
import {
  configText,
  keys,
  minuteWithAtLeast,
  sha256,
  startTestGateway,
  type TestGateway,
} from '../support/gateway.ts'
import { startRawBackend, type RawBackend } from '../support/raw-backend.ts'

let backend: RawBackend
let gateway: TestGateway
const client = (id: string, expires = '') =>
  `  - { id: ${id}, plan: tiny, keys: [{ id: ${id}-1, sha256: "${sha256(`tg_${id}`)}"${expires} }] }`

beforeAll(async () => {
  backend = await startRawBackend()
  const options = {
    upstreams: [backend.url],
    blocks: {
      server: 'server: { listen: "127.0.0.1:0", trustedProxies: ["127.0.0.1"] }',
      anonymous: 'anonymous: { perMinute: 3 }',
      unmatched: 'unmatched: reject',
      plans: 'plans: { tiny: { perMinute: 3, perDay: 5 } }',
      clients: `clients:\n${[client('acme'), client('zeta'), client('late', ', expires: 2020-01-01')].join('\n')}`,
      routes: `routes:
  - { name: listPets, match: GET /pets }
  - { name: gone, match: GET /gone, deprecated: { since: 2020-01-01, sunset: 2021-01-01, afterSunset: gone } }`,
    },
  }
  const changed = { ...options.blocks, anonymous: 'anonymous: { perMinute: 4 }' }
  gateway = await startTestGateway({
    ...options,
    reload: () => configText({ ...options, blocks: changed }),
  })
})
afterAll(async () => {
  await gateway.stop()
  await backend.close()
})

const ask = (call: string, body?: unknown) =>
  askAdmin(`http://127.0.0.1:${gateway.adminPort}`, call, body)
/** As operators do who are told that they ask too often. */
const askPatiently = async (query: object): ReturnType<typeof ask> => {
  for (;;) {
    const answer = await ask('POST /api/explain', query)
    if (answer.status !== 429) return answer
    await new Promise((resolve) => setTimeout(resolve, 500))
  }
}
const explained = async (query: object): Promise<Explanation> =>
  ((await askPatiently(query)).body as unknown as ExplainAnswer).explanation
const numbersOf = ({ stages }: Explanation, name: string) =>
  stages.find(({ stage }) => stage === name)?.numbers

describe('POST /api/explain', () => {
  const get = { method: 'GET', target: '/v1/pets' }
  it.each<[string, unknown, readonly [number, string], RegExp]>([
    ['nothing', undefined, [400, 'invalid_request'], /requestId.*method/],
    ['no object', [], [400, 'invalid_request'], /requestId/],
    ['an unknown name', { ...get, key: 'acme-1' }, [400, 'invalid_request'], /keyId/],
    ['both', { ...get, requestId: 'x' }, [400, 'invalid_request'], /stands alone/],
    ['an id that is none', { requestId: 7 }, [400, 'invalid_request'], /"requestId" is/],
    ['no method', { target: '/' }, [400, 'invalid_request'], /"method"/],
    ['a method that is none', { ...get, method: 'G T' }, [400, 'invalid_request'], /"method"/],
    [
      'a target of two lines',
      { ...get, target: '/a\r\nB: c' },
      [400, 'invalid_request'],
      /"target"/,
    ],
    [
      'two credentials',
      { ...get, keyId: 'a', token: 'b' },
      [400, 'invalid_request'],
      /one of them/,
    ],
    ['a token of two lines', { ...get, token: 'a\nb' }, [400, 'invalid_request'], /"token"/],
    [
      'a header of two lines',
      { ...get, headers: { a: 'b\nc' } },
      [400, 'invalid_request'],
      /"headers"/,
    ],
    ['a header twice', { ...get, headers: { a: '1', A: '2' } }, [400, 'invalid_request'], /once/],
    [
      'a token besides',
      { ...get, keyId: 'acme-1', headers: { authorization: 'Bearer x' } },
      [400, 'invalid_request'],
      /twice/,
    ],
    ['an unknown key', { ...get, keyId: 'nobody-1' }, [404, 'unknown_key'], /key of this id/],
    [
      'an unknown request',
      { requestId: 'x-1' },
      [404, 'unknown_request'],
      /--log FILE --config FILE/,
    ],
  ])('says what is wrong with %s', async (_, body, coded, message) => {
    const answer = await ask('POST /api/explain', body)
    expect(answer.coded).toEqual(coded)
    expect(answer.body['message']).toMatch(message)
  })

  it.each<
    [
      string,
      object,
      { method?: string; path?: string; key?: string; headers?: Record<string, string> },
    ]
  >([
    ['an unknown key', { token: 'tg_nobody' }, { key: 'tg_nobody' }],
    ['no key', {}, {}],
    [
      'no Bearer',
      { headers: { authorization: 'tg_acme' } },
      { headers: { authorization: 'tg_acme' } },
    ],
    ['an expired key', { keyId: 'late-1' }, { key: 'tg_late' }],
    [
      'an unknown path',
      { target: '/v1/none', keyId: 'acme-1' },
      { path: '/v1/none', key: 'tg_acme' },
    ],
    ['another method', { method: 'PUT', keyId: 'acme-1' }, { method: 'PUT', key: 'tg_acme' }],
    [
      'a route that is gone',
      { target: '/v1/gone', keyId: 'acme-1' },
      { path: '/v1/gone', key: 'tg_acme' },
    ],
    ['a path that is outside', { target: '/pets' }, { path: '/pets' }],
    ['a request that is let through', { keyId: 'acme-1' }, { key: 'tg_acme' }],
  ])('foretells the answer: %s', async (_, query, { path = '/v1/pets', ...init }) => {
    const explanation = await explained({ ...get, ...query })
    // Another address each time, whose minute is new.
    const headers = { ...init.headers, 'x-forwarded-for': `192.0.2.${++addresses}` }
    const response = await gateway.fetch(path, { ...init, headers })
    const { code = null } = (await response.json().catch(() => ({}))) as { code?: string }
    expect(explanation).toMatchObject({ code, status: code === null ? null : response.status })
    expect(explanation.stages.find(({ stage }) => stage === explanation.decidedBy)?.verdict).toBe(
      code === null ? 'sent' : 'refuse',
    )
  })
  let addresses = 0

  it('knows what was used, in both windows, and charges nobody however often it is asked', async () => {
    await minuteWithAtLeast(15_000)
    const query = { ...get, keyId: 'zeta-1' }
    // As it would stand after it.
    expect(numbersOf(await explained(query), 'take-quota')).toMatchObject({
      minuteUsed: 1,
      dayUsed: 1,
    })
    for (let n = 0; n < 3; n++) {
      expect(await explained(query)).toMatchObject({ code: null, charged: true, assumed: null })
      expect((await gateway.fetch('/v1/pets', { key: 'tg_zeta' })).status).toBe(200)
    }
    const refused = await explained({ ...get, token: 'tg_zeta' })
    const response = await gateway.fetch('/v1/pets', { key: 'tg_zeta' })
    expect(refused).toMatchObject({
      status: 429,
      code: 'rate_limit_exceeded',
      window: 'minute',
      client: 'zeta',
      key: 'zeta-1',
      decidedBy: 'take-quota',
      charged: false,
    })
    const waits = Number(response.headers.get('retry-after'))
    expect([waits, waits + 1]).toContain(refused.retryAfterSeconds)
    // The same request, by its id.
    const id = response.headers.get('x-request-id')
    const past = await explained({ requestId: id })
    expect(past).toMatchObject({
      ...refused,
      at: past.at,
      retryAfterSeconds: waits,
      stages: expect.any(Array),
      change: expect.any(Array),
    })
    expect(past.recorded).toEqual([])
  })

  it('knows a ban, and of a request that was banned it knows the ban of that time', async () => {
    await ask('PUT /api/bans/acme-1', { for: '1h', reason: 'abuse' })
    const banned = await explained({ ...get, keyId: 'acme-1' })
    expect(banned).toMatchObject({ code: 'api_key_banned', decidedBy: 'check-ban' })
    const answer = await gateway.fetch('/v1/pets', { key: 'tg_acme' })
    const id = answer.headers.get('x-request-id')
    expect(await explained({ requestId: id })).toMatchObject({
      code: 'api_key_banned',
      recorded: [],
    })
    await ask('DELETE /api/bans/acme-1')
    const lifted = await explained({ requestId: id })
    expect(lifted.recorded.join()).toMatch(/answered 429 api_key_banned/)
  })

  it('says beside what does not follow from the rules, and from which revision they are', async () => {
    const answer = await gateway.fetch('/v1/pets', { key: 'tg_acme' })
    await answer.text()
    const id = answer.headers.get('x-request-id')
    const past = await explained({ requestId: id })
    expect(past).toMatchObject({ status: 200, code: null, backend: backend.url })
    expect(past.recorded.join()).toMatch(
      /^answered 200, from http:.*127\.0\.0\.1:\d+ after [\d.]+ ms$/,
    )
    await ask('POST /api/reload', {})
    expect((await explained({ requestId: id })).recorded.join()).toMatch(
      /^decided under revision \w+, explained by \w+,answered 200/,
    )
  })

  it('tells several requests of one id, and explains none of them', async () => {
    const headers = { 'x-request-id': 'proxy-1' }
    for (let n = 0; n < 2; n++) await gateway.fetch('/v1/pets', { headers })
    const answer = await askPatiently({ requestId: 'proxy-1' })
    expect(answer.coded).toEqual([409, 'several_requests'])
  })

  it('tells a charge that was handed back, in numbers and in words', async () => {
    const away = await startTestGateway({ upstreams: ['http://127.0.0.1:1'] })
    const answer = await away.fetch('/v1/pets', { key: keys.free })
    expect(answer.status).toBe(502)
    const query = { requestId: answer.headers.get('x-request-id') }
    const { body } = await askAdmin(
      `http://127.0.0.1:${away.adminPort}`,
      'POST /api/explain',
      query,
    )
    const { explanation } = body as unknown as ExplainAnswer
    expect(explanation).toMatchObject({
      charged: false,
      recorded: [expect.stringContaining('handed back'), expect.stringContaining('answered 502')],
    })
    expect(explainedLines(explanation, 80, Date.now()).join('\n')).toMatch(/Charged: +no\./)
    await away.stop()
  })

  it('writes no line, and no word of a token', async () => {
    const before = gateway.logLines().length
    await explained({ ...get, token: 'tg_secret_token' })
    expect(gateway.logLines().slice(before)).toEqual([])
  })

  it('does so much in a second and no more, whoever asks, and stands aside for callers', async () => {
    const asked = await Promise.all(
      Array.from({ length: 400 }, () => ask('POST /api/explain', { ...get, keyId: 'acme-1' })),
    )
    const codes = new Set(asked.map(({ status }) => status))
    expect(codes).toEqual(new Set([200, 429]))
  })
})
