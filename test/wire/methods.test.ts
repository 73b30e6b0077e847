/** Methods that the gateway does not take, and those it answers itself, never reach the backend. */
import { describe, expect, it } from 'vitest'
import { engines, expectGatewayFields, expectRefusal, request, withWire } from './wire.ts'

const SMUGGLED = request('GET', '/v1/pets/smuggled')
const FORWARD = { unmatched: 'unmatched: forward' }

describe('a method that is not supported', () => {
  for (const method of ['TRACE', 'PROPFIND', 'LINK', 'PURGE', 'M-SEARCH', 'FOO', 'get', 'Post'])
    it(`is refused with 501, and nothing behind it is served: ${method}`, () =>
      withWire({ blocks: FORWARD }, async ({ exchange, served, charged }) => {
        const { responses, closed } = await exchange(request(method, '/v1/pets') + SMUGGLED)
        expectRefusal(responses[0], 501, { code: 'method_not_implemented', closes: true })
        expect(responses).toHaveLength(1)
        expect(closed).toBe(true)
        expect(served()).toEqual([])
        expect(await charged()).toBe(0)
      }))

  for (const target of ['api.example:443', '127.0.0.1:9090', '/v1/pets', '*'])
    it(`is refused with 501 and no tunnel: CONNECT ${target}`, () =>
      withWire({ blocks: FORWARD }, async ({ exchange, served, charged, accessLines }) => {
        const { responses, closed } = await exchange(request('CONNECT', target) + SMUGGLED)
        expectRefusal(responses[0], 501, { code: 'method_not_implemented', closes: true })
        expect(responses).toHaveLength(1)
        expect(closed).toBe(true)
        expect(served()).toEqual([])
        expect(await charged()).toBe(0)
        expect(await accessLines(1)).toHaveLength(1)
      }))

  it('is refused without a key too, and its body is not read as a request', () =>
    withWire({}, async ({ exchange, served, charged }) => {
      const { responses, closed } = await exchange(
        request('TRACE', '/v1/pets', {
          key: null,
          fields: [`Content-Length: ${SMUGGLED.length}`],
          body: SMUGGLED,
        }),
      )
      expectRefusal(responses[0], 501, { code: 'method_not_implemented', closes: true })
      expect(responses).toHaveLength(1)
      expect(closed).toBe(true)
      expect(served()).toEqual([])
      expect(await charged()).toBe(0)
    }))
})

describe('OPTIONS *', () => {
  it('is answered here, for free, and the connection goes on', () =>
    withWire({}, async ({ exchange, served, charged }) => {
      const { responses } = await exchange(
        request('OPTIONS', '*', { key: null }) + request('GET', '/v1/pets'),
        { responses: 2 },
      )
      expect(responses.map(({ status }) => status)).toEqual([200, 200])
      expect(responses[0]?.header('allow')).toContain('GET')
      expect(responses[0]?.header('content-length')).toBe('0')
      expectGatewayFields(responses[0])
      expect(served()).toEqual(['GET /v1/pets'])
      expect(await charged()).toBe(1)
    }))

  it('does not let its unread body pass for a request', () =>
    withWire({}, async ({ exchange, served }) => {
      const chunk = `${SMUGGLED.length.toString(16)}\r\n${SMUGGLED}\r\n`
      const { responses } = await exchange(
        request('OPTIONS', '*', { fields: ['Transfer-Encoding: chunked'], body: chunk }),
        { responses: 1 },
      )
      expect(responses).toHaveLength(1)
      expect(served()).toEqual([])
    }))

  it('is refused for any other method', () =>
    withWire({}, async ({ exchange, served }) => {
      const { responses } = await exchange(request('GET', '*'))
      expectRefusal(responses[0], 400, { code: 'invalid_request', closes: true })
      expect(served()).toEqual([])
    }))
})

describe('a method that the route does not take', () => {
  it('is 405 with Allow for who has a key, and 401 for who has none', () =>
    withWire({}, async ({ exchange, served, charged }) => {
      const known = await exchange(request('DELETE', '/v1/pets'), { responses: 1 })
      expectRefusal(known.responses[0], 405, { code: 'method_not_allowed', closes: false })
      expect(known.responses[0]?.header('allow')).toBe('GET, HEAD, POST')
      const stranger = await exchange(request('DELETE', '/v1/pets', { key: null }), {
        responses: 1,
      })
      expectRefusal(stranger.responses[0], 401, { code: 'missing_api_key', closes: false })
      expect(stranger.responses[0]?.header('www-authenticate')).toBe('Bearer')
      expect(stranger.responses[0]?.header('allow')).toBeUndefined()
      expect(served()).toEqual([])
      expect(await charged()).toBe(0)
    }))
})

for (const engine of engines) {
  describe(`HEAD and OPTIONS through ${engine}`, () => {
    it('are charged like GET, and the answer to HEAD has no body', () =>
      withWire(
        {
          engine,
          blocks: FORWARD,
          respond: ({ method }) =>
            method === 'HEAD'
              ? 'HTTP/1.1 200 OK\r\nContent-Length: 1234\r\n\r\n'
              : 'HTTP/1.1 204 No Content\r\n\r\n',
        },
        async ({ exchange, served, charged }) => {
          const { responses, problem } = await exchange(
            request('HEAD', '/v1/pets') + request('OPTIONS', '/v1/pets'),
            { responses: 2, methods: ['HEAD', 'OPTIONS'] },
          )
          expect(problem).toBeUndefined()
          expect(responses.map(({ status }) => status)).toEqual([200, 204])
          expect(responses[0]?.header('content-length')).toBe('1234')
          expect(served()).toEqual(['HEAD /v1/pets', 'OPTIONS /v1/pets'])
          expect(await charged()).toBe(2)
        },
      ))
  })
}

describe('the refusal of a HEAD', () => {
  it('has the headers of its body and no body', () =>
    withWire({}, async ({ exchange }) => {
      const { responses, raw } = await exchange(
        request('HEAD', '/v1/pets', { key: null }) + request('GET', '/v1/pets'),
        { responses: 2, methods: ['HEAD', 'GET'] },
      )
      expect(responses.map(({ status }) => status)).toEqual([401, 200])
      expect(Number(responses[0]?.header('content-length'))).toBeGreaterThan(0)
      expect(raw.includes('missing_api_key')).toBe(false)
    }))
})
