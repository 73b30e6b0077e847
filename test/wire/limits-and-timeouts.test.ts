/** Sizes and times that a request may take: what passes them is refused and closed, for free, before any backend has seen it. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import {
  engines,
  expectLogged,
  expectRefusal,
  request,
  serverBlock,
  SMALL_LIMITS,
  withWire,
} from './wire.ts'

const SMUGGLED = request('GET', '/v1/pets/smuggled')
const CHUNKED = 'Transfer-Encoding: chunked'
const small = { server: serverBlock(SMALL_LIMITS) }
const quick = {
  server: serverBlock('timeouts: { headers: 800ms, request: 1s, idle: 800ms, drain: 1s }'),
}
const chunk = (size: number): string => `${size.toString(16)}\r\n${'x'.repeat(size)}\r\n`
/** Header fields such as X-1: 1, so many. */
const fieldLines = (count: number): string[] =>
  Array.from({ length: count }, (_, at) => `X-${at}: ${at}`)

const tooMuch: Record<string, { bytes: string; status: number; code: string }> = {
  'one header field too many': {
    bytes: request('GET', '/v1/pets', { fields: fieldLines(19) }),
    status: 431,
    code: 'headers_too_large',
  },
  'thousands of header fields': {
    bytes: request('GET', '/v1/pets', { fields: fieldLines(3_000) }),
    status: 431,
    code: 'headers_too_large',
  },
  'a header field beyond the limit': {
    bytes: request('GET', '/v1/pets', { fields: [`X-Big: ${'x'.repeat(2_100)}`] }),
    status: 431,
    code: 'headers_too_large',
  },
  'a header field beyond the limit of the parser': {
    bytes: request('GET', '/v1/pets', { fields: [`X-Big: ${'x'.repeat(300_000)}`] }),
    status: 431,
    code: 'headers_too_large',
  },
  'a field name without an end': {
    bytes: `GET /v1/pets HTTP/1.1\r\n${'x'.repeat(100_000)}`,
    status: 431,
    code: 'headers_too_large',
  },
  'a target one byte too long': {
    bytes: request('GET', `/v1/pets/${'x'.repeat(504)}`),
    status: 414,
    code: 'uri_too_long',
  },
  'a target beyond the limit of the parser': {
    bytes: request('GET', `/v1/pets/${'x'.repeat(200_000)}`),
    status: 414,
    code: 'uri_too_long',
  },
  'a declared body one byte too large': {
    bytes: request('POST', '/v1/pets', { fields: ['Content-Length: 4097'] }),
    status: 413,
    code: 'body_too_large',
  },
  'a declared body of many bytes, sent at once': {
    bytes: request('POST', '/v1/pets', {
      fields: ['Content-Length: 2000000'],
      body: 'x'.repeat(2_000_000),
    }),
    status: 413,
    code: 'body_too_large',
  },
}

describe('a request beyond a limit', () => {
  for (const [what, { bytes, status, code }] of Object.entries(tooMuch))
    it(`is refused with ${status} and closed: ${what}`, () =>
      withWire({ blocks: small }, async ({ exchange, served, charged, gateway }) => {
        const { responses, closed, problem } = await exchange(bytes + SMUGGLED)
        expect(problem).toBeUndefined()
        expectRefusal(responses[0], status, { code, closes: true })
        // The credential was not read: the limit of the address, which this costs nothing.
        expect(responses[0]?.header('x-ratelimit-limit')).toBe('60')
        expect(responses[0]?.header('x-ratelimit-remaining')).toBe('60')
        await expectLogged(gateway, responses[0])
        expect(responses).toHaveLength(1)
        expect(closed).toBe(true)
        expect(served()).toEqual([])
        expect(await charged()).toBe(0)
        expect(await gateway.metric(`tollgate_refusals_total{code="${code}"`)).toBe(1)
      }))

  it('is taken when it just fits', () =>
    withWire({ blocks: small }, async ({ exchange, backend, charged }) => {
      const { responses } = await exchange(
        request('GET', `/v1/pets/${'x'.repeat(503)}`) +
          request('GET', '/v1/pets', { fields: fieldLines(18) }) +
          request('GET', '/v1/pets', { fields: [`X-Big: ${'x'.repeat(1_900)}`] }) +
          request('POST', '/v1/pets', {
            fields: ['Content-Length: 4096'],
            body: 'x'.repeat(4_096),
          }) +
          request('POST', '/v1/pets', {
            fields: [CHUNKED],
            body: `${chunk(2_048)}${chunk(2_048)}0\r\n\r\n`,
          }),
        { responses: 5 },
      )
      expect(responses.map(({ status }) => status)).toEqual([200, 200, 200, 200, 200])
      expect(backend.requests.filter(({ body }) => body.length === 4_096)).toHaveLength(2)
      expect(await charged()).toBe(5)
    }))
})

