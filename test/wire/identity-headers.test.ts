/** Identity and forwarding fields are the gateway's alone: a client cannot set, alias, double or remove them. */
import { describe, expect, it } from 'vitest'
import { answer } from '../support/raw-backend.ts'
import { fields, words } from '../support/words.ts'
import { engines, handshake, keys, request, switched, openWire } from './wire.ts'

/** Where evil is no value that could be believed, another one, that is found again too. */
const believable =
  fields(`X-Forwarded-For: 6.6.6.6 | X-Forwarded-For: 6.6.6.7 | X_Forwarded_For: 6.6.6.8
  | X-Forwarded-Port: 666 | Forwarded: for=6.6.6.6;host=evil.example | TE: trailers
  | Trailer: X-Client-Id | Keep-Alive: timeout=666 | X-RateLimit-Remaining: 666`)
const forged = words(`X-Client-Id x-client-id X_Client_Id X.Client.Id X-Client_Plan X-Client-Plan
  X-Request-Id X_Request_Id X-Forwarded-Proto X-Forwarded-Host X-Real-IP Via Proxy-Authorization
  Proxy-Connection Proxy X-Original-URL X-Rewrite-URL HTTP2-Settings`)
  .map((name) => `${name}: evil`)
  .concat(believable.flatMap((name, at) => (at % 2 ? [] : [`${name}: ${believable[at + 1]}`])))

const exactly = {
  'x-client-id': ['pro-client'],
  'x-client-plan': ['pro'],
  'x-forwarded-for': ['127.0.0.1'],
  'x-forwarded-proto': ['http'],
  'x-forwarded-host': ['api.example'],
  host: ['api.example'],
  via: ['1.1 tollgate'],
}

describe('the backend', () => {
  // Engines write some of them themselves; what else a client may try is in test/core/rules/backend-headers.test.ts.
  it.each(engines)(
    'is told who asks by the gateway alone, whatever copies and look-alikes a client sends (%s)',
    async (engine) => {
      const { ask, backend, charged, accessLines } = await openWire({ engine })
      const got = await ask(request('GET', '/v1/pets', { fields: forged }))
      expect(got.status).toBe(200)
      const [received] = backend.requests
      for (const [name, values] of Object.entries(exactly))
        expect(received?.all(name), name).toEqual(values)
      expect(received?.all('x-request-id')).toEqual(got.all('x-request-id'))
      const bytes = backend.connections[0]?.raw().toString('latin1') ?? ''
      // The gateway's own id is random and may hold any digits.
      const raw = bytes.replace(received?.header('x-request-id') ?? '', '')
      expect(raw).not.toMatch(/evil|666|6\.6\.6|x_|\btrailers?\b/i)
      expect(raw).not.toContain(keys.pro)
      expect(received?.header('authorization')).toBeUndefined()
      expect(await charged()).toBe(1)
      const [line] = await accessLines(1)
      expect(line?.id).toBe(got.header('x-request-id'))
    },
  )
})

describe('Host', () => {
  it.each([
    ['', 'the client’s', () => 'animals.example:8080'],
    ['host: preserve', 'the client’s', () => 'animals.example:8080'],
    ['host: upstream', 'that of the backend', (backend: string) => new URL(backend).host],
    ['host: "api.internal:8443"', 'a fixed one', () => 'api.internal:8443'],
  ])(
    'with "%s" is %s, for requests and upgrades; X-Forwarded-Host is the client’s',
    async (...row) => {
      const [upstream, , expected] = row
      const respond = ({ target }: { target: string }) =>
        target === '/v1/live' ? switched : answer(200, 'ok')
      const { ask, backend } = await openWire({ upstream, respond })
      const host = 'animals.example:8080'
      await ask(request('GET', '/v1/pets', { host }))
      const fields = [...handshake, 'X-Client-Id: evil']
      const upgraded = await ask(request('GET', '/v1/live', { host, fields }))
      expect(upgraded.status).toBe(101)
      const who = backend.requests.map((each) => [
        each.all('x-client-id'),
        each.all('authorization'),
      ])
      expect(who).toEqual(who.map(() => [['pro-client'], []]))
      const hosts = backend.requests.map((each) => [each.all('host'), each.all('x-forwarded-host')])
      const both = [[expected(backend.url)], [host]]
      expect(hosts).toEqual([both, both])
    },
  )
})

describe('the access line', () => {
  it('names the backend that answered, and none where none was asked', async () => {
    const { ask, accessLines, backend } = await openWire()
    await ask(request('GET', '/v1/pets'))
    await ask(request('GET', '/v1/pets', { key: null }))
    const lines = await accessLines(2)
    expect(lines.map((line) => line['backend'])).toEqual([backend.url, undefined])
  })
})

it('an address from a trusted proxy is believed, and so is its request id', async () => {
  const { ask, backend, accessLines } = await openWire({ server: 'trustedProxies: [127.0.0.0/8]' })
  const fields = [
    'X-Forwarded-For: 6.6.6.6, 203.0.113.9',
    'X-Forwarded-Proto: https',
    'X-Request-Id: from-the-proxy',
  ]
  const got = await ask(request('GET', '/v1/pets', { fields }))
  const [received] = backend.requests
  for (const each of [got, received]) expect(each?.all('x-request-id')).toEqual(['from-the-proxy'])
  expect(received?.all('x-forwarded-for')).toEqual(['203.0.113.9, 127.0.0.1'])
  expect(received?.all('x-forwarded-proto')).toEqual(['https'])
  expect(await accessLines(1)).toMatchObject([{ address: '203.0.113.9' }])
})
