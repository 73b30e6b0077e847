/**
 * Whatever a backend answers: one clean answer or a cut connection for this client, nothing of it for the next one. What
 * each engine makes of many more such answers is in test/contract.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { answer, closeConnection, resetConnection, type Answer } from '../support/raw-backend.ts'
import { engines, expectGatewayFields, expectRefusal, request, withWire } from './wire.ts'

const get = (id: string): string => request('GET', `/v1/pets/${id}`)
const ok = 'HTTP/1.1 200 OK\r\n'
const LEAKED = `${ok}Content-Length: 6\r\n\r\nleaked`
const okTwo = `${ok}Content-Length: 2\r\n\r\nok`

/** Answers that are not HTTP, or that two readers could understand differently. */
const unusable: [what: string, sent: Answer][] = [
  ['status 000', 'HTTP/1.1 000 Nothing\r\nContent-Length: 0\r\n\r\n'],
  ['status 600', 'HTTP/1.1 600 High\r\nContent-Length: 0\r\n\r\n'],
  ['status OK', 'HTTP/1.1 OK\r\nContent-Length: 0\r\n\r\n'],
  [
    'a 101 that nobody asked for',
    `HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: evil\r\n\r\n${LEAKED}`,
  ],
  ['both framings', `${ok}Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n`],
  ['two lengths', `${ok}Content-Length: 2\r\nContent-Length: 4\r\n\r\nokok`],
  ['an unknown coding', [`${ok}Transfer-Encoding: gzip\r\n\r\nok`, closeConnection]],
  // The head was good, but nothing of it has been passed on yet.
  ['a first chunk that is none', `${ok}Transfer-Encoding: chunked\r\n\r\nxyz\r\nok`],
  ['a control byte in a field', `${ok}X-One: a\x01b\r\nContent-Length: 0\r\n\r\n`],
  ['a folded field', `${ok}X-One: a\r\n b\r\nContent-Length: 0\r\n\r\n`],
  ['thousands of fields', `${ok}${'X-One: a\r\n'.repeat(3_000)}Content-Length: 0\r\n\r\n`],
  ['HTTP/0.9', ['<html>', closeConnection]],
  ['a close without a word', closeConnection],
  ['a reset without a word', resetConnection],
  ['an interim answer and a close', ['HTTP/1.1 100 Continue\r\n\r\n', closeConnection]],
]

/** Answers that are good, or can be made good. */
const usable: [what: string, sent: Answer, status: number, body: string][] = [
  ...[204, 304].map((status): [string, Answer, number, string] => [
    `a body on a ${status}`,
    `HTTP/1.1 ${status} None\r\nContent-Length: ${LEAKED.length}\r\n\r\n${LEAKED}`,
    status,
    '',
  ]),
  [
    'interim answers',
    ['HTTP/1.1 103 Early Hints\r\nLink: </evil>\r\n\r\nHTTP/1.1 102 Wait\r\n\r\n', 20, okTwo],
    200,
    'ok',
  ],
  ['a second answer nobody asked for', `${okTwo}${LEAKED}`, 200, 'ok'],
  ['a second answer in a later packet', [okTwo, 10, LEAKED], 200, 'ok'],
  ['a length of 0', `${ok}Content-Length: 0\r\nX-One: a\r\n\r\n`, 200, ''],
  [
    'a body that ends with the connection',
    [`${ok}\r\n`, 'ok', 20, 'ok', closeConnection],
    200,
    'okok',
  ],
  ['an answer of HTTP/1.0', ['HTTP/1.0 200 OK\r\n\r\nok', closeConnection], 200, 'ok'],
  [
    'trailer fields',
    `${ok}Transfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\nX-Request-Id: evil\r\n\r\n`,
    200,
    'ok',
  ],
  ['no reason phrase', 'HTTP/1.1 200 \r\nContent-Length: 2\r\n\r\nok', 200, 'ok'],
  ['an unknown but valid status', 'HTTP/1.1 299 Evil\r\nContent-Length: 2\r\n\r\nok', 299, 'ok'],
  ['its own 404', answer(404, '{"code":"x"}'), 404, '{"code":"x"}'],
  ['its own 500', answer(500, 'oh'), 500, 'oh'],
  ['its own 429', answer(429, 'oh', 'Retry-After: 7'), 429, 'oh'],
  ['its own 401', answer(401, 'oh', 'WWW-Authenticate: Basic'), 401, 'oh'],
]

