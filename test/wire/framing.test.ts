/** Ambiguous framing never reaches the backend, costs nothing, and ends the connection with all that follows on it. */
import { describe, expect, it } from 'vitest'
import { engines, expectRefusal, keys, request, withWire } from './wire.ts'

const SMUGGLED = request('GET', '/v1/pets/smuggled')
// No route is for OPTIONS: it is forwarded as unmatched.
const FORWARD = { unmatched: 'unmatched: forward' }
const CHUNKED = 'Transfer-Encoding: chunked'

const ambiguous: Record<string, string> = {
  'both Content-Length and Transfer-Encoding': request('POST', '/v1/pets', {
    fields: ['Content-Length: 6', CHUNKED],
    body: `0\r\n\r\n`,
  }),
  'Transfer-Encoding before Content-Length': request('POST', '/v1/pets', {
    fields: [CHUNKED, 'Content-Length: 5'],
    body: `0\r\n\r\n`,
  }),
  'two Content-Length fields': request('POST', '/v1/pets', {
    fields: ['Content-Length: 0', 'Content-Length: 5'],
  }),
  'the same Content-Length twice': request('POST', '/v1/pets', {
    fields: ['Content-Length: 0', 'Content-Length: 0'],
  }),
  'a list of lengths': request('POST', '/v1/pets', { fields: ['Content-Length: 0, 0'] }),
  'a signed length': request('POST', '/v1/pets', { fields: ['Content-Length: +0'] }),
  'a negative length': request('POST', '/v1/pets', { fields: ['Content-Length: -1'] }),
  'a hexadecimal length': request('POST', '/v1/pets', { fields: ['Content-Length: 0x0'] }),
  'an empty length': request('POST', '/v1/pets', { fields: ['Content-Length:'] }),
  'a length beyond all numbers': request('POST', '/v1/pets', {
    fields: ['Content-Length: 18446744073709551616'],
  }),
  'a coding list that ends in chunked': request('POST', '/v1/pets', {
    fields: ['Transfer-Encoding: gzip, chunked'],
    body: '0\r\n\r\n',
  }),
  'a coding list that does not end in chunked': request('POST', '/v1/pets', {
    fields: ['Transfer-Encoding: chunked, identity'],
    body: '0\r\n\r\n',
  }),
  'the identity coding': request('POST', '/v1/pets', { fields: ['Transfer-Encoding: identity'] }),
  'chunked twice': request('POST', '/v1/pets', { fields: [CHUNKED, CHUNKED], body: '0\r\n\r\n' }),
  'a tab before the coding': request('POST', '/v1/pets', {
    fields: ['Transfer-Encoding:\x0bchunked'],
    body: '0\r\n\r\n',
  }),
  'a quoted coding': request('POST', '/v1/pets', {
    fields: ['Transfer-Encoding: "chunked"'],
    body: '0\r\n\r\n',
  }),
  'a coding with a parameter': request('POST', '/v1/pets', {
    fields: ['Transfer-Encoding: chunked;q=1'],
    body: '0\r\n\r\n',
  }),
  'Transfer-Encoding in HTTP/1.0': request('POST', '/v1/pets', {
    version: '1.0',
    fields: [CHUNKED],
    body: '0\r\n\r\n',
  }),
  'a look-alike of Transfer-Encoding': request('POST', '/v1/pets', {
    fields: ['Content-Length: 5', 'Transfer_Encoding: chunked'],
    body: '0\r\n\r\n',
  }),
  'a look-alike of Content-Length': request('POST', '/v1/pets', {
    fields: ['Content_Length: 5', 'Content-Length: 0'],
  }),
  'a space before the colon': request('POST', '/v1/pets', {
    fields: ['Content-Length: 5', 'Transfer-Encoding : chunked'],
    body: '0\r\n\r\n',
  }),
  'a folded field': request('GET', '/v1/pets', { fields: ['X-One: a', ' b'] }),
  'a folded Transfer-Encoding': request('POST', '/v1/pets', {
    fields: ['Transfer-Encoding:', ' chunked'],
    body: '0\r\n\r\n',
  }),
  'no Host': request('GET', '/v1/pets', { host: null }),
  'no Host in HTTP/1.0': request('GET', '/v1/pets', { host: null, version: '1.0' }),
  'two Hosts': request('GET', '/v1/pets', { fields: ['Host: api.example'] }),
  'an empty Host': request('GET', '/v1/pets', { host: '' }),
  'a Host with a list': request('GET', '/v1/pets', { host: 'a.example, b.example' }),
  'a Host with a path': request('GET', '/v1/pets', { host: 'a.example/evil' }),
  'a Host with a user': request('GET', '/v1/pets', { host: 'user@a.example' }),
  'a look-alike of Host': request('GET', '/v1/pets', { host: null, fields: ['Host : a.example'] }),
  'a NUL in a field': request('GET', '/v1/pets', { fields: ['X-One: a\0b'] }),
  'a control byte in a field': request('GET', '/v1/pets', { fields: ['X-One: a\x01b'] }),
  'a DEL in a field': request('GET', '/v1/pets', { fields: ['X-One: a\x7fb'] }),
  'a bare CR in a field': request('GET', '/v1/pets', { fields: ['X-One: a\rb'] }),
  'a bare LF as line end': request('GET', '/v1/pets').replaceAll('\r\n', '\n'),
  'a field without a colon': request('GET', '/v1/pets', { fields: ['X-One'] }),
  'a field without a name': request('GET', '/v1/pets', { fields: [': one'] }),
  'a field name with a bracket': request('GET', '/v1/pets', { fields: ['X(One): a'] }),
  'a field name beyond ASCII': request('GET', '/v1/pets', { fields: ['X-\xe9: a'] }),
  'HTTP/1.2': request('GET', '/v1/pets', { version: '1.2' }),
  'HTTP/2.0 by text': request('GET', '/v1/pets', { version: '2.0' }),
  'HTTP/0.9': `GET /v1/pets\r\n`,
  'the preface of HTTP/2': 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n',
  'a TLS hello': '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03',
  'no protocol at all': 'EHLO api.example\r\n',
}

