import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isRefusal } from '../../../src/core/rules/refusals.ts'
import { checkFraming, type Framing } from '../../../src/core/rules/framing.ts'
import { fields, words } from '../../support/words.ts'

const limits = { headerCount: 20, headerBytes: 1000, bodyBytes: 5000 }
const host = ['Host', 'api.example']

function check(method: string, rawHeaders: string[], httpVersion = '1.1') {
  return checkFraming({ method, httpVersion, rawHeaders }, limits)
}

function sound(method: string, rawHeaders: string[], httpVersion = '1.1'): Framing {
  const framing = check(method, rawHeaders, httpVersion)
  if (isRefusal(framing)) throw new Error(`refused: ${framing.cause}`)
  return framing
}

describe('framing', () => {
  it.each([
    ['GET', [], { body: 'none', bodyBytes: 0 }],
    ['GET', ['Content-Length', '0'], { body: 'length', bodyBytes: 0 }],
    ['POST', ['Content-Length', '007'], { body: 'length', bodyBytes: 7 }],
    ['POST', ['Content-Length', '5000'], { body: 'length', bodyBytes: 5000 }],
    ['POST', ['Transfer-Encoding', 'chunked'], { body: 'chunked', bodyBytes: 0 }],
    ['OPTIONS', ['transfer-encoding', 'CHUNKED'], { body: 'chunked', bodyBytes: 0 }],
  ])('reads the body of %s with %j', (method, headers, expected) => {
    expect(sound(method, [...host, ...headers])).toMatchObject(expected)
  })

  it.each([
    ['Content-Length: 5 | Transfer-Encoding: chunked', 'both'],
    ['Content-Length: 5 | Content-Length: 5', 'several Content-Length'],
    ...['5, 5', '+5', '-5', '0x5', '5 ', '', '1e3'].map((length) => [
      `Content-Length: ${length}`,
      'malformed Content-Length',
    ]),
    ...['gzip, chunked', 'identity', 'xchunked', '', 'chunked, chunked'].map((coding) => [
      `Transfer-Encoding: ${coding}`,
      'unknown Transfer-Encoding',
    ]),
    ['Transfer-Encoding: chunked | transfer-encoding: chunked', 'several Transfer-Encoding'],
    ['Transfer_Encoding: chunked', 'look-alike of Transfer-Encoding'],
    ['Content_Length: 5', 'look-alike of Content-Length'],
    ['Content-Length: 5 | content_length: 7', 'look-alike of Content-Length'],
    ['Content-Length: 5 | X: a\0b', 'control byte'],
    ['Content-Length: 5 | X: a\rb', 'control byte'],
    ['Content-Length: 5 | Host: other.example', '2 Host'],
    ['Content-Length: 5 | hOST: api.example', '2 Host'],
  ])('refuses a POST with %j: %s', (headers = '', cause = '') => {
    expect(check('POST', [...host, ...fields(headers)])).toEqual({
      code: 'invalid_request',
      cause: expect.stringContaining(cause),
    })
  })

  it('refuses chunks in HTTP/1.0, and a request without Host', () => {
    const chunked = [...host, 'Transfer-Encoding', 'chunked']
    expect(check('POST', chunked, '1.0')).toMatchObject({ code: 'invalid_request' })
    for (const version of ['1.0', '1.1'])
      expect(check('GET', [], version), 'no Host').toMatchObject({ code: 'invalid_request' })
    expect(sound('GET', host, '1.0').body).toBe('none')
  })

  it.each(words('api.example api.example:8080 api.example: 127.0.0.1 [::1] [::1]:80 my_service'))(
    'takes %s as Host',
    (value) => expect(sound('GET', ['Host', value]).host).toBe(value),
  )

  const noHosts = words(String.raw`a/b user@a a,b a?b a#b a\b a:b a:80:80 [::1 ::1 a%2f a:123456`)
  it.each(['', 'a b', ...noHosts])('refuses %j as Host', (value) => {
    expect(check('GET', ['Host', value])).toMatchObject({ code: 'invalid_request' })
  })

  it.each(['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])(
    'takes a %s without length and coding for one without a body, unless it asks leave to send one',
    (method) => {
      expect(sound(method, host)).toMatchObject({ body: 'none', bodyBytes: 0 })
      const expects = [...host, 'Expect', '100-Continue']
      expect(check(method, expects)).toEqual({ code: 'length_required' })
      expect(sound(method, [...expects, 'Content-Length', '2']).body).toBe('length')
      expect(sound(method, [...expects, 'Transfer-Encoding', 'chunked']).body).toBe('chunked')
      expect(sound(method, [...host, 'Expect', 'something']).body).toBe('none')
    },
  )

  it.each(['GET', 'HEAD'])('lets a %s expect in vain', (method) => {
    expect(sound(method, [...host, 'Expect', '100-continue']).body).toBe('none')
  })

  it.each([
    ['5001', 'body_too_large'],
    ['9'.repeat(16), 'invalid_request'],
  ])('refuses a declared body of %s bytes: %s', (length, code) => {
    expect(check('POST', [...host, 'Content-Length', length])).toMatchObject({ code })
  })

  it.each(['TRACE', 'CONNECT', 'PROPFIND', 'get', ''])('does not know the method %j', (method) => {
    expect(check(method, host)).toMatchObject({ code: 'method_not_implemented' })
  })

  it('takes header fields up to the limits and refuses one more', () => {
    const many = (count: number) => [...host, ...Array.from({ length: 2 * count - 2 }, () => 'x')]
    expect(isRefusal(check('GET', many(20)))).toBe(false)
    expect(check('GET', many(21))).toMatchObject({ code: 'headers_too_large' })
    // 19 for Host, 5 for what is around the name and the value of the other.
    const large = (bytes: number) => [...host, 'x', 'v'.repeat(bytes - 19 - 5)]
    expect(isRefusal(check('GET', large(1000)))).toBe(false)
    expect(check('GET', large(1001))).toMatchObject({ code: 'headers_too_large' })
  })

  it('keeps what later stages need', () => {
    const given = `Host: a | authorization: Bearer x | AUTHORIZATION: Bearer y
      | X-Forwarded-For: 1.1.1.1, 2.2.2.2 | x-forwarded-for: 3.3.3.3 | X-Forwarded-Proto: https
      | X-Request-Id: abc | Connection: X-Foo, Close | Connection: Bar`
    const framing = sound('GET', fields(given))
    expect(framing).toMatchObject({
      body: 'none',
      bodyBytes: 0,
      expectsContinue: false,
      host: 'a',
      authorization: 'Bearer x',
      authorizationCount: 2,
      nominated: new Set(['x-foo', 'close', 'bar']),
      websocket: false,
      forwardedFor: '1.1.1.1, 2.2.2.2, 3.3.3.3',
      forwardedProto: 'https',
      requestId: 'abc',
    })
  })

  it('reads no forwarding header that is doubled, unknown or a look-alike', () => {
    const unread = { forwardedProto: undefined, requestId: undefined }
    const twice = `X_Forwarded_For: 1.1.1.1 | X-Forwarded-Proto: https | X-Forwarded-Proto: https
      | X-Request-Id: a | X-Request-Id: b`
    const framing = sound('GET', [...host, ...fields(twice)])
    expect(framing).toMatchObject({ forwardedFor: undefined, ...unread, requestId: '' })
    const odd = sound('GET', [...host, 'X-Forwarded-Proto', 'gopher', 'X_Request_Id', 'a'])
    expect(odd).toMatchObject(unread)
  })

  it.each([
    ['GET', 'Connection: keep-alive, Upgrade | Upgrade: WebSocket', '1.1', true],
    ['GET', 'Upgrade: websocket | Connection: Upgrade', '1.0', false],
    ['POST', 'Upgrade: websocket | Connection: Upgrade', '1.1', false],
    ['GET', 'Upgrade: websocket | Connection: Upgrade | Content-Length: 0', '1.1', false],
    ['GET', 'Upgrade: websocket', '1.1', false],
    ['GET', 'Upgrade: h2c | Connection: Upgrade', '1.1', false],
    ['GET', 'Upgrade: websocket, h2c | Connection: Upgrade', '1.1', false],
    ['GET', 'Upgrade: websocket | Upgrade: h2c | Connection: Upgrade', '1.1', false],
  ])('%s with %s in %s wants a WebSocket: %s', (method, headers, version, websocket) => {
    expect(sound(method, [...host, ...fields(headers)], version).websocket).toBe(websocket)
  })

  it('never frames a request in which any spelling of a length stands beside another', () => {
    const spellings = `Content-Length content-length Content_Length CONTENT.LENGTH
      Transfer-Encoding transfer_encoding Transfer~Encoding`
    const spelling = fc.constantFrom(...words(spellings))
    const value = fc.constantFrom('5', '6', 'chunked')
    const field = fc.tuple(spelling, value)
    fc.assert(
      fc.property(fc.array(field, { minLength: 2, maxLength: 4 }), (fields) => {
        expect(isRefusal(check('POST', [...host, ...fields.flat()]))).toBe(true)
      }),
    )
  })
})
