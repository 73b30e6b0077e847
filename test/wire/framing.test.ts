/** One request is one request, for us and for the backend: what two readers could frame differently never reaches a backend. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { expectOnlyRefusal, expectRefusal, keys, request, withWire } from './wire.ts'

const SMUGGLED = request('GET', '/v1/pets/smuggled')
/** A method on a path without it is forwarded as unmatched. */
const FORWARD = { unmatched: 'unmatched: forward' }
const CHUNKED = 'Transfer-Encoding: chunked'
const get = (...fields: string[]): string => request('GET', '/v1/pets', { fields })
const post = (...fields: string[]): string => request('POST', '/v1/pets', { fields })
/** With what is an empty body to a reader of chunks. */
const chunks = (...fields: string[]): string => `${post(...fields)}0\r\n\r\n`

const invalid = [400, 'invalid_request'] as const
const ambiguous: [what: string, bytes: string][] = [
  ['both Content-Length and Transfer-Encoding', chunks('Content-Length: 6', CHUNKED)],
  ['Transfer-Encoding before Content-Length', chunks(CHUNKED, 'Content-Length: 5')],
  ['two Content-Length fields', post('Content-Length: 0', 'Content-Length: 5')],
  ['the same Content-Length twice', post('Content-Length: 0', 'Content-Length: 0')],
  ['a list of lengths', post('Content-Length: 0, 0')],
  ['a signed length', post('Content-Length: +0')],
  ['a negative length', post('Content-Length: -1')],
  ['a hexadecimal length', post('Content-Length: 0x0')],
  ['an empty length', post('Content-Length:')],
  ['a length beyond all numbers', post('Content-Length: 18446744073709551616')],
  ['a coding list that ends in chunked', chunks('Transfer-Encoding: gzip, chunked')],
  ['a coding list that does not end in chunked', chunks('Transfer-Encoding: chunked, identity')],
  ['the identity coding', post('Transfer-Encoding: identity')],
  ['chunked twice', chunks(CHUNKED, CHUNKED)],
  ['a tab before the coding', chunks('Transfer-Encoding:\x0bchunked')],
  ['a quoted coding', chunks('Transfer-Encoding: "chunked"')],
  ['a coding with a parameter', chunks('Transfer-Encoding: chunked;q=1')],
  ['Transfer-Encoding in HTTP/1.0', chunks(CHUNKED).replace('HTTP/1.1', 'HTTP/1.0')],
  ['a look-alike of Transfer-Encoding', chunks('Content-Length: 5', 'Transfer_Encoding: chunked')],
  ['a look-alike of Content-Length', post('Content_Length: 5', 'Content-Length: 0')],
  ['a space before the colon', chunks('Content-Length: 5', 'Transfer-Encoding : chunked')],
  ['a folded field', get('X-One: a', ' b')],
  ['a folded Transfer-Encoding', chunks('Transfer-Encoding:', ' chunked')],
  ['no Host', request('GET', '/v1/pets', { host: null })],
  ['no Host in HTTP/1.0', request('GET', '/v1/pets', { host: null, version: '1.0' })],
  ['two Hosts', get('Host: api.example')],
  ['an empty Host', request('GET', '/v1/pets', { host: '' })],
  ['a Host with a list', request('GET', '/v1/pets', { host: 'a.example, b.example' })],
  ['a Host with a path', request('GET', '/v1/pets', { host: 'a.example/evil' })],
  ['a Host with a user', request('GET', '/v1/pets', { host: 'user@a.example' })],
  [
    'a look-alike of Host',
    request('GET', '/v1/pets', { host: null, fields: ['Host : a.example'] }),
  ],
  ['a NUL in a field', get('X-One: a\0b')],
  ['a control byte in a field', get('X-One: a\x01b')],
  ['a DEL in a field', get('X-One: a\x7fb')],
  ['a bare CR in a field', get('X-One: a\rb')],
  ['a bare LF as line end', get().replaceAll('\r\n', '\n')],
  ['a field without a colon', get('X-One')],
  ['a field without a name', get(': one')],
  ['a field name with a bracket', get('X(One): a')],
  ['a field name beyond ASCII', get('X-\xe9: a')],
  ['HTTP/1.2', get().replace('HTTP/1.1', 'HTTP/1.2')],
  ['HTTP/2.0 by text', get().replace('HTTP/1.1', 'HTTP/2.0')],
  ['HTTP/0.9', `GET /v1/pets\r\n`],
  ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['a TLS hello', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
  ['no protocol at all', 'EHLO api.example\r\n'],
]

describe('a request that two parsers could frame differently', () => {
  it.each(ambiguous)('is refused with 400 and closed: %s', (_, bytes) =>
    withWire({}, async (wire) => void (await expectOnlyRefusal(wire, bytes + SMUGGLED, invalid))),
  )

  it('serves nothing of what follows in later packets either', () =>
    withWire({}, async ({ connect, served, charged, settled, accessLines }) => {
      const client = await connect()
      client.send(get('Host: api.example'))
      await client.waitForResponses(1)
      for (let packet = 0; packet < 5; packet++) {
        client.send(SMUGGLED)
        await sleep(5)
      }
      const { responses } = await client.waitFor(({ closed }) => closed)
      await settled()
      expect([responses.length, served(), await charged()]).toEqual([1, [], 0])
      expect(await accessLines(1)).toHaveLength(1)
    }))

  it('is answered even when the client has much of its body under way', () =>
    withWire({}, async ({ exchange, served }) => {
      const { responses } = await exchange(
        post('Content-Length: 900000', CHUNKED) + 'x'.repeat(900_000),
      )
      expectRefusal(responses[0], 400, { code: 'invalid_request', closes: true })
      expect([responses.length, served()]).toEqual([1, []])
    }))
})

/** What each engine makes of framings is in test/contract. */
describe('a body', () => {
  it.each(['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'GET', 'HEAD'])(
    'reaches the backend as that of its %s, chunked or of a length, and the connection goes on behind it',
    (method) =>
      withWire({ blocks: FORWARD }, async ({ connect, backend, charged, served }) => {
        const target = method === 'POST' || method === 'HEAD' ? '/v1/pets' : '/v1/pets/1'
        const client = await connect()
        const inner = request('GET', '/v1/pets/inner')
        for (const [fields, body] of [
          [[CHUNKED], '3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n'],
          [[`Content-Length: ${inner.length}`], inner],
        ] as const) {
          client.send(request(method, target, { fields, body }))
          client.send(request('GET', '/v1/pets/after'))
        }
        await backend.waitFor(() => backend.requests.length === 4, 'the requests')
        const own = backend.requests.filter(({ target: one }) => one === target)
        const seen = own.map(({ framing, body }) => [framing, body.toString()])
        expect(seen).toHaveLength(2)
        expect(seen).toEqual(
          expect.arrayContaining([
            ['chunked', 'abcdefg'],
            ['length', inner],
          ]),
        )
        const once = [`${method} ${target}`, 'GET /v1/pets/after']
        expect(served().sort()).toEqual([...once, ...once].sort())
        expect(await charged()).toBe(4)
      }),
  )

  it('loses chunk extensions and trailer fields on the way', () =>
    withWire({}, async ({ ask, backend }) => {
      const body = '3;name=value\r\nabc\r\n0\r\nX-Client-Id: evil\r\n\r\n'
      expect((await ask(post(CHUNKED, 'Trailer: X-Client-Id') + body)).status).toBe(200)
      expect(backend.requests[0]?.body.toString()).toBe('abc')
      expect(backend.connections[0]?.raw().includes('evil')).toBe(false)
      expect(backend.requests[0]?.header('trailer')).toBeUndefined()
    }))

  it.each([
    ['a chunk longer than its size', '3\r\nabcdef\r\n0\r\n\r\n'],
    ['a negative chunk size', '-3\r\nabc\r\n0\r\n\r\n'],
    ['a chunk size with a prefix', '0x3\r\nabc\r\n0\r\n\r\n'],
    ['a chunk size that overflows', '10000000000000003\r\nabc\r\n0\r\n\r\n'],
    ['a bare LF after the size', '3\nabc\r\n0\r\n\r\n'],
    ['an empty chunk size', '\r\nabc\r\n0\r\n\r\n'],
  ])('is never passed on as whole with %s, and its charge is handed back', (_, body) =>
    withWire({ requestsMayBreakOff: true }, async (wire) => {
      await expectOnlyRefusal(wire, post(CHUNKED) + body + SMUGGLED, invalid)
    }),
  )

  it('is not charged to anyone else who uses the connection', () =>
    withWire({}, async ({ exchange, charged, backend }) => {
      await exchange(
        `${post('Content-Length: 2')}{}` +
          request('GET', '/v1/pets', { key: keys.business, fields: ['Connection: close'] }),
      )
      const clients = backend.requests.map((each) => each.header('x-client-id'))
      expect(new Set(clients)).toEqual(new Set(['business-client', 'pro-client']))
      expect(await charged()).toBe(1)
    }))
})