describe('a request that two parsers could frame differently', () => {
  for (const [what, bytes] of Object.entries(ambiguous)) {
    it(`is refused with 400 and closed: ${what}`, () =>
      withWire({}, async ({ exchange, served, charged }) => {
        const { responses, closed, problem } = await exchange(bytes + SMUGGLED)
        expect(problem).toBeUndefined()
        expectRefusal(responses[0], 400, { code: 'invalid_request', closes: true })
        expect(responses).toHaveLength(1)
        expect(closed).toBe(true)
        expect(served()).toEqual([])
        expect(await charged()).toBe(0)
      }))
  }

  it('serves nothing of what follows in later packets either', () =>
    withWire({}, async ({ connect, served, charged, settled, accessLines }) => {
      const client = await connect()
      client.send(ambiguous['two Hosts'] ?? '')
      await client.waitForResponses(1)
      for (let packet = 0; packet < 5; packet++) {
        client.send(SMUGGLED)
        await new Promise((resolve) => setTimeout(resolve, 20))
      }
      const { responses } = await client.waitFor(({ closed }) => closed)
      expect(responses).toHaveLength(1)
      await settled()
      expect(served()).toEqual([])
      expect(await charged()).toBe(0)
      expect(await accessLines(1)).toHaveLength(1)
    }))

  it('is answered even when the client has much of its body under way', () =>
    withWire({}, async ({ exchange, served }) => {
      const head = request('POST', '/v1/pets', { fields: ['Content-Length: 900000', CHUNKED] })
      const { responses } = await exchange(head + 'x'.repeat(900_000))
      expectRefusal(responses[0], 400, { code: 'invalid_request', closes: true })
      expect(responses).toHaveLength(1)
      expect(served()).toEqual([])
    }))
})

