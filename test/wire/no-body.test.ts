/** Neither length nor coding means no body (RFC 9112 section 6.3), whatever the method. */
import { describe, expect, it } from 'vitest'
import { engines, request, withWire } from './wire.ts'

for (const engine of engines) {
  describe(`a request without length and coding through ${engine}`, () => {
    it.each([
      ['POST', '/v1/pets'],
      ['PUT', '/v1/pets/1'],
      ['PATCH', '/v1/pets/1'],
    ])('is forwarded with a length of 0, and what follows is a request: %s', (method, target) =>
      withWire({ engine }, async ({ exchange, backend, served, charged }) => {
        const { responses } = await exchange(
          request(method, target) + request('GET', '/v1/pets/next'),
          { responses: 2 },
        )
        expect(responses.map(({ status }) => status)).toEqual([200, 200])
        expect(served()).toEqual([`${method} ${target}`, 'GET /v1/pets/next'])
        expect(backend.requests.map((each) => each.all('content-length'))).toEqual([['0'], []])
        expect(backend.requests.flatMap((each) => each.all('transfer-encoding'))).toEqual([])
        expect(await charged()).toBe(2)
      }),
    )

    it('is forwarded with nothing said of a body: DELETE', () =>
      withWire({ engine }, async ({ exchange, backend }) => {
        const { responses } = await exchange(request('DELETE', '/v1/pets/1'), { responses: 1 })
        expect(responses[0]?.status).toBe(200)
        expect(backend.requests[0]?.all('content-length')).toEqual([])
      }))
  })
}

it('is a request without a body in HTTP/1.0 too', () =>
  withWire({}, async ({ exchange, backend }) => {
    const { responses } = await exchange(
      request('POST', '/v1/pets').replace('HTTP/1.1', 'HTTP/1.0'),
    )
    expect(responses[0]?.status).toBe(200)
    expect(backend.requests[0]?.all('content-length')).toEqual(['0'])
  }))