for (const engine of engines) {
  describe(`a body through ${engine}`, () => {
    for (const [what, body] of Object.entries({
      'in one chunk': `${chunk(5_000)}0\r\n\r\n`,
      'in many chunks': `${chunk(100).repeat(50)}0\r\n\r\n`,
      'without an end': chunk(1_000_000),
    }))
      it(`that grows too large ${what} is refused with 413, for free`, () =>
        withWire(
          { engine, blocks: small, requestsMayBreakOff: true },
          async ({ exchange, served, charged, accessLines }) => {
            const bytes = request('POST', '/v1/pets', { fields: [CHUNKED], body })
            const { responses, problem, closed } = await exchange(bytes)
            expect(problem).toBeUndefined()
            expectRefusal(responses[0], 413, { code: 'body_too_large', closes: true })
            expect(responses[0]?.header('x-ratelimit-remaining')).toBe('300')
            expect(responses).toHaveLength(1)
            expect(closed).toBe(true)
            expect(served()).toEqual([])
            expect(await charged()).toBe(0)
            const [line] = await accessLines(1)
            expect(line).toMatchObject({ status: 413, refusal: 'body_too_large' })
            expect(line?.requestBytes).toBeGreaterThan(4_096)
          },
        ))

    it('that grows too large in later packets is refused with 413, for free', () =>
      withWire(
        { engine, blocks: small, requestsMayBreakOff: true },
        async ({ connect, served, charged }) => {
          const client = await connect()
          client.send(request('POST', '/v1/pets', { fields: [CHUNKED], body: chunk(3_000) }))
          await sleep(50)
          client.send(chunk(3_000))
          const { responses } = await client.waitForResponses(1)
          expectRefusal(responses[0], 413, { code: 'body_too_large', closes: true })
          client.send(`0\r\n\r\n${SMUGGLED}`)
          const after = await client.waitFor(({ closed }) => closed)
          expect(after.responses).toHaveLength(1)
          expect(served()).toEqual([])
          expect(await charged()).toBe(0)
        },
      ))

    for (const [what, bytes] of Object.entries({
      declared: request('POST', '/v1/pets', { fields: ['Content-Length: 10'], body: '{' }),
      chunked: request('POST', '/v1/pets', { fields: [CHUNKED], body: '1\r\n{\r\n' }),
    }))
      it(`that does not arrive in time is refused with 408, for free: ${what}`, () =>
        withWire(
          { engine, blocks: quick, requestsMayBreakOff: true },
          async ({ connect, backend, served, charged, accessLines }) => {
            const client = await connect()
            client.send(bytes)
            const { responses, closed } = await client.waitFor((seen) => seen.closed)
            expectRefusal(responses[0], 408, { code: 'request_timeout', closes: true })
            expect(responses[0]?.header('x-ratelimit-remaining')).toBe('300')
            expect(closed).toBe(true)
            client.send(SMUGGLED)
            expect(served()).toEqual([])
            expect(await charged()).toBe(0)
            expect(await accessLines(1)).toMatchObject([{ status: 408, requestBytes: 1 }])
            expect(backend.connections).toEqual([])
          },
        ))
  })
}

describe('a client that is too slow', () => {
  for (const [what, bytes] of Object.entries({
    'in the middle of its request line': 'GET /v1/p',
    'in the middle of its header': 'GET /v1/pets HTTP/1.1\r\nHost: a',
  }))
    it(`is told 408 and closed ${what}`, () =>
      withWire({ blocks: quick }, async ({ connect, served, charged, gateway }) => {
        const client = await connect()
        client.send(bytes)
        const { responses } = await client.waitFor(({ closed }) => closed)
        expectRefusal(responses[0], 408, { code: 'request_timeout', closes: true })
        await expectLogged(gateway, responses[0])
        expect(responses).toHaveLength(1)
        expect(served()).toEqual([])
        expect(await charged()).toBe(0)
        expect(await gateway.metric('tollgate_refusals_total{code="request_timeout"')).toBe(1)
      }))

  it('cannot win time by sending a byte now and then', () =>
    withWire({ blocks: quick }, async ({ connect, served }) => {
      const client = await connect()
      const bytes = request('GET', '/v1/pets', { fields: [`X-Slow: ${'x'.repeat(1_000)}`] })
      let at = 0
      while (!client.received().closed && at < bytes.length) {
        client.send(bytes[at++] ?? '')
        await sleep(50)
      }
      expect(at).toBeLessThan(bytes.length)
      expect(client.received().responses[0]?.status).toBe(408)
      expect(served()).toEqual([])
    }))

  it('is closed when it never sends anything', () =>
    withWire({ blocks: quick }, async ({ connect }) => {
      const client = await connect()
      await client.waitFor(({ closed }) => closed)
    }))

  it('is closed without a word when it is idle between two requests', () =>
    withWire({ blocks: quick }, async ({ connect, accessLines }) => {
      const client = await connect()
      client.send(request('GET', '/v1/pets'))
      await client.waitForResponses(1)
      const { responses } = await client.waitFor(({ closed }) => closed)
      expect(responses).toHaveLength(1)
      expect(await accessLines(1)).toHaveLength(1)
    }))

  it('is told 408 behind the answers to what it sent before', () =>
    withWire(
      {
        blocks: quick,
        respond: async () => {
          await sleep(1_500)
          return 'HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok'
        },
      },
      async ({ connect, charged }) => {
        const client = await connect()
        client.send(`${request('GET', '/v1/pets')}GET /v1/p`)
        const { responses, problem } = await client.waitFor(({ closed }) => closed)
        expect(problem).toBeUndefined()
        expect(responses.map(({ status }) => status)).toEqual([200, 408])
        expect(await charged()).toBe(1)
      },
    ))
})
