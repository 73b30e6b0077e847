/** upstream.host: what backends get as Host, and which backend the access line names. */
import { describe, expect, it } from 'vitest'
import { freePort } from '../support/redis-server.ts'
import { answer } from '../support/raw-backend.ts'
import { handshake, request, switched, withWire } from './wire.ts'

describe('Host', () => {
  it.each([
    ['', 'the client’s', () => 'animals.example:8080'],
    ['host: preserve', 'the client’s', () => 'animals.example:8080'],
    ['host: upstream', 'that of the backend', (backend: string) => new URL(backend).host],
    ['host: "api.internal:8443"', 'a fixed one', () => 'api.internal:8443'],
  ])('with "%s" is %s, for requests and upgrades; X-Forwarded-Host is the client’s', (...row) => {
    const [upstream, , expected] = row
    const respond = ({ target }: { target: string }) =>
      target === '/v1/live' ? switched : answer(200, 'ok')
    return withWire({ upstream, respond }, async ({ ask, backend }) => {
      const host = 'animals.example:8080'
      await ask(request('GET', '/v1/pets', { host }))
      const upgraded = await ask(request('GET', '/v1/live', { host, fields: handshake }))
      expect(upgraded.status).toBe(101)
      const hosts = backend.requests.map((each) => [each.all('host'), each.all('x-forwarded-host')])
      const both = [[expected(backend.url)], [host]]
      expect(hosts).toEqual([both, both])
    })
  })
})

describe('the access line', () => {
  it('names the backend that answered, and none where none was asked', () =>
    withWire({}, async ({ ask, accessLines, backend }) => {
      await ask(request('GET', '/v1/pets'))
      await ask(request('GET', '/v1/pets', { key: null }))
      const lines = await accessLines(2)
      expect(lines.map((line) => line['backend'])).toEqual([backend.url, undefined])
    }))

  it('names the last backend that was tried', async () => {
    const nobody = `http://127.0.0.1:${await freePort()}`
    await withWire({ origin: nobody }, async ({ ask, accessLines }) => {
      await ask(request('GET', '/v1/pets'))
      expect(await accessLines(1)).toMatchObject([{ status: 502, backend: nobody }])
    })
  })
})
