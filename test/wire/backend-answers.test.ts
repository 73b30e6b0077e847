/** Whatever a backend answers: one clean answer or a cut connection for this client, nothing of it for the next one. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { answer, closeConnection, resetConnection, type Answer } from '../support/raw-backend.ts'
import { engines, expectGatewayFields, expectRefusal, request, withWire } from './wire.ts'

const get = (id: string): string => request('GET', `/v1/pets/${id}`)
const LEAKED = 'HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nleaked'

/** Answers that are not HTTP, or that two readers could understand differently. */
const unusable: Record<string, Answer> = {
  'status 000': 'HTTP/1.1 000 Nothing\r\nContent-Length: 0\r\n\r\n',
  'status 099': 'HTTP/1.1 099 Low\r\nContent-Length: 0\r\n\r\n',
  'status 1000': 'HTTP/1.1 1000 High\r\nContent-Length: 0\r\n\r\n',
  'status 600': 'HTTP/1.1 600 High\r\nContent-Length: 0\r\n\r\n',
  'status 999': 'HTTP/1.1 999 High\r\nContent-Length: 0\r\n\r\n',
  'status OK': 'HTTP/1.1 OK\r\nContent-Length: 0\r\n\r\n',
  'a 101 that nobody asked for': `HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: evil\r\n\r\n${LEAKED}`,
  'both framings': `HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`,
  'two lengths': 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 4\r\n\r\nokok',
  'a length that is no number': 'HTTP/1.1 200 OK\r\nContent-Length: two\r\n\r\nok',
  'a negative length': 'HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok',
  'an unknown coding': ['HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nok', closeConnection],
  'two codings': [
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
  ],
  // The head was good, but nothing of it has been passed on yet.
  'a first chunk that is none': 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\nok',
  'a control byte in a field': 'HTTP/1.1 200 OK\r\nX-One: a\x01b\r\nContent-Length: 0\r\n\r\n',
  'a NUL in a field': 'HTTP/1.1 200 OK\r\nX-One: a\0b\r\nContent-Length: 0\r\n\r\n',
  'a space before the colon': 'HTTP/1.1 200 OK\r\nContent-Length : 0\r\n\r\n',
  'a folded field': 'HTTP/1.1 200 OK\r\nX-One: a\r\n b\r\nContent-Length: 0\r\n\r\n',
  'a field without a colon': 'HTTP/1.1 200 OK\r\nX-One\r\nContent-Length: 0\r\n\r\n',
  'a head beyond all bounds': `HTTP/1.1 200 OK\r\nX-Big: ${'x'.repeat(200_000)}\r\n\r\n`,
  'thousands of fields': `HTTP/1.1 200 OK\r\n${'X-One: a\r\n'.repeat(3_000)}Content-Length: 0\r\n\r\n`,
  'no HTTP at all': 'SSH-2.0-OpenSSH_9.9\r\n',
  'HTTP/0.9': ['<html>', closeConnection],
  'a close without a word': closeConnection,
  'a reset without a word': resetConnection,
  'half a head': ['HTTP/1.1 200 OK\r\nContent-Le', closeConnection],
  'an interim answer and a close': ['HTTP/1.1 100 Continue\r\n\r\n', closeConnection],
}

