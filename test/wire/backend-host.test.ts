/** upstream.host: what backends get as Host, and which backend the access line names. */
import { describe, expect, it } from 'vitest'
import { freePort } from '../support/redis-server.ts'
import { answer } from '../support/raw-backend.ts'
import { engines, request, withWire } from './wire.ts'

const switching =
  'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n'
const WEBSOCKET = [
  'Connection: Upgrade',
  'Upgrade: websocket',
  'Sec-WebSocket-Version: 13',
  'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
]

for (const engine of engines) {
  describe(`Host through ${engine}`, () => {
    it.each([
      ['', 'the client’s', () => 'animals.example:8080'],
      ['host: preserve', 'the client’s', () => 'animals.example:8080'],
      ['host: upstream', 'that of the backend', (backend: string) => new URL(backend).host],
      ['host: "api.internal:8443"', 'a fixed one', () => 'api.internal:8443'],
    ])(
      'with "%s" is %s, for requests and upgrades; X-Forwarded-Host is the client’s',
      (upstream, _, expected) =>
        withWire(
          {
            engine,
            upstream,
            respond: ({ target }) => (target === '/v1/live' ? switching : answer(200, 'ok')),
          },
          async ({ exchange, connect, backend }) => {
            const withHost = (text: string) =>
              text.replace(/Host: .*\r\n/, 'Host: animals.example:8080\r\n')
            await exchange(withHost(request('GET', '/v1/pets')), { responses: 1 })
            const client = await connect()
            client.send(withHost(request('GET', '/v1/live', { fields: WEBSOCKET })))
            expect((await client.waitForResponses(1)).responses[0]?.status).toBe(101)
            expect(backend.requests.map((each) => each.all('host'))).toEqual([
              [expected(backend.url)],
              [expected(backend.url)],
            ])
            for (const each of backend.requests)
              expect(each.all('x-forwarded-host')).toEqual(['animals.example:8080'])
            client.end()
          },
        ),
    )
  })
}

describe('the access line', () => {
  it('names the backend that answered, and none where none was asked', () =>
    withWire({}, async ({ exchange, accessLines, backend }) => {
      await exchange(request('GET', '/v1/pets'), { responses: 1 })
      await exchange(request('GET', '/v1/pets', { key: null }), { responses: 1 })
      const lines = await accessLines(2)
      expect(lines.map((line) => line['backend'])).toEqual([backend.url, undefined])
    }))

  it('names the last backend that was tried', async () => {
    const nobody = `http://127.0.0.1:${await freePort()}`
    await withWire({ origin: nobody }, async ({ exchange, accessLines }) => {
      await exchange(request('GET', '/v1/pets'), { responses: 1 })
      expect(await accessLines(1)).toMatchObject([{ status: 502, backend: nobody }])
    })
  })
})
