import { IncomingMessage, ServerResponse } from 'node:http'
import { Socket } from 'node:net'
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { clientHeaders } from '../../../src/core/rules/client-headers.ts'
import { anyCharacter } from '../../support/any-character.ts'
import { fields, words } from '../../support/words.ts'

const OURS = fields('X-Request-Id: r-1 | X-RateLimit-Limit: 60 | Link: </v1/pets>; rel="x"')
const VIA = ['Via', '1.1 tollgate']

function pass(headers: string[], { status = 200, ownsCors = false } = {}) {
  return clientHeaders(status, headers, [...OURS], ownsCors)
}

const REMOVED = words(`
  Connection Keep-Alive Proxy-Connection Proxy-Authenticate TE Trailer Upgrade X-RateLimit-Limit
  x-ratelimit-remaining X-RateLimit-Reset RateLimit RateLimit-Policy X-Request-Id Deprecation SUNSET
  X-API-Stability X_RateLimit_Limit X_Request_Id`)

describe('client headers', () => {
  it('passes what is the backend’s own, in order and with repetitions', () => {
    const own = fields(`Date: x | Set-Cookie: a=1 | Set-Cookie: b=2 | Link: <p>; rel="next"
      | Retry-After: 3 | X-Latin: \xe9 | Empty:`)
    expect(pass(own)).toEqual({ headers: [...OURS, ...own, ...VIA] })
  })

  it.each(REMOVED)('removes %s', (name) => {
    const passed = pass([name, 'backend', 'Content-Type', 'a/b'])
    expect(passed?.headers).toEqual([...OURS, 'Content-Type', 'a/b', ...VIA])
  })

  it('removes what Connection nominates, whichever comes first, but not its own fields', () => {
    const headers = 'X-Foo: 1 | Connection: x-foo, X-Request-Id | connection: Bar | BAR: 2'
    expect(pass(fields(headers))?.headers).toEqual([...OURS, ...VIA])
  })

  it('adds itself to the Via of the backend', () => {
    expect(pass(['Via', '1.1 a', 'via', '1.0 b, 1.1 c'])?.headers.slice(-2)).toEqual([
      'Via',
      '1.1 a, 1.0 b, 1.1 c, 1.1 tollgate',
    ])
  })

  it.each([
    [['Content-Length', '5'], '5'],
    [['Content-Length', '12', 'content-length', '12'], '12'],
    [['Transfer-Encoding', 'Chunked'], undefined],
    [[], undefined],
  ])('reads the framing %j as a length of %s', (headers, length) => {
    const told = length === undefined ? [] : ['Content-Length', length]
    const bodyBytes = length === undefined ? undefined : Number(length)
    const passed = { headers: [...OURS, ...told, ...VIA], bodyBytes }
    expect(pass(headers)).toEqual(passed)
  })

  it.each([
    'Content-Length: 5 | Transfer-Encoding: chunked',
    'Content-Length: 5 | Content-Length: 6',
    'Content-Length: 5 | Content-Length: 05',
    ...['5, 5', '-1', '', '9'.repeat(16)].map((length) => `Content-Length: ${length}`),
    'Content_Length: 5 | Content-Length: 6',
    'Transfer.Encoding: chunked',
    'Transfer-Encoding: gzip, chunked',
    'Transfer-Encoding: chunked | Transfer-Encoding: chunked',
    'X: a\nb',
    'X: a\0',
    'X: \u20ac',
    'a b: x',
    ': x',
    'X\r\nY: x',
    'Connection: a\x01',
  ])('does not pass an answer with %j', (headers) => {
    expect(pass(fields(headers))).toBeUndefined()
  })

  it.each([
    [200, true],
    [299, true],
    [304, true],
    [204, false],
  ])('%d keeps its length: %s', (status, length) => {
    const passed = pass(['Content-Length', '5'], { status })
    expect(passed?.headers.includes('Content-Length')).toBe(length)
    expect(passed?.bodyBytes).toBe(5)
  })

  it('never gives Node a head that it throws on', () => {
    const text = fc.oneof(
      fc.string({ maxLength: 6 }),
      fc.string({ unit: anyCharacter, maxLength: 6 }),
      fc.constantFrom(...REMOVED, 'Content-Length', '5', 'Transfer-Encoding', 'chunked', 'X-Own'),
    )
    const field = fc.tuple(text, text)
    const status = fc.oneof(fc.integer({ min: 200, max: 599 }), fc.constantFrom(200, 204, 304))
    let passedOn = 0
    fc.assert(
      fc.property(fc.array(field, { maxLength: 4 }), status, (given, code) => {
        const passed = pass(given.flat(), { status: code })
        if (passed === undefined) return
        passedOn++
        // Never sent: writeHead alone does the checking.
        const response = new ServerResponse(new IncomingMessage(new Socket()))
        response.writeHead(code, passed.headers)
      }),
      { numRuns: 400, seed: 1 },
    )
    expect(passedOn).toBeGreaterThan(20)
  })
})
