/** Identity and forwarding fields are the gateway's alone: a client cannot set, alias, double or remove them. */
import { describe, expect, it } from 'vitest'
import { answer } from '../support/raw-backend.ts'
import { engines, keys, request, withWire } from './wire.ts'

const forged = [
  'X-Client-Id: evil',
  'x-client-id: evil',
  'X_Client_Id: evil',
  'X.Client.Id: evil',
  'X-Client_Plan: evil',
  'X-Client-Plan: evil',
  'X-Request-Id: evil',
  'X_Request_Id: evil',
  'X-Forwarded-For: 6.6.6.6',
  'X-Forwarded-For: 6.6.6.7',
  'X_Forwarded_For: 6.6.6.8',
  'X-Forwarded-Proto: evil',
  'X-Forwarded-Host: evil.example',
  'X-Forwarded-Port: 666',
  'X-Forwarded-Prefix: /evil',
  'Forwarded: for=6.6.6.6;host=evil.example',
  'X-Real-IP: 6.6.6.6',
  'Via: 1.1 evil',
  'Proxy-Authorization: Basic evil',
  'Proxy-Connection: keep-alive',
  'Proxy: http://evil.example',
  'X-Original-URL: /evil',
  'X-Rewrite-URL: /evil',
  'TE: trailers',
  'Trailer: X-Client-Id',
  'Keep-Alive: timeout=666',
  'HTTP2-Settings: evil',
  'X-RateLimit-Remaining: 666',
]

const exactly = {
  'x-client-id': ['pro-client'],
  'x-client-plan': ['pro'],
  'x-forwarded-for': ['127.0.0.1'],
  'x-forwarded-proto': ['http'],
  'x-forwarded-host': ['api.example'],
  host: ['api.example'],
  via: ['1.1 tollgate'],
}

for (const engine of engines) {
  describe(`the backend behind ${engine}`, () => {
    const variants: Record<string, readonly string[]> = {
      'by copies and look-alikes': forged,
      'by nominating them in Connection': [
        'Connection: keep-alive, X-Client-Id, X-Client-Plan, X-Request-Id, X-Forwarded-For, Via, Host, Authorization, Content-Length',
      ],
      'by Connection fields of many spellings': [
        'Connection: x-client-id',
        'Connection: X-CLIENT-PLAN,,  , Host',
        'connection: close, via, x-forwarded-for',
      ],
      'by asking for an upgrade': ['Connection: Upgrade', 'Upgrade: h2c', 'X-Client-Id: evil'],
      'by asking for a WebSocket where there is none': [
        'Connection: Upgrade',
        'Upgrade: websocket',
        'X-Client-Id: evil',
      ],
      'by Expect': ['Expect: 100-continue', 'X-Client-Id: evil'],
      'by an unknown Expect': ['Expect: 200-ok', 'X-Client-Id: evil'],
    }
    for (const [how, fields] of Object.entries(variants)) {
      it(`is told who asks by the gateway alone, whatever a client does ${how}`, () =>
        withWire({ engine }, async ({ exchange, backend, charged, accessLines }) => {
          const { responses } = await exchange(request('GET', '/v1/pets', { fields }), {
            responses: 1,
          })
          expect(responses[0]?.status).toBe(200)
          const [received] = backend.requests
          for (const [name, values] of Object.entries(exactly))
            expect(received?.all(name), name).toEqual(values)
          expect(received?.all('x-request-id')).toEqual(responses[0]?.all('x-request-id'))
          const bytes = backend.connections[0]?.raw().toString('latin1') ?? ''
          // The gateway's own id is random and may hold any digits.
          const raw = bytes.replace(received?.header('x-request-id') ?? '', '')
          expect(raw).not.toMatch(/evil|666|6\.6\.6|expect|upgrade|x_|\btrailers?\b/i)
          expect(raw).not.toContain(keys.pro)
          expect(received?.header('authorization')).toBeUndefined()
          expect(await charged()).toBe(1)
          const [line] = await accessLines(1)
          expect(line?.id).toBe(responses[0]?.header('x-request-id'))
        }))
    }

    it('gets the client its other fields in order, doubles and spelling included', () =>
      withWire({ engine }, async ({ exchange, backend }) => {
        const fields = [
          'accept: a',
          'X-Own: 1',
          'x-own: 2',
          'Cookie: a=b',
          'Cookie: c=d',
          'X-Empty:',
        ]
        await exchange(request('GET', '/v1/pets', { fields }), { responses: 1 })
        const lines = backend.connections[0]?.raw().toString('latin1').split('\r\n') ?? []
        const own = lines.filter((line) => /^(accept|x-own|cookie|x-empty):/i.test(line))
        expect(own.map((line) => line.trimEnd())).toEqual(fields)
      }))

    it('does not get a field that the client nominated as of its connection', () =>
      withWire({ engine }, async ({ exchange, backend }) => {
        const fields = ['X-Hop: 1', 'Connection: x-hop', 'X-Stays: 1']
        await exchange(request('GET', '/v1/pets', { fields }), { responses: 1 })
        expect(backend.requests[0]?.header('x-hop')).toBeUndefined()
        expect(backend.requests[0]?.header('x-stays')).toBe('1')
      }))

    it('cannot speak in the name of the gateway either', () =>
      withWire(
        {
          engine,
          respond: () =>
            answer(
              200,
              'ok',
              'X-RateLimit-Limit: 666',
              'X-RateLimit-Remaining: 666',
              'RateLimit: "evil";r=666;t=1',
              'RateLimit-Policy: "evil";q=666',
              'X-Request-Id: evil',
              'Deprecation: @666',
              'Sunset: evil',
              'X-API-Stability: evil',
              'Upgrade: evil',
              'Keep-Alive: timeout=666',
              'Proxy-Authenticate: evil',
              'Connection: X-Hop',
              'X-Hop: evil',
              'X-Own: kept',
              'Set-Cookie: a=b',
              'Set-Cookie: c=d',
            ),
        },
        async ({ exchange }) => {
          const { responses, raw } = await exchange(request('GET', '/v1/pets'), { responses: 1 })
          expect(raw.toString('latin1')).not.toMatch(/evil|[ =@]666/)
          const [got] = responses
          expect(got?.header('x-own')).toBe('kept')
          expect(got?.all('set-cookie')).toEqual(['a=b', 'c=d'])
          expect(got?.all('x-ratelimit-limit')).toEqual(['300'])
          expect(got?.all('date').length).toBeLessThanOrEqual(1)
        },
      ))
  })
}

describe('an address from a trusted proxy', () => {
  it('is believed, and so is its request id', () =>
    withWire(
      {
        blocks: {
          server: 'server: { listen: "127.0.0.1:0", trustedProxies: [127.0.0.0/8] }',
        },
      },
      async ({ exchange, backend }) => {
        const fields = [
          'X-Forwarded-For: 6.6.6.6, 203.0.113.9',
          'X-Forwarded-Proto: https',
          'X-Request-Id: from-the-proxy',
        ]
        const { responses } = await exchange(request('GET', '/v1/pets', { fields }), {
          responses: 1,
        })
        expect(responses[0]?.all('x-request-id')).toEqual(['from-the-proxy'])
        const [received] = backend.requests
        expect(received?.all('x-request-id')).toEqual(['from-the-proxy'])
        expect(received?.all('x-forwarded-for')).toEqual(['203.0.113.9, 127.0.0.1'])
        expect(received?.all('x-forwarded-proto')).toEqual(['https'])
      },
    ))
})
