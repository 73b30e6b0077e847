/** The path that is routed, counted, logged and forwarded is one and the same string; what has two readings is refused. */
import { describe, expect, it } from 'vitest'
import { expectGatewayFields, expectOnlyRefusal, request, openWire } from './wire.ts'

const SMUGGLED = request('GET', '/v1/pets/smuggled')
const FORWARD = { unmatched: 'unmatched: forward' }

/** What the rule refuses is in test/core/rules/target.test.ts; the parser has its own mind about some of it. */
const refused = [
  '/v1/pets/%2e%2e/admin',
  '/v1/pets#fragment',
  '/v1/pets/\xe9',
  'v1/pets',
  '?a=b',
].concat(
  'http://evil.example/v1/pets',
  'https://user:word@api.example/v1/pets',
  'api.example:80',
  'http://[',
)

describe('a target with more than one reading', () => {
  it.each(refused)('is refused with 400, with all that follows it: %s', async (target) => {
    const wire = await openWire({ blocks: FORWARD })
    const bytes = request('GET', target) + SMUGGLED
    await expectOnlyRefusal(wire, bytes, [400, 'invalid_request'])
  })

  it('is logged without its query and without control bytes', async () => {
    const { exchange, accessLines } = await openWire()
    await exchange(request('GET', '/v1/pets/%2e%2e?secret=1'))
    await exchange(request('GET', 'http://user:secret@api.example/v1/pets?secret'))
    await exchange(request('CONNECT', 'user:secret@api.example:443'))
    const lines = await accessLines(3)
    expect(lines).toMatchObject([
      { status: 400, refusal: 'invalid_request', target: '/v1/pets/%2e%2e' },
      { status: 400, refusal: 'invalid_request', target: 'http://api.example/v1/pets' },
      { status: 501, refusal: 'method_not_implemented', target: 'api.example:443' },
    ])
    expect(JSON.stringify(lines)).not.toContain('secret')
  })
})

const taken = [
  ['/v1/pets', '/v1/pets?', '/v1/pets?status=available&limit=10'],
  ['/v1/pets?next=http://a.example/../b&x=//y/./z', '/v1/pets?a=%2e%2e%2f%00'],
  ['/v1/pets?filter[status]=a|b&c={d}^`', '/v1/pets/1', '/v1/pets/a%20b', '/v1/pets/caf%C3%A9'],
  ['/v1/pets/caf%c3%a9', "/v1/pets/!$&'()*+,;=:@-._~", '/v1/pets/...', '/v1/pets/a;b=c'],
  ['/v1/pets/__proto__', '/v1/pets/'],
].flat()

describe('a sound target', () => {
  it('reaches the backend byte for byte, and is logged without its query', async () => {
    const { ask, backend, accessLines } = await openWire({ blocks: FORWARD })
    for (const target of taken) {
      const got = await ask(request('GET', target))
      expect(got.status, target).toBe(200)
      expectGatewayFields(got)
    }
    expect(backend.requests.map(({ target }) => target)).toEqual(taken)
    const lines = await accessLines(taken.length)
    const paths = taken.map((target) => target.split('?')[0])
    expect(lines.map(({ path }) => path)).toEqual(paths)
    const routes = paths.map((path) =>
      path === '/v1/pets' ? 'listPets' : path === '/v1/pets/' ? 'unmatched' : 'getPet',
    )
    expect(lines.map(({ route }) => route)).toEqual(routes)
  })

  it('in absolute form reaches it in origin form', async () => {
    const { ask, backend, accessLines, charged } = await openWire()
    const target = 'HTTP://API.example:80/v1/pets/7?a=http://b/..'
    expect((await ask(request('GET', target))).status).toBe(200)
    expect(backend.requests).toMatchObject([{ target: '/v1/pets/7?a=http://b/..' }])
    expect(backend.requests[0]?.all('host')).toEqual(['api.example'])
    expect(await accessLines(1)).toMatchObject([{ route: 'getPet', path: '/v1/pets/7' }])
    expect(await charged()).toBe(1)
  })
})
