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

const nominated = 'X-Client-Id, X-Client-Plan, X-Request-Id, X-Forwarded-For, Via, Host'
const evil = 'X-Client-Id: evil'
const variants: [how: string, fields: readonly string[]][] = [
  ['copies and look-alikes', forged],
  [
    'nominating them in Connection',
    [`Connection: keep-alive, ${nominated}, Authorization, Content-Length`],
  ],
  [
    'Connection fields of many spellings',
    [
      'Connection: x-client-id',
      'Connection: X-CLIENT-PLAN,,  , Host',
      'connection: close, via, x-forwarded-for',
    ],
  ],
  ['asking for an upgrade', ['Connection: Upgrade', 'Upgrade: h2c', evil]],
  [
    'asking for a WebSocket where there is none',
    ['Connection: Upgrade', 'Upgrade: websocket', evil],
  ],
  ['Expect', ['Expect: 100-continue', evil]],
  ['an unknown Expect', ['Expect: 200-ok', evil]],
]
/** Fields that engines write themselves are tried with each; the others are written before any engine. */
const rows = variants.flatMap(([how, fields], at) =>
  (at === 0 ? engines : (['direct'] as const)).map((engine) => [how, engine, fields] as const),
)

describe('the backend', () => {
  it.each(rows)(
    'is told who asks by the gateway alone, whatever a client does by %s (%s)',
    (...row) =>
      withWire({ engine: row[1] }, async ({ ask, backend, charged, accessLines }) => {
        const got = await ask(request('GET', '/v1/pets', { fields: row[2] }))
        expect(got.status).toBe(200)
        const [received] = backend.requests
        for (const [name, values] of Object.entries(exactly))
          expect(received?.all(name), name).toEqual(values)
        expect(received?.all('x-request-id')).toEqual(got.all('x-request-id'))
        const bytes = backend.connections[0]?.raw().toString('latin1') ?? ''
        // The gateway's own id is random and may hold any digits.
        const raw = bytes.replace(received?.header('x-request-id') ?? '', '')
        expect(raw).not.toMatch(/evil|666|6\.6\.6|expect|upgrade|x_|\btrailers?\b/i)
        expect(raw).not.toContain(keys.pro)
        expect(received?.header('authorization')).toBeUndefined()
        expect(await charged()).toBe(1)
        const [line] = await accessLines(1)
        expect(line?.id).toBe(got.header('x-request-id'))
      }),
  )

  it('gets the other fields in order, doubles and spelling included, but those of the connection', () =>
    withWire({}, async ({ ask, backend }) => {
      const own = ['accept: a', 'X-Own: 1', 'x-own: 2', 'Cookie: a=b', 'Cookie: c=d', 'X-Empty:']
      await ask(request('GET', '/v1/pets', { fields: [...own, 'X-Hop: 1', 'Connection: x-hop'] }))
      const lines = backend.connections[0]?.raw().toString('latin1').split('\r\n') ?? []
      const seen = lines.filter((line) => /^(accept|x-own|cookie|x-empty|x-hop):/i.test(line))
      expect(seen.map((line) => line.trimEnd())).toEqual(own)
    }))

  it('cannot speak in the name of the gateway either', () => {
    const fields = [
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
    ]
    const kept = ['X-Own: kept', 'Set-Cookie: a=b', 'Set-Cookie: c=d']
    return withWire(
      { respond: () => answer(200, 'ok', ...fields, ...kept) },
      async ({ exchange }) => {
        const { responses, raw } = await exchange(request('GET', '/v1/pets'), { responses: 1 })
        expect(raw.toString('latin1')).not.toMatch(/evil|[ =@]666/)
        const [got] = responses
        expect(got?.header('x-own')).toBe('kept')
        expect(got?.all('set-cookie')).toEqual(['a=b', 'c=d'])
        expect(got?.all('x-ratelimit-limit')).toEqual(['300'])
        expect(got?.all('date').length).toBeLessThanOrEqual(1)
      },
    )
  })
})

it('an address from a trusted proxy is believed, and so is its request id', () =>
  withWire(
    { blocks: { server: 'server: { listen: "127.0.0.1:0", trustedProxies: [127.0.0.0/8] }' } },
    async ({ ask, backend, accessLines }) => {
      const fields = [
        'X-Forwarded-For: 6.6.6.6, 203.0.113.9',
        'X-Forwarded-Proto: https',
        'X-Request-Id: from-the-proxy',
      ]
      const got = await ask(request('GET', '/v1/pets', { fields }))
      const [received] = backend.requests
      for (const each of [got, received])
        expect(each?.all('x-request-id')).toEqual(['from-the-proxy'])
      expect(received?.all('x-forwarded-for')).toEqual(['203.0.113.9, 127.0.0.1'])
      expect(received?.all('x-forwarded-proto')).toEqual(['https'])
      expect(await accessLines(1)).toMatchObject([{ address: '203.0.113.9' }])
    },
  ))