/** Answers that are good, or can be made good. */
const usable: Record<string, { sent: Answer; status: number; body: string; length?: string }> = {
  'a body on a 204': {
    sent: `HTTP/1.1 204 No Content\r\nContent-Length: ${LEAKED.length}\r\n\r\n${LEAKED}`,
    status: 204,
    body: '',
  },
  'a body on a 304': {
    sent: `HTTP/1.1 304 Not Modified\r\nContent-Length: ${LEAKED.length}\r\n\r\n${LEAKED}`,
    status: 304,
    body: '',
  },
  'interim answers': {
    sent: [
      'HTTP/1.1 103 Early Hints\r\nLink: </evil>\r\n\r\nHTTP/1.1 102 Wait\r\n\r\n',
      20,
      'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok',
    ],
    status: 200,
    body: 'ok',
  },
  'a second answer nobody asked for': {
    sent: `HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok${LEAKED}`,
    status: 200,
    body: 'ok',
  },
  'a second answer in a later packet': {
    sent: ['HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok', 10, LEAKED],
    status: 200,
    body: 'ok',
  },
  'the same length twice': {
    sent: 'HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-One: a\r\n\r\n',
    status: 200,
    body: '',
  },
  'a body that ends with the connection': {
    sent: ['HTTP/1.1 200 OK\r\n\r\n', 'ok', 20, 'ok', closeConnection],
    status: 200,
    body: 'okok',
  },
  'an answer of HTTP/1.0': {
    sent: ['HTTP/1.0 200 OK\r\n\r\nok', closeConnection],
    status: 200,
    body: 'ok',
  },
  'trailer fields': {
    sent: 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nX-Request-Id: evil\r\n\r\n',
    status: 200,
    body: 'ok',
  },
  'no reason phrase': {
    sent: 'HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok',
    status: 200,
    body: 'ok',
  },
  'an unknown but valid status': {
    sent: 'HTTP/1.1 299 Evil\r\nContent-Length: 2\r\n\r\nok',
    status: 299,
    body: 'ok',
  },
  'its own 404': { sent: answer(404, '{"code":"x"}'), status: 404, body: '{"code":"x"}' },
  'its own 500': { sent: answer(500, 'oh'), status: 500, body: 'oh' },
  'its own 429': { sent: answer(429, 'oh', 'Retry-After: 7'), status: 429, body: 'oh' },
  'its own 401': { sent: answer(401, 'oh', 'WWW-Authenticate: Basic'), status: 401, body: 'oh' },
}

/** Answers whose body breaks off. */
const cutOff: Record<string, Answer> = {
  'a declared body, closed': [
    'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf',
    40,
    closeConnection,
  ],
  'a declared body, reset': [
    'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf',
    40,
    resetConnection,
  ],
  'a chunked body, closed': [
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n',
    40,
    closeConnection,
  ],
  'a chunked body, with a bad chunk': [
    'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n',
    40,
    'zz\r\n',
  ],
  'a body without a length, reset': ['HTTP/1.1 200 OK\r\n\r\nhalf', 40, resetConnection],
}