for (const engine of engines) {
  describe(`a body through ${engine}`, () => {
    const chunks = '3\r\nabc\r\n4\r\ndefg\r\n0\r\n\r\n'

    for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS', 'GET', 'HEAD']) {
      const target = method === 'POST' || method === 'HEAD' ? '/v1/pets' : '/v1/pets/1'

      it(`reaches the backend as the body of its ${method} when it is chunked`, () =>
        withWire({ engine, blocks: FORWARD }, async ({ connect, backend, charged, served }) => {
          const client = await connect()
          client.send(request(method, target, { fields: [CHUNKED], body: chunks }))
          await backend.waitFor(() => backend.requests.length > 0, 'the request')
          expect(backend.requests[0]?.body.toString()).toBe('abcdefg')
          expect(backend.requests[0]?.framing).toBe('chunked')
          await client.waitFor(({ raw }) => raw.includes('\r\n\r\n'))
          // The connection goes on where the body ended.
          client.send(request('GET', '/v1/pets/after'))
          await backend.waitFor(() => backend.requests.length > 1, 'the next request')
          expect(served()).toEqual([`${method} ${target}`, 'GET /v1/pets/after'])
          expect(await charged()).toBe(2)
        }))

      it(`reaches the backend as the body of its ${method} when its length is declared`, () =>
        withWire({ engine, blocks: FORWARD }, async ({ exchange, backend, charged }) => {
          const inner = request('GET', '/v1/pets/inner')
          const fields = [`Content-Length: ${inner.length}`]
          const { responses } = await exchange(request(method, target, { fields, body: inner }), {
            responses: 1,
            methods: [method],
          })
          expect(responses[0]?.status).toBe(200)
          expect(backend.requests).toHaveLength(1)
          expect(backend.requests[0]?.body.toString()).toBe(inner)
          expect(backend.requests[0]?.framing).toBe('length')
          expect(await charged()).toBe(1)
        }))
    }

    it('loses chunk extensions and trailer fields on the way', () =>
      withWire({ engine }, async ({ exchange, backend }) => {
        const body = '3;name=value\r\nabc\r\n0\r\nX-Client-Id: evil\r\n\r\n'
        const { responses } = await exchange(
          request('POST', '/v1/pets', { fields: [CHUNKED, 'Trailer: X-Client-Id'], body }),
          { responses: 1 },
        )
        expect(responses[0]?.status).toBe(200)
        expect(backend.requests[0]?.body.toString()).toBe('abc')
        expect(backend.connections[0]?.raw().includes('evil')).toBe(false)
        expect(backend.requests[0]?.header('trailer')).toBeUndefined()
      }))

    for (const [what, body] of Object.entries({
      'a chunk longer than its size': '3\r\nabcdef\r\n0\r\n\r\n',
      'a negative chunk size': '-3\r\nabc\r\n0\r\n\r\n',
      'a chunk size with a prefix': '0x3\r\nabc\r\n0\r\n\r\n',
      'a chunk size that overflows': '10000000000000003\r\nabc\r\n0\r\n\r\n',
      'a bare LF after the size': '3\nabc\r\n0\r\n\r\n',
      'an empty chunk size': '\r\nabc\r\n0\r\n\r\n',
    })) {
      it(`is never passed on as whole with ${what}, and its charge is handed back`, () =>
        withWire({ engine, requestsMayBreakOff: true }, async ({ exchange, served, charged }) => {
          const head = request('POST', '/v1/pets', { fields: [CHUNKED], body })
          const { responses, closed } = await exchange(head + SMUGGLED)
          expectRefusal(responses[0], 400, { code: 'invalid_request', closes: true })
          expect(responses).toHaveLength(1)
          expect(closed).toBe(true)
          expect(served()).toEqual([])
          expect(await charged()).toBe(0)
        }))
    }

    it('is not charged to anyone else who uses the connection', () =>
      withWire({ engine }, async ({ exchange, charged, backend }) => {
        await exchange(
          request('POST', '/v1/pets', { fields: ['Content-Length: 2'], body: '{}' }) +
            request('GET', '/v1/pets', { key: keys.business, fields: ['Connection: close'] }),
        )
        expect(new Set(backend.requests.map((each) => each.header('x-client-id')))).toEqual(
          new Set(['business-client', 'pro-client']),
        )
        expect(await charged()).toBe(1)
      }))
  })
}
