/** The path that is routed, counted, logged and forwarded is one and the same string; what has two readings is refused. */
import { describe, expect, it } from 'vitest'
import { expectGatewayFields, expectOnlyRefusal, request, openWire } from './wire.ts'

const SMUGGLED = request('GET', '/v1/pets/smuggled')
const FORWARD = { unmatched: 'unmatched: forward' }

const refused = [
  ['/v1/pets/%2e%2e/admin', '/v1/pets/%2E%2E/admin', '/v1/pets/../admin', '/v1/pets/..'],
  ['/v1/pets/./1', '/v1/pets/.', '/v1/pets/.%2e/1', '/v1/pets/..;/admin', '/v1/pets/..%3bx/admin'],
  ['/v1/pets/%252e%252e/admin', '/v1//pets', '//v1/pets', '/v1/pets//', '/v1/pets/a%2fb'],
  ['/v1/pets/a%2Fb', '/v1/pets/a%5cb', '/v1/pets/a\\b', '/v1/pets/a%00b', '/v1/pets/%7f'],
  ['/v1/pets/a%0d%0aX-Client-Id:%20evil', '/v1/pets/%', '/v1/pets/%2', '/v1/pets/%zz'],
  ['/v1/pets/%u0041', '/v1/%70ets', '/v1/pets/%c0%ae%c0%ae/admin', '/v1/pets/%ff'],
  ['/v1/pets#fragment', '/v1/pets?a#fragment', '/v1/pets?a=%', '/v1/pets?a=%g1'],
  ['/v1/pets/"quoted"', '/v1/pets/<tag>', '/v1/pets/\xe9', '/v1/pets?a=\xe9', 'v1/pets', '?a=b'],
  ['http://[', 'https://api.example/v1/pets', 'http://api.example:8080/v1/pets'],
  ['http://api.example/v1/pets/%2e%2e/admin', 'http://evil.example/v1/pets'],
  ['https://user:word@api.example/v1/pets', 'api.example:80', 'file:///etc/passwd'],
].flat()

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
    expect(lines.map(({ path }) => path)).toEqual(taken.map((target) => target.split('?')[0]))
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

  it('is routed by the same string', async () => {
    const { ask, accessLines, gateway } = await openWire({ blocks: FORWARD })
    const before = await gateway.metric(ofRoute('unmatched'))
    for (const target of ['/v1/pets', '/v1/pets?x=/v1/live', '/v1/pets/', '/v1/PETS'])
      await ask(request('GET', target))
    const lines = await accessLines(4)
    const routes = ['listPets', 'listPets', 'unmatched', 'unmatched']
    expect(lines.map(({ route }) => route)).toEqual(routes)
    expect(await gateway.metric(ofRoute('listPets'))).toBe(2)
    expect((await gateway.metric(ofRoute('unmatched'))) - before).toBe(2)
  })
})
const ofRoute = (route: string): string =>
  `tollgate_requests_total{route="${route}",plan="pro",method="GET",status="2xx"}`

describe('what lies outside the base path', () => {
  it('goes to the backend as it is when the base path is /', async () => {
    const { ask, served } = await openWire({
      blocks: FORWARD,
      server: 'basePath: /',
    })
    await ask(request('GET', '/anything?x'))
    expect(served()).toEqual(['GET /anything?x'])
  })
})