for (const engine of engines) {
  describe(`a backend behind ${engine}`, () => {
    for (const [what, sent] of Object.entries(unusable)) {
      it(`that answers with ${what} is a 502, and the next request is sound`, () =>
        withWire(
          {
            engine,
            respond: ({ target }) => (target.endsWith('bad') ? sent : answer(200, target)),
          },
          async ({ exchange, charged, accessLines, settled }) => {
            const { responses, problem, raw } = await exchange(get('bad') + get('good'), {
              responses: 2,
            })
            expect(problem).toBeUndefined()
            expectRefusal(responses[0], 502, { code: 'bad_gateway', closes: false })
            expect(responses[1]?.status).toBe(200)
            expect(responses[1]?.body.toString()).toBe('/v1/pets/good')
            expect(raw.includes('leaked')).toBe(false)
            await sleep(20)
            const later = await exchange(get('later'), { responses: 1 })
            expect(later.responses[0]?.body.toString()).toBe('/v1/pets/later')
            expect(await accessLines(3)).toHaveLength(3)
            await settled()
            // The request had reached the backend: it stays charged.
            expect(await charged()).toBe(3)
          },
        ))
    }

    for (const [what, { sent, status, body }] of Object.entries(usable)) {
      it(`that answers with ${what} is passed on, and the next request is sound`, () =>
        withWire(
          {
            engine,
            respond: ({ target }) => (target.endsWith('odd') ? sent : answer(200, target)),
          },
          async ({ exchange, charged }) => {
            const { responses, problem, raw } = await exchange(get('odd') + get('good'), {
              responses: 2,
            })
            expect(problem).toBeUndefined()
            expect(responses.map((each) => each.status)).toEqual([status, 200])
            expect(responses[0]?.body.toString()).toBe(body)
            expectGatewayFields(responses[0])
            expect(responses[1]?.body.toString()).toBe('/v1/pets/good')
            expect(raw.toString('latin1')).not.toMatch(/leaked|evil/i)
            await sleep(20)
            const later = await exchange(get('later'), { responses: 1 })
            expect(later.responses[0]?.body.toString()).toBe('/v1/pets/later')
            expect(await charged()).toBe(3)
          },
        ))
    }

    it.each([
      ['at once', `HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok${LEAKED}`],
      ['a little later', ['HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok', 40, LEAKED]],
    ])('that answers twice, %s, is counted, and named once', (_, sent) =>
      withWire({ engine, respond: () => sent }, async ({ exchange, gateway, backend }) => {
        for (let times = 1; times <= 2; times++) {
          await exchange(get('1'), { responses: 1 })
          await backend.waitFor(() => backend.openConnections() === 0, 'the end of the connection')
          const counted = `tollgate_backend_surplus_total{backend="${backend.url}"}`
          await expect.poll(() => gateway.metric(counted)).toBe(times)
        }
        const named = gateway.logLines().filter(({ event }) => event === 'backendSurplus')
        expect(named).toMatchObject([{ level: 'error', backend: backend.url }])
      }),
    )

    it('that sends a 100 nobody asked for holds up nobody else', () =>
      withWire(
        {
          engine,
          respond: ({ target }) => [
            target.endsWith('odd') ? 'HTTP/1.1 100 Continue\r\n\r\n' : '',
            answer(200, target),
          ],
        },
        async ({ exchange }) => {
          const { responses, problem } = await exchange(get('odd') + get('good'), { responses: 2 })
          expect(problem).toBeUndefined()
          // undici takes it for a broken answer, Node's own client drops it (RFC 9110 15.2.1).
          expect(responses[0]?.status).toBe(engine === 'undici' ? 502 : 200)
          expect(responses[1]?.body.toString()).toBe('/v1/pets/good')
        },
      ))

    it('that sends control bytes in its reason phrase has them dropped', () =>
      withWire(
        { engine, respond: () => 'HTTP/1.1 200 O\x01K\x7f\r\nContent-Length: 2\r\n\r\nok' },
        async ({ exchange }) => {
          const { responses, problem } = await exchange(get('1'), { responses: 1 })
          expect(problem).toBeUndefined()
          expect([200, 502]).toContain(responses[0]?.status)
        },
      ))

    it('that answers HEAD with a body has it dropped', () =>
      withWire(
        {
          engine,
          respond: ({ method, target }) =>
            method === 'HEAD'
              ? `HTTP/1.1 200 OK\r\nContent-Length: ${LEAKED.length}\r\n\r\n${LEAKED}`
              : answer(200, target),
        },
        async ({ exchange }) => {
          const { responses, raw, problem } = await exchange(
            request('HEAD', '/v1/pets') + get('good'),
            { responses: 2, methods: ['HEAD', 'GET'] },
          )
          expect(problem).toBeUndefined()
          expect(responses.map(({ status }) => status)).toEqual([200, 200])
          expect(responses[1]?.body.toString()).toBe('/v1/pets/good')
          expect(raw.includes('leaked')).toBe(false)
        },
      ))

    for (const [what, sent] of Object.entries(cutOff)) {
      it(`that breaks off never looks complete: ${what}`, () =>
        withWire({ engine, respond: () => sent }, async ({ exchange, charged, accessLines }) => {
          const { responses, closed } = await exchange(get('1'))
          expect(closed).toBe(true)
          // A body that ends with the connection would look complete to its reader: it is sent in chunks.
          expect(responses[0]?.complete).toBe(false)
          expect(responses[0]?.framing).not.toBe('close')
          expect(responses[0]?.body.toString()).toBe('half')
          const [line] = await accessLines(1)
          expect(line?.cause).toBeTypeOf('string')
          expect(await charged()).toBe(1)
        }))
    }

    it('that never answers is a 504', () =>
      withWire(
        { engine, upstream: 'timeouts: { response: 300ms }', respond: () => undefined },
        async ({ exchange, charged, backend }) => {
          const { responses } = await exchange(get('1'), { responses: 1 })
          expectRefusal(responses[0], 504, { code: 'gateway_timeout', closes: false })
          expect(await charged()).toBe(1)
          await backend.waitFor(() => backend.openConnections() === 0, 'the dead request')
        },
      ))

    it('that sends interim answers for ever is a 504', () =>
      withWire(
        {
          engine,
          upstream: 'timeouts: { response: 300ms }',
          respond: () =>
            Array.from({ length: 200 }, () => ['HTTP/1.1 102 Wait\r\n\r\n', 20]).flat(),
        },
        async ({ exchange }) => {
          const { responses } = await exchange(get('1'), { responses: 1 })
          expectRefusal(responses[0], 504, { code: 'gateway_timeout', closes: false })
        },
      ))

    it('that stops in mid-body is cut off', () =>
      withWire(
        {
          engine,
          upstream: 'timeouts: { response: 300ms }',
          respond: () => 'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf',
        },
        async ({ exchange, backend }) => {
          const { responses, closed } = await exchange(get('1'))
          expect(closed).toBe(true)
          expect(responses[0]?.complete).toBe(false)
          await backend.waitFor(() => backend.openConnections() === 0, 'the dead request')
        },
      ))

    it('that is not there is a 502, for free', () =>
      withWire({ engine, noBackend: true }, async ({ exchange, charged }) => {
        const { responses } = await exchange(
          get('1') + request('POST', '/v1/pets', { fields: ['Content-Length: 2'], body: '{}' }),
          { responses: 2 },
        )
        expectRefusal(responses[0], 502, { code: 'bad_gateway', closes: false })
        expect(responses[1]?.status).toBe(502)
        expect(await charged()).toBe(0)
      }))

    it('that answers before the body has come ends the connection with its answer', () =>
      withWire(
        {
          engine,
          requestsMayBreakOff: true,
          onHead: (_request, { play }) => void play(answer(403, 'no')),
          respond: () => undefined,
        },
        async ({ connect, served, charged }) => {
          const client = await connect()
          const fields = ['Content-Length: 1000000']
          client.send(request('POST', '/v1/pets', { fields, body: 'x'.repeat(100_000) }))
          const { responses } = await client.waitForResponses(1)
          expect(responses[0]?.status).toBe(403)
          expect(responses[0]?.body.toString()).toBe('no')
          expect(responses[0]?.header('connection')).toBe('close')
          client.send(get('smuggled'))
          await client.waitFor(({ closed }) => closed)
          expect(served()).toEqual([])
          expect(await charged()).toBe(1)
        },
      ))

    it('whose kept connection died gets a GET once more, and a POST never', () =>
      withWire(
        {
          engine,
          respond: ({ target, connection, method }) => {
            if (target.endsWith('warm')) return answer(200, target)
            // The first connection dies with its second request.
            return connection === 1 || method === 'POST' ? closeConnection : answer(200, target)
          },
        },
        async ({ exchange, served, charged }) => {
          await exchange(get('warm'), { responses: 1 })
          const again = await exchange(get('cold'), { responses: 1 })
          expect(again.responses[0]?.status).toBe(200)
          const post = await exchange(
            request('POST', '/v1/pets', { fields: ['Content-Length: 2'], body: '{}' }),
            { responses: 1 },
          )
          expectRefusal(post.responses[0], 502, { code: 'bad_gateway', closes: false })
          expect(served()).toEqual([
            'GET /v1/pets/warm',
            'GET /v1/pets/cold',
            'GET /v1/pets/cold',
            'POST /v1/pets',
          ])
          expect(await charged()).toBe(3)
        },
      ))
  })
}
