import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { isRefusal } from '../../../src/core/rules/refusals.ts'
import { checkTarget } from '../../../src/core/rules/target.ts'
import { words } from '../../support/words.ts'

const URL_BYTES = 200
const HOST = ['Api.example', 'http'] as const
const checkGet = (url: string, ...origin: readonly [string, 'http' | 'https']) =>
  checkTarget({ method: 'GET', url }, ...origin, URL_BYTES)

describe('target', () => {
  const taken =
    words(`/ /v1/pets /v1/pets/ /v1/pets?limit=20&status=available /v1/pets? /?a=/../b//c?d
    /a?q=%2e%2f%00%70%0d%0a /a;v=1/b:c@d!$&'()*+,=~_.- /... /.a/a./..b/b.. /a%20b /caf%C3%A9
    /caf%c3%a9 /a%3Fb%23 /100%25 /100%25/2e /a%3Bb`)
  it.each([...taken, '/a?filter[status]=x|y{z}^`'])('takes %s as it is', (target) => {
    const path = target.split('?')[0]
    expect(checkGet(target, ...HOST)).toEqual({ path, raw: target })
  })

  const refused: Record<string, readonly string[]> = {
    'no form': [
      '',
      ...words(`host:443 ?a *a file:///etc/passwd http:/v1/pets http:///v1/pets http://?a
        ftp://api.example/a http://api.example#a`),
    ],
    'another origin': words(String.raw`http://[ http://evil.example/a http://api.example.evil/a
      http://api.example./a http://user:word@api.example/a http://api.example@evil.example/a
      http://evil.example\@api.example/a http://api.example:8080/a http://api.example:080/a
      http://api.example:443/a http://%61pi.example/a https://api.example/a`),
    'dot segment': words(`http://api.example/a/../b /. /.. /a/./b /a/../b /a/..?x /a/..;x/b
      /a/..%3bx/b /a/.;`),
    'empty path segment': words('http://api.example//a //host/path /a//b /a// /a/;x/b /%3Bx/b'),
    'needlessly encoded': words('http://api.example/%61 /a/%2e%2e/b /a/.%2E/b /%70ets /a%7e'),
    'not allowed in a path': [
      ...words(String.raw`/a#b /a\..\b /a"b /a<b> /a|b /a[b] /a{b} /a^b` + ' /a`b'),
      '/a b',
      '/a\0b',
      '/a\x7fb',
      '/a\x80b',
      '/a\u0131',
    ],
    'not allowed in a query': [
      ...words(String.raw`http://api.example?# /a?b#c /a?b\c /a?b"c /a?b<c`),
      '/a?b c',
      '/a?b\xe9',
      '/a?b\n',
    ],
    'bad percent-encoding': words('/a% /a%4 /a%4?1 /a%g1 /a%u0041 /a?b=100% /a?b=%zz'),
    'encoded slash or backslash': words('/a%2fb /a%2Fb /a%5cb'),
    'encoded control': words('/a%00 /a%0d%0a /a%7f'),
    'doubly encoded': words('/a/%252e%252e/b /a%252Fb /a%25252fb'),
    'not UTF-8': words('/a%c0%ae /a%c0%af /a%e9'),
  }
  const refusals = Object.entries(refused).flatMap(([cause, targets]) =>
    targets.map((target) => ({ target, cause })),
  )
  it.each(refusals)('refuses $target: $cause', ({ target, cause }) => {
    expect(checkGet(target, ...HOST)).toEqual({
      code: 'invalid_request',
      cause: expect.stringContaining(cause),
    })
  })

  it.each([
    ['http://api.example/v1/pets?a=b', 'api.example', '/v1/pets?a=b'],
    ['HTTP://API.EXAMPLE/V1', 'api.example', '/V1'],
    ['http://api.example:80/a', 'api.example', '/a'],
    ['http://api.example:/a', 'api.example:80', '/a'],
    ['http://[::1]:80/a', '[::1]', '/a'],
    ['http://api.example', 'api.example', '/'],
    ['http://api.example?a=//b', 'api.example', '/?a=//b'],
    ['https://api.example:443/a', 'api.example', '/a'],
    ['https://api.example/a', 'api.example:443', '/a'],
  ])('takes the absolute form %s for the Host %s as %s', (target, host, raw) => {
    const path = raw.split('?')[0]
    const proto = target.startsWith('https') ? 'https' : 'http'
    const taken = checkGet(target, host, proto)
    expect(taken).toEqual({ path, raw })
  })

  it('takes http for a connection that is https for no more than the other way round', () => {
    const origin = ['api.example', 'https'] as const
    for (const target of ['http://api.example/a', 'http://api.example:443/a'])
      expect(checkGet(target, ...origin)).toMatchObject({ code: 'invalid_request' })
  })

  it('takes a target of the limit and refuses one byte more', () => {
    const of = (bytes: number) => checkGet('/'.padEnd(bytes, 'a'), ...HOST)
    expect(isRefusal(of(URL_BYTES))).toBe(false)
    expect(of(URL_BYTES + 1)).toMatchObject({ code: 'uri_too_long' })
  })

  it('takes the asterisk form for OPTIONS only', () => {
    const checkOptions = (url: string) =>
      checkTarget({ method: 'OPTIONS', url }, ...HOST, URL_BYTES)
    expect(checkOptions('*')).toEqual({ path: '*', raw: '*' })
    expect(checkOptions('/a')).toMatchObject({ path: '/a' })
    expect(checkGet('*', ...HOST)).toMatchObject({ code: 'invalid_request' })
    expect(checkTarget({ method: 'GET' }, ...HOST, URL_BYTES)).toMatchObject({
      code: 'invalid_request',
    })
  })

  it('never takes what any number of decodings turns into a dot segment, a slash more or a control byte', () => {
    const piece = fc.constantFrom(
      ...words('/ . .. ; a 2 e % %2e %2E %25 %32 %65 2e 2f %2f %5c %00 %3b %20 %c3%a9 %c0%ae ?'),
    )
    let accepted = 0
    fc.assert(
      fc.property(fc.array(piece, { maxLength: 8 }), (pieces) => {
        const target = checkGet(`/${pieces.join('')}`, ...HOST)
        if (isRefusal(target)) return
        accepted++
        const slashes = target.path.split('/').length
        let path = target.path
        for (let round = 0; round < 5; round++) {
          const segments = path.split('/')
          const isSound =
            segments.length === slashes &&
            segments.slice(1, -1).every((text) => text.split(';')[0] !== '') &&
            !segments.some((text) => /^\.{1,2}(?:;|$)/.test(text)) &&
            // oxlint-disable-next-line no-control-regex
            !/[\0-\x1f\\\x7f]/.test(path)
          if (!isSound) expect.fail(path)
          path = path.replace(/(?:%[0-9a-f]{2})+/gi, (text) => decodeURIComponent(text))
        }
      }),
      { numRuns: 2_000, seed: 1 },
    )
    expect(accepted).toBeGreaterThan(20)
  })
})
