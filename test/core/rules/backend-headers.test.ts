import { describe, expect, it } from 'vitest'
import type { Config } from '../../../src/config/config.ts'
import type { Exchange } from '../../../src/core/pipeline/exchange.ts'
import { isRefusal } from '../../../src/core/rules/refusals.ts'
import { checkFraming } from '../../../src/core/rules/framing.ts'
import { backendHeaders } from '../../../src/core/rules/backend-headers.ts'
import { fields, words } from '../../support/words.ts'

const limits = { headerCount: 100, headerBytes: 16_384, bodyBytes: 1000 }

function headersFor(
  rawHeaders: string[],
  more: {
    method?: string
    host?: Config['upstream']['host']
    proxies?: string
    proto?: 'http' | 'https'
  } = {},
): string[] {
  const { method = 'GET', host = 'preserve', proxies = '', proto = 'http' } = more
  const all = ['Host', 'api.example', ...rawHeaders]
  const framing = checkFraming({ method, httpVersion: '1.1', rawHeaders: all }, limits)
  if (isRefusal(framing)) throw new Error(`refused: ${framing.cause}`)
  const request = { rawHeaders: all, httpVersion: '1.1' }
  const sender = { address: '203.0.113.9', proxies }
  const exchange = { request, framing, id: 'r-1', sender, proto } as unknown as Exchange
  return backendHeaders(exchange, { clientId: 'acme', plan: 'pro' }, host)
}

const HOST = ['Host', 'api.example']
const GATEWAY = fields(`X-Client-Id: acme | X-Client-Plan: pro | X-Request-Id: r-1
  | X-Forwarded-For: 203.0.113.9 | X-Forwarded-Proto: http | X-Forwarded-Host: api.example
  | Via: 1.1 tollgate`)

const REMOVED = words(`
  Connection Keep-Alive Proxy-Connection TE Trailer Upgrade Proxy-Authenticate Proxy-Authorization
  Proxy Expect HTTP2-Settings Authorization X-Client-Id X-Client-Plan X-Client-Anything X_Client_Id
  x-client_id X.Client.Id X-Request-Id X_REQUEST_ID X-Real-IP X_Real_IP X-Forwarded-For
  X-Forwarded-Proto X-Forwarded-Host X-Forwarded-Port X_Forwarded_For Forwarded Via
  X-RateLimit-Limit RateLimit RateLimit-Policy X-Original-URL X-Rewrite-URL Keep_Alive
  Proxy_Authorization HTTP2_Settings`)

describe('upstream headers', () => {
  it('have the Host that is asked for, or leave it to whoever knows the backend; X-Forwarded-Host is the client’s', () => {
    expect(headersFor([], { host: 'upstream' })).toEqual(GATEWAY)
    const host = { name: 'api.internal:8443' }
    expect(headersFor([], { host })).toEqual(['Host', 'api.internal:8443', ...GATEWAY])
  })

  it('passes what is the client’s own, in order and with repetitions', () => {
    const own = fields('Accept: */* | accept: text/plain | Cookie: a=b | X-Foo: 1 | X_Bar: 2')
    expect(headersFor(own)).toEqual([...HOST, ...own, ...GATEWAY])
  })

  it.each(REMOVED)('removes %s', (name) => {
    const headers = headersFor([name, 'evil', 'Accept', '*/*'])
    expect(headers).toEqual([...HOST, 'Accept', '*/*', ...GATEWAY])
  })

  it('removes what Connection nominates, whichever comes first', () => {
    const raw = 'X-Foo: 1 | Connection: x-foo, Bar | BAR: 2 | Connection: baz | Baz: 3'
    expect(headersFor(fields(raw))).toEqual([...HOST, ...GATEWAY])
  })

  it('keeps its own fields and the length whatever Connection nominates', () => {
    const names =
      'Host, Content-Length, Authorization, X-Client-Id, X-Client-Plan, X-Forwarded-For, Via'
    const raw = ['Connection', names, 'Content-Length', '007', 'Authorization', 'Bearer x']
    expect(headersFor(raw, { method: 'POST' })).toEqual([
      ...HOST,
      'Content-Length',
      '7',
      ...GATEWAY,
    ])
  })

  it('leaves chunks to the engine', () => {
    const headers = headersFor(['Transfer-Encoding', 'chunked'], { method: 'POST' })
    expect(headers).toEqual([...HOST, ...GATEWAY])
  })

  it('tells the backend the trusted hops and the protocol in front of them', () => {
    const headers = headersFor([], { proxies: '10.0.0.2, 10.0.0.1', proto: 'https' })
    expect(headers).toContain('203.0.113.9, 10.0.0.2, 10.0.0.1')
    expect(headers[headers.indexOf('X-Forwarded-Proto') + 1]).toBe('https')
  })

  it('keeps the handshake of a WebSocket', () => {
    const raw = fields('Connection: keep-alive, Upgrade | Upgrade: WebSocket')
    const handshake = fields('Sec-WebSocket-Key: k | Sec-WebSocket-Version: 13')
    expect(headersFor([...raw, ...handshake])).toEqual([...HOST, ...handshake, ...GATEWAY])
  })
})
