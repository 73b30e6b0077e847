/** A client that asks first is answered by the verdict: 100 only for a request that was admitted. */
import { describe, expect, it } from 'vitest'
import { answer } from '../support/raw-backend.ts'
import {
  engines,
  expectRefusal,
  keys,
  request,
  serverBlock,
  SMALL_LIMITS,
  withWire,
} from './wire.ts'

const EXPECT = 'Expect: 100-continue'
const SMUGGLED = request('GET', '/v1/pets/smuggled')

for (const engine of engines) {
  describe(`Expect: 100-continue through ${engine}`, () => {
    it('is told to go on once admitted, and the backend hears nothing of it', () =>
      withWire({ engine }, async ({ connect, backend, charged }) => {
        const client = await connect()
        client.send(request('POST', '/v1/pets', { fields: [EXPECT, 'Content-Length: 2'] }))
        const asked = await client.waitFor(({ responses }) => responses.length > 0)
        expect(asked.responses[0]?.status).toBe(100)
        client.send('{}')
        const { responses } = await client.waitForResponses(1)
        expect(responses.map(({ status }) => status)).toEqual([100, 200])
        expect(backend.requests[0]?.body.toString()).toBe('{}')
        expect(backend.requests[0]?.header('expect')).toBeUndefined()
        client.send(request('GET', '/v1/pets'))
        await client.waitForResponses(2)
        expect(await charged()).toBe(2)
      }))

    it('works for a client that does not wait, with a chunked body too', () =>
      withWire({ engine }, async ({ exchange, backend, charged }) => {
        const { responses } = await exchange(
          request('DELETE', '/v1/pets/1', {
            fields: [EXPECT, 'Transfer-Encoding: chunked'],
            body: '2\r\n{}\r\n0\r\n\r\n',
          }),
          { responses: 1 },
        )
        expect(responses.map(({ status }) => status)).toEqual([100, 200])
        expect(backend.requests[0]?.body.toString()).toBe('{}')
        expect(await charged()).toBe(1)
      }))

    it('is told in its turn, behind the answers to earlier requests on the connection', () =>
      withWire(
        // The second answer waits for the first: a 100 that waits too would go out between its head and its body.
        {
          engine,
          respond: ({ method }) => (method === 'GET' ? [15, answer(200, 'ok')] : answer(200, 'ok')),
        },
        async ({ connect }) => {
          for (let round = 0; round < 20; round++) {
            const client = await connect()
            const fields = [EXPECT, 'Content-Length: 2']
            client.send(
              request('GET', '/v1/pets') + request('POST', '/v1/pets', { fields, body: '{}' }),
            )
            const { responses, problem } = await client.waitForResponses(2)
            const told = responses.map(({ status, body }) => `${status} ${body.toString()}`)
            // No 100 where the second answer is there before the first has gone out.
            expect(told.join()).toMatch(/^200 ok,(100 ,)?200 ok$/)
            expect(problem).toBeUndefined()
            client.destroy()
          }
        },
      ))

    it('is not told to go on without a body to send', () =>
      withWire({ engine }, async ({ exchange, backend }) => {
        const { responses } = await exchange(request('GET', '/v1/pets', { fields: [EXPECT] }), {
          responses: 1,
        })
        expect(responses.map(({ status }) => status)).toEqual([200])
        expect(backend.requests[0]?.header('expect')).toBeUndefined()
      }))

    it('ends with the answer of a backend that does not want the body', () =>
      withWire(
        {
          engine,
          requestsMayBreakOff: true,
          onHead: (_request, { play }) =>
            void play('HTTP/1.1 403 Forbidden\r\nContent-Length: 2\r\n\r\nno'),
          respond: () => undefined,
        },
        async ({ connect, served }) => {
          const client = await connect()
          const fields = [EXPECT, 'Content-Length: 200000']
          client.send(request('POST', '/v1/pets', { fields, body: '{'.repeat(100_000) }))
          const { responses } = await client.waitForResponses(1)
          expect(responses.at(-1)?.status).toBe(403)
          expect(responses.at(-1)?.header('connection')).toBe('close')
          client.send(SMUGGLED)
          await client.waitFor(({ closed }) => closed)
          expect(served()).toEqual([])
        },
      ))
  })
}

describe('Expect: 100-continue that is refused', () => {
  const cases: Record<string, { bytes: string; status: number; code: string }> = {
    'without a key': {
      bytes: request('POST', '/v1/pets', { key: null, fields: [EXPECT, 'Content-Length: 2'] }),
      status: 401,
      code: 'missing_api_key',
    },
    'for a body that is too large': {
      bytes: request('POST', '/v1/pets', { fields: [EXPECT, 'Content-Length: 5000'] }),
      status: 413,
      code: 'body_too_large',
    },
    'for ambiguous framing': {
      bytes: request('POST', '/v1/pets', {
        fields: [EXPECT, 'Content-Length: 2', 'Content_Length: 3'],
      }),
      status: 400,
      code: 'invalid_request',
    },
    'for an unknown path': {
      bytes: request('POST', '/v1/nothing', { fields: [EXPECT, 'Content-Length: 2'] }),
      status: 404,
      code: 'not_found',
    },
    'outside the base path': {
      bytes: request('POST', '/', { fields: [EXPECT, 'Content-Length: 2'] }),
      status: 404,
      code: 'not_found',
    },
    'without a length': {
      bytes: request('POST', '/v1/pets', { fields: [EXPECT] }),
      status: 411,
      code: 'length_required',
    },
  }
  for (const [what, { bytes, status, code }] of Object.entries(cases)) {
    it(`gets no 100, and what follows is not read as a request: ${what}`, () =>
      withWire({ blocks: { server: serverBlock(SMALL_LIMITS) } }, async (wire) => {
        const client = await wire.connect()
        client.send(bytes)
        const { responses } = await client.waitForResponses(1)
        expectRefusal(responses[0], status, { code, closes: true })
        for (let packet = 0; packet < 3; packet++) {
          client.send(SMUGGLED)
          await new Promise((resolve) => setTimeout(resolve, 10))
        }
        const after = await client.waitFor(({ closed }) => closed)
        expect(after.responses).toHaveLength(1)
        expect(wire.served()).toEqual([])
        expect(await wire.charged()).toBe(0)
      }))
  }

  it('gets no 100 when the quota is used up', () =>
    withWire(
      {
        blocks: {
          plans: `plans:
  free: { perMinute: 1, perDay: 1 }
  pro: { perMinute: 300, perDay: 10000 }
  business: { perMinute: 1000, perDay: 100000 }
  enterprise: { custom: true }`,
        },
      },
      async ({ exchange, connect, served }) => {
        await exchange(request('GET', '/v1/pets', { key: keys.free }), { responses: 1 })
        const client = await connect()
        client.send(
          request('POST', '/v1/pets', { key: keys.free, fields: [EXPECT, 'Content-Length: 2'] }),
        )
        const { responses } = await client.waitForResponses(1)
        expectRefusal(responses[0], 429, { code: 'rate_limit_exceeded', closes: true })
        expect(responses).toHaveLength(1)
        expect(served()).toEqual(['GET /v1/pets'])
      },
    ))
})