/** Answers whose body breaks off. */
const chunked = `${ok}Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n`
const declared = `${ok}Content-Length: 10\r\n\r\nhalf`
const cutOff: [what: string, sent: Answer][] = [
  ['a declared body, closed', [declared, 40, closeConnection]],
  ['a declared body, reset', [declared, 40, resetConnection]],
  ['a chunked body, closed', [chunked, 40, closeConnection]],
  ['a chunked body, with a bad chunk', [chunked, 40, 'zz\r\n']],
  ['a body without a length, reset', [`${ok}\r\nhalf`, 40, resetConnection]],
]

describe('a backend', () => {
  it.each([...unusable.map(([what, sent]) => [what, sent, 502, ''] as const), ...usable])(
    'that answers with %s is understood or refused, and the next request is sound',
    (...row) => {
      const [, sent, status, body] = row
      const respond = ({ target }: { target: string }) =>
        target.endsWith('odd') ? sent : answer(200, target)
      return withWire({ respond }, async ({ exchange, ask, charged, accessLines, settled }) => {
        const { responses, problem, raw } = await exchange(get('odd') + get('good'), {
          responses: 2,
        })
        expect(problem).toBeUndefined()
        expect(responses.map((each) => each.status)).toEqual([status, 200])
        if (status === 502) expectRefusal(responses[0], 502, { code: 'bad_gateway', closes: false })
        else expect(responses[0]?.body.toString()).toBe(body)
        expectGatewayFields(responses[0])
        expect(responses[1]?.body.toString()).toBe('/v1/pets/good')
        expect(raw.toString('latin1')).not.toMatch(/leaked|evil/i)
        await sleep(20)
        expect((await ask(get('later'))).body.toString()).toBe('/v1/pets/later')
        expect(await accessLines(3)).toHaveLength(3)
        await settled()
        // The request had reached the backend: it stays charged.
        expect(await charged()).toBe(3)
      })
    },
  )

  const ENGINES = engines.flatMap((engine) => [
    ['at once', engine, `${okTwo}${LEAKED}`] as const,
    ['a little later', engine, [okTwo, 40, LEAKED]] as const,
  ])
  it.each(ENGINES)('that answers twice, %s, is counted, and named once: %s', (...row) =>
    withWire(
      { engine: row[1], respond: () => row[2] },
      async ({ ask, gateway, backend }) => {
        for (let times = 1; times <= 2; times++) {
          await ask(get('1'))
          await backend.waitFor(() => backend.openConnections() === 0, 'the end of the connection')
          const counted = `tollgate_backend_surplus_total{backend="${backend.url}"}`
          await expect.poll(() => gateway.metric(counted), { interval: 10 }).toBe(times)
        }
        const named = gateway.logLines().filter(({ event }) => event === 'backendSurplus')
        expect(named).toMatchObject([{ level: 'error', backend: backend.url }])
      },
      { fresh: true },
    ),
  )

  it('that sends control bytes in its reason phrase has them dropped', () =>
    withWire(
      { respond: () => 'HTTP/1.1 200 O\x01K\x7f\r\nContent-Length: 2\r\n\r\nok' },
      async ({ exchange }) => {
        const { responses, problem } = await exchange(get('1'), { responses: 1 })
        expect(problem).toBeUndefined()
        expect([200, 502]).toContain(responses[0]?.status)
      },
    ))

  it('that answers HEAD with a body has it dropped', () =>
    withWire(
      {
        respond: ({ method, target }) =>
          method === 'HEAD'
            ? `${ok}Content-Length: ${LEAKED.length}\r\n\r\n${LEAKED}`
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

  it.each(cutOff)('that breaks off never looks complete: %s', (_, sent) =>
    withWire({ respond: () => sent }, async ({ exchange, charged, accessLines }) => {
      const { responses, closed } = await exchange(get('1'))
      // A body that ends with the connection would look complete to its reader: it is sent in chunks.
      expect([closed, responses[0]?.complete]).toEqual([true, false])
      expect(responses[0]?.framing).not.toBe('close')
      expect(responses[0]?.body.toString()).toBe('half')
      expect((await accessLines(1))[0]?.cause).toBeTypeOf('string')
      expect(await charged()).toBe(1)
    }),
  )

  it.each([
    ['never answers', undefined],
    [
      'sends interim answers for ever',
      Array.from({ length: 200 }, () => ['HTTP/1.1 102 Wait\r\n\r\n', 20]).flat(),
    ],
  ])('that %s is a 504', (_, sent) =>
    withWire(
      { upstream: 'timeouts: { response: 300ms }', respond: () => sent },
      async ({ ask, charged, backend }) => {
        expectRefusal(await ask(get('1')), 504, { code: 'gateway_timeout', closes: false })
        expect(await charged()).toBe(1)
        await backend.waitFor(() => backend.openConnections() === 0, 'the dead request')
      },
    ),
  )

  it('that stops in mid-body is cut off', () =>
    withWire(
      { upstream: 'timeouts: { response: 300ms }', respond: () => declared },
      async ({ exchange, backend }) => {
        const { responses, closed } = await exchange(get('1'))
        expect([closed, responses[0]?.complete]).toEqual([true, false])
        await backend.waitFor(() => backend.openConnections() === 0, 'the dead request')
      },
    ))

  it('that is not there is a 502, for free', () =>
    withWire({ noBackend: true }, async ({ exchange, charged }) => {
      const { responses } = await exchange(
        get('1') + request('POST', '/v1/pets', { fields: ['Content-Length: 2'], body: '{}' }),
        { responses: 2 },
      )
      expectRefusal(responses[0], 502, { code: 'bad_gateway', closes: false })
      expect([responses[1]?.status, await charged()]).toEqual([502, 0])
    }))

  it.each([
    ['', []],
    [', to who would wait for a 100', ['Expect: 100-continue']],
  ])('that answers before the body has come ends the connection with its answer%s', (_, more) =>
    withWire(
      {
        requestsMayBreakOff: true,
        onHead: (_request, { play }) => void play(answer(403, 'no')),
        respond: () => undefined,
      },
      async ({ connect, served, charged }) => {
        const client = await connect()
        const fields = ['Content-Length: 1000000', ...more]
        client.send(request('POST', '/v1/pets', { fields, body: 'x'.repeat(100_000) }))
        const got = (await client.waitForResponses(1)).responses.at(-1)
        expect(got).toMatchObject({ status: 403, body: Buffer.from('no') })
        expect(got?.header('connection')).toBe('close')
        client.send(get('smuggled'))
        await client.waitFor(({ closed }) => closed)
        expect(served()).toEqual([])
        expect(await charged()).toBe(1)
      },
    ),
  )

  it.each(engines)(
    'whose kept connection died gets a GET once more, and a POST never: %s',
    (engine) =>
      withWire(
        {
          engine,
          respond: ({ target, connection, method }) => {
            if (target.endsWith('warm')) return answer(200, target)
            // The first connection dies with its second request.
            return connection === 1 || method === 'POST' ? closeConnection : answer(200, target)
          },
        },
        async ({ ask, served, charged }) => {
          await ask(get('warm'))
          expect((await ask(get('cold'))).status).toBe(200)
          const fields = ['Content-Length: 2']
          const post = await ask(request('POST', '/v1/pets', { fields, body: '{}' }))
          expectRefusal(post, 502, { code: 'bad_gateway', closes: false })
          const cold = 'GET /v1/pets/cold'
          expect(served()).toEqual(['GET /v1/pets/warm', cold, cold, 'POST /v1/pets'])
          expect(await charged()).toBe(3)
        },
        { fresh: true },
      ),
  )
})
