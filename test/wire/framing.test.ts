/** One request is one request, for us and for the backend: what two readers could frame differently never reaches a backend. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { expectOnlyRefusal, request, openWire } from './wire.ts'

const SMUGGLED = request('GET', '/v1/pets/smuggled')
const CHUNKED = 'Transfer-Encoding: chunked'
const get = (...fields: string[]): string => request('GET', '/v1/pets', { fields })
const post = (...fields: string[]): string => request('POST', '/v1/pets', { fields })
/** With what is an empty body to a reader of chunks. */
const chunks = (...fields: string[]): string => `${post(...fields)}0\r\n\r\n`

const invalid = [400, 'invalid_request'] as const
const ambiguous: [what: string, bytes: string][] = [
  ['both Content-Length and Transfer-Encoding', chunks('Content-Length: 6', CHUNKED)],
  ['two Content-Length fields', post('Content-Length: 0', 'Content-Length: 5')],
  ['a signed length', post('Content-Length: +0')],
  ['a length beyond all numbers', post('Content-Length: 18446744073709551616')],
  ['a coding list that does not end in chunked', chunks('Transfer-Encoding: chunked, identity')],
  ['a tab before the coding', chunks('Transfer-Encoding:\x0bchunked')],
  ['a coding with a parameter', chunks('Transfer-Encoding: chunked;q=1')],
  ['Transfer-Encoding in HTTP/1.0', chunks(CHUNKED).replace('HTTP/1.1', 'HTTP/1.0')],
  ['a look-alike of Content-Length', post('Content_Length: 5', 'Content-Length: 0')],
  ['a space before the colon', chunks('Content-Length: 5', 'Transfer-Encoding : chunked')],
  ['a folded field', get('X-One: a', ' b')],
  ['no Host', request('GET', '/v1/pets', { host: null })],
  ['two Hosts', get('Host: api.example')],
  ['a NUL in a field', get('X-One: a\0b')],
  ['a control byte in a field', get('X-One: a\x01b')],
  ['a bare CR in a field', get('X-One: a\rb')],
  ['a bare LF as line end', get().replaceAll('\r\n', '\n')],
  ['a field without a colon', get('X-One')],
  ['a field name beyond ASCII', get('X-\xe9: a')],
  ['HTTP/2.0 by text', get().replace('HTTP/1.1', 'HTTP/2.0')],
  ['HTTP/0.9', `GET /v1/pets\r\n`],
  ['the preface of HTTP/2', 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'],
  ['a TLS hello', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03'],
  ['no protocol at all', 'EHLO api.example\r\n'],
]

describe('a request that two parsers could frame differently', () => {
  it.each(ambiguous)('is refused with 400 and closed: %s', async (_, bytes) => {
    const wire = await openWire()
    void (await expectOnlyRefusal(wire, bytes + SMUGGLED, invalid))
  })

  it('serves nothing of what follows in later packets either', async () => {
    const { connect, served, charged, settled, accessLines } = await openWire()
    const client = await connect(get('Host: api.example'))
    await client.waitForResponses(1)
    for (let packet = 0; packet < 5; packet++) {
      client.send(SMUGGLED)
      await sleep(5)
    }
    const { responses } = await client.waitFor(({ closed }) => closed)
    await settled()
    expect([responses.length, served(), await charged()]).toEqual([1, [], 0])
    expect(await accessLines(1)).toHaveLength(1)
  })
})

/** What each engine makes of framings is in test/contract. */
describe('a body', () => {
  it('loses chunk extensions and trailer fields on the way', async () => {
    const { ask, backend } = await openWire()
    const body = '3;name=value\r\nabc\r\n0\r\nX-Client-Id: evil\r\n\r\n'
    expect((await ask(post(CHUNKED, 'Trailer: X-Client-Id') + body)).status).toBe(200)
    expect(backend.requests[0]?.body.toString()).toBe('abc')
    expect(backend.connections[0]?.raw().includes('evil')).toBe(false)
    expect(backend.requests[0]?.header('trailer')).toBeUndefined()
  })

  it.each([
    ['a chunk longer than its size', '3\r\nabcdef\r\n0\r\n\r\n'],
    ['a chunk size that overflows', '10000000000000003\r\nabc\r\n0\r\n\r\n'],
    ['a bare LF after the size', '3\nabc\r\n0\r\n\r\n'],
  ])('is never passed on as whole with %s, and its charge is handed back', async (_, body) => {
    const wire = await openWire({ requestsMayBreakOff: true })
    await expectOnlyRefusal(wire, post(CHUNKED) + body + SMUGGLED, invalid)
  })
})
