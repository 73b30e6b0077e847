import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isRefusal } from '../../src/rules/refusals.ts'
import { checkTarget, createCheckTarget } from '../../src/rules/target.ts'

const URL_BYTES = 200
const HOST = ['Api.example', 'http'] as const

describe('target', () => {
  it.each([
    ['/', '/'],
    ['/v1/pets', '/v1/pets'],
    ['/v1/pets/', '/v1/pets/'],
    ['/v1/pets?limit=20&status=available', '/v1/pets'],
    ['/v1/pets?', '/v1/pets'],
    ['/?a=/../b//c?d', '/'],
    ['/a?filter[status]=x|y{z}^`', '/a'],
    ['/a?q=%2e%2f%00%70%0d%0a', '/a'],
    ["/a;v=1/b:c@d!$&'()*+,=~_.-", "/a;v=1/b:c@d!$&'()*+,=~_.-"],
    ['/...', '/...'],
    ['/.a/a./..b/b..', '/.a/a./..b/b..'],
    ['/a%20b', '/a%20b'],
    ['/caf%C3%A9', '/caf%C3%A9'],
    ['/caf%c3%a9', '/caf%c3%a9'],
    ['/a%3Fb%23', '/a%3Fb%23'],
    ['/100%25', '/100%25'],
    ['/100%25/2e', '/100%25/2e'],
    ['/a%3Bb', '/a%3Bb'],
  ])('takes %s as it is', (target, path) => {
    expect(checkTarget(target, URL_BYTES, ...HOST)).toEqual({ path, raw: target, asterisk: false })
  })

  it.each([
    ['', 'no form'],
    ['host:443', 'no form'],
    ['?a', 'no form'],
    ['*a', 'no form'],
    ['file:///etc/passwd', 'no form'],
    ['http:/v1/pets', 'no form'],
    ['http:///v1/pets', 'no form'],
    ['http://?a', 'no form'],
    ['ftp://api.example/a', 'no form'],
    ['http://[', 'another origin'],
    ['http://evil.example/a', 'another origin'],
    ['http://api.example.evil/a', 'another origin'],
    ['http://api.example./a', 'another origin'],
    ['http://user:word@api.example/a', 'another origin'],
    ['http://api.example@evil.example/a', 'another origin'],
    ['http://evil.example\\@api.example/a', 'another origin'],
    ['http://api.example:8080/a', 'another origin'],
    ['http://api.example:080/a', 'another origin'],
    ['http://api.example:443/a', 'another origin'],
    ['http://%61pi.example/a', 'another origin'],
    ['https://api.example/a', 'another origin'],
    ['http://api.example/a/../b', 'dot segment'],
    ['http://api.example//a', 'empty path segment'],
    ['http://api.example/%61', 'needlessly encoded'],
    ['http://api.example#a', 'no form'],
    ['http://api.example?#', 'not allowed in a query'],
    ['//host/path', 'empty path segment'],
    ['/a//b', 'empty path segment'],
    ['/a//', 'empty path segment'],
    ['/a/;x/b', 'empty path segment'],
    ['/.', 'dot segment'],
    ['/..', 'dot segment'],
    ['/a/./b', 'dot segment'],
    ['/a/../b', 'dot segment'],
    ['/a/..?x', 'dot segment'],
    ['/%3Bx/b', 'empty path segment'],
    ['/a/..;x/b', 'dot segment'],
    ['/a/..%3bx/b', 'dot segment'],
    ['/a/.;', 'dot segment'],
    ['/a b', 'not allowed in a path'],
    ['/a\0b', 'not allowed in a path'],
    ['/a\x7fb', 'not allowed in a path'],
    ['/a\x80b', 'not allowed in a path'],
    ['/a\u0131', 'not allowed in a path'],
    ['/a#b', 'not allowed in a path'],
    ['/a\\..\\b', 'not allowed in a path'],
    ['/a"b', 'not allowed in a path'],
    ['/a<b>', 'not allowed in a path'],
    ['/a|b', 'not allowed in a path'],
    ['/a[b]', 'not allowed in a path'],
    ['/a{b}', 'not allowed in a path'],
    ['/a^b', 'not allowed in a path'],
    ['/a`b', 'not allowed in a path'],
    ['/a?b#c', 'not allowed in a query'],
    ['/a?b c', 'not allowed in a query'],
    ['/a?b\\c', 'not allowed in a query'],
    ['/a?b"c', 'not allowed in a query'],
    ['/a?b<c', 'not allowed in a query'],
    ['/a?b\xe9', 'not allowed in a query'],
    ['/a?b\n', 'not allowed in a query'],
    ['/a%', 'bad percent-encoding'],
    ['/a%4', 'bad percent-encoding'],
    ['/a%4?1', 'bad percent-encoding'],
    ['/a%g1', 'bad percent-encoding'],
    ['/a%u0041', 'bad percent-encoding'],
    ['/a?b=100%', 'bad percent-encoding'],
    ['/a?b=%zz', 'bad percent-encoding'],
    ['/a%2fb', 'encoded slash'],
    ['/a%2Fb', 'encoded slash'],
    ['/a%5cb', 'encoded slash or backslash'],
    ['/a%00', 'encoded control'],
    ['/a%0d%0a', 'encoded control'],
    ['/a%7f', 'encoded control'],
    ['/a/%2e%2e/b', 'needlessly encoded'],
    ['/a/.%2E/b', 'needlessly encoded'],
    ['/%70ets', 'needlessly encoded'],
    ['/a%7e', 'needlessly encoded'],
    ['/a/%252e%252e/b', 'doubly encoded'],
    ['/a%252Fb', 'doubly encoded'],
    ['/a%25252fb', 'doubly encoded'],
    ['/a%c0%ae', 'not UTF-8'],
    ['/a%c0%af', 'not UTF-8'],
    ['/a%e9', 'not UTF-8'],
  ])('refuses %j: %s', (target, cause) => {
    expect(checkTarget(target, URL_BYTES, ...HOST)).toEqual({
      code: 'invalid_request',
      cause: expect.stringContaining(cause),
    })
  })

  it.each([
    ['http://api.example/v1/pets?a=b', 'api.example', '/v1/pets?a=b'],
    ['HTTP://API.EXAMPLE/V1', 'api.example', '/V1'],
    ['http://api.example:80/a', 'api.example', '/a'],
    ['http://api.example:/a', 'api.example:80', '/a'],
    ['http://api.example/a', 'api.example:', '/a'],
    ['http://api.example:8080/a', 'api.example:8080', '/a'],
    ['http://[::1]:80/a', '[::1]', '/a'],
    ['http://api.example', 'api.example', '/'],
    ['http://api.example?a=//b', 'api.example', '/?a=//b'],
    ['https://api.example:443/a', 'api.example', '/a'],
    ['https://api.example/a', 'api.example:443', '/a'],
  ])('takes the absolute form %s for the Host %s as %s', (target, host, raw) => {
    const path = raw.split('?')[0]
    const proto = target.startsWith('https') ? 'https' : 'http'
    const taken = checkTarget(target, URL_BYTES, host, proto)
    expect(taken).toEqual({ path, raw, asterisk: false })
  })

  it('takes http for a connection that is https for no more than the other way round', () => {
    const origin = ['api.example', 'https'] as const
    for (const target of ['http://api.example/a', 'http://api.example:443/a'])
      expect(checkTarget(target, URL_BYTES, ...origin)).toMatchObject({ code: 'invalid_request' })
  })

  it('takes a target of the limit and refuses one byte more', () => {
    expect(isRefusal(checkTarget('/'.padEnd(URL_BYTES, 'a'), URL_BYTES, ...HOST))).toBe(false)
    expect(checkTarget('/'.padEnd(URL_BYTES + 1, 'a'), URL_BYTES, ...HOST)).toMatchObject({
      code: 'uri_too_long',
    })
  })

  it('takes the asterisk form for OPTIONS only', () => {
    const check = createCheckTarget(URL_BYTES)
    expect(check({ method: 'OPTIONS', url: '*' }, ...HOST)).toMatchObject({ asterisk: true })
    expect(check({ method: 'GET', url: '*' }, ...HOST)).toMatchObject({ code: 'invalid_request' })
    expect(check({ method: 'OPTIONS', url: '/a' }, ...HOST)).toMatchObject({
      asterisk: false,
      path: '/a',
    })
    expect(check({ method: 'GET' }, ...HOST)).toMatchObject({ code: 'invalid_request' })
  })

  it('never takes what any number of decodings turns into a dot segment, a slash more or a control byte', () => {
    const piece = fc.constantFrom(
      '/',
      '.',
      '..',
      ';',
      'a',
      '2',
      'e',
      '%',
      '%2e',
      '%2E',
      '%25',
      '%32',
      '%65',
      '2e',
      '2f',
      '%2f',
      '%5c',
      '%00',
      '%3b',
      '%20',
      '%c3%a9',
      '%c0%ae',
      '?',
    )
    let accepted = 0
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
        const target = checkTarget(`/${pieces.join('')}`, URL_BYTES, ...HOST)
        if (isRefusal(target)) return
        accepted++
        const slashes = target.path.split('/').length
        let path = target.path
        for (let round = 0; round < 5; round++) {
          const segments = path.split('/')
          expect(segments.length).toBe(slashes)
          expect(segments.slice(1, -1).every((text) => text.split(';')[0] !== '')).toBe(true)
          expect(segments.some((text) => /^\.{1,2}(?:;|$)/.test(text))).toBe(false)
          // oxlint-disable-next-line no-control-regex
          expect(path).not.toMatch(/[\0-\x1f\\\x7f]/)
          path = path.replace(/(?:%[0-9a-f]{2})+/gi, (text) => decodeURIComponent(text))
        }
      }),
      { numRuns: 5000 },
    )
    expect(accepted).toBeGreaterThan(50)
  })
})
