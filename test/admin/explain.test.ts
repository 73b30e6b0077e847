/** What a running gateway says of a request: by what it knows, without that anything changes. All answers are held against docs/admin-openapi.yaml. */
import { describe, expect, it } from 'vitest'
import type { ExplainAnswer, Explanation } from '../../src/insight/api/explain.ts'
import { askAdmin } from '../support/admin-client.ts'
import { gatewayTo, startBacked } from '../support/backed.ts'
import { configText, keys, minuteWithAtLeast, sha256 } from '../support/gateway.ts'

const client = (id: string) =>
  `  - { id: ${id}, plan: tiny, keys: [{ id: ${id}-1, sha256: "${sha256(`tg_${id}`)}" }] }`

const blocks = {
  server: 'server: { listen: "127.0.0.1:0", trustedProxies: ["127.0.0.1"] }',
  anonymous: 'anonymous: { perMinute: 3 }',
  unmatched: 'unmatched: reject',
  plans: 'plans: { tiny: { perMinute: 3, perDay: 5 } }',
  clients: `clients:\n${[client('acme'), client('zeta')].join('\n')}`,
  routes: 'routes: [{ name: listPets, match: GET /pets }]',
}
const changed = { ...blocks, anonymous: 'anonymous: { perMinute: 4 }' }
const { backend, gateway } = await startBacked({
  blocks,
  reload: () => configText({ upstreams: [backend.url], blocks: changed }),
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
  const bearerX = { authorization: 'Bearer x' }
  const faulty = 'invalid_request'
  it.each<[string, unknown, string, RegExp]>([
    ['nothing', undefined, faulty, /requestId.*method/],
    ['an unknown name', { ...get, key: 'acme-1' }, faulty, /keyId/],
    ['both', { ...get, requestId: 'x' }, faulty, /stands alone/],
    ['an id that is none', { requestId: 7 }, faulty, /"requestId" is/],
    ['a method that is none', { ...get, method: 'G T' }, faulty, /"method"/],
    ['a target of two lines', { ...get, target: '/a\r\nB: c' }, faulty, /"target"/],
    ['two credentials', { ...get, keyId: 'a', token: 'b' }, faulty, /one of them/],
    ['a header of two lines', { ...get, headers: { a: 'b\nc' } }, faulty, /"headers"/],
    ['a header twice', { ...get, headers: { a: '1', A: '2' } }, faulty, /once/],
    ['a token besides', { ...get, keyId: 'acme-1', headers: bearerX }, faulty, /twice/],
    ['an unknown key', { ...get, keyId: 'nobody-1' }, 'unknown_key', /key of this id/],
    ['an unknown request', { requestId: 'x-1' }, 'unknown_request', /--log FILE --config FILE/],
  ])('says what is wrong with %s', async (_, body, code, message) => {
    const answer = await ask('POST /api/explain', body)
    expect(answer.coded).toEqual([code === faulty ? 400 : 404, code])
    expect(answer.body['message']).toMatch(message)
  })

  it('knows what was used, in both windows, and charges nobody however often it is asked', async () => {
    await minuteWithAtLeast()
    const query = { ...get, keyId: 'zeta-1' }
    // As it would stand after it.
    const fresh = numbersOf(await explained(query), 'take-quota')
    expect(fresh).toMatchObject({ minuteUsed: 1, dayUsed: 1 })
    for (let n = 0; n < 3; n++) {
      expect(await explained(query)).toMatchObject({ code: null, charged: true, assumed: null })
      expect(await gateway.status('/v1/pets', { key: 'tg_zeta' })).toBe(200)
    }
    const refused = await explained({ ...get, token: 'tg_zeta' })
    const { header } = await gateway.ask('/v1/pets', { key: 'tg_zeta' })
    expect(refused).toMatchObject({
      status: 429,
      code: 'rate_limit_exceeded',
      window: 'minute',
      client: 'zeta',
      key: 'zeta-1',
      decidedBy: 'take-quota',
      charged: false,
    })
    const waits = Number(header('retry-after'))
    expect([waits, waits + 1]).toContain(refused.retryAfterSeconds)
    // The same request, by its id.
    const id = header('x-request-id')
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
    const id = (await gateway.ask('/v1/pets', { key: 'tg_acme' })).header('x-request-id')
    const then = { code: 'api_key_banned', recorded: [] }
    expect(await explained({ requestId: id })).toMatchObject(then)
    await ask('DELETE /api/bans/acme-1')
    const lifted = await explained({ requestId: id })
    expect(lifted.recorded.join()).toMatch(/answered 429 api_key_banned/)
  })

  it('says beside what does not follow from the rules, and from which revision they are', async () => {
    const id = (await gateway.ask('/v1/pets', { key: 'tg_acme' })).header('x-request-id')
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
    for (let n = 0; n < 2; n++) await gateway.status('/v1/pets', { headers })
    const answer = await askPatiently({ requestId: 'proxy-1' })
    expect(answer.coded).toEqual([409, 'several_requests'])
  })

  it('tells a charge that was handed back', async () => {
    const away = await gatewayTo(['http://127.0.0.1:1'])
    const { header } = await away.ask('/v1/pets', { key: keys.free })
    const origin = `http://127.0.0.1:${away.adminPort}`
    const requestId = header('x-request-id')
    const { body } = await askAdmin(origin, 'POST /api/explain', { requestId })
    expect((body as unknown as ExplainAnswer).explanation).toMatchObject({
      charged: false,
      recorded: [expect.stringContaining('handed back'), expect.stringContaining('answered 502')],
    })
  })

  it('writes no line, and no word of a token', async () => {
    const before = gateway.logLines().length
    await explained({ ...get, token: 'tg_secret_token' })
    expect(gateway.logLines().slice(before)).toEqual([])
  })

  it('does so much in a second and no more, whoever asks, and stands aside for callers', async () => {
    const statuses = new Set<number>()
    const one = async () =>
      statuses.add((await ask('POST /api/explain', { ...get, keyId: 'acme-1' })).status)
    while (statuses.size < 2) await Promise.all(Array.from({ length: 50 }, one))
    expect(statuses).toEqual(new Set([200, 429]))
  })
})
