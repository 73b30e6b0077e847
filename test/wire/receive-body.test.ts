/** A body is received before a backend is chosen, as far as it fits: who sends slowly costs only the gateway. */
import { createHash, randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { answer, closeConnection } from '../support/raw-backend.ts'
import { startRedisServer } from '../support/redis-server.ts'
import { engines, keys, request, serverBlock, until, withWire } from './wire.ts'

const CHUNKED = 'Transfer-Encoding: chunked'
const chunk = (bytes: Buffer): Buffer =>
  Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')])
const sha256 = (bytes: Buffer | undefined): string =>
  createHash('sha256')
    .update(bytes ?? '')
    .digest('hex')

describe.each(engines)('a body through %s', (engine) => {
  it.each([
    { framing: 'length', fields: ['Content-Length: 10'], parts: ['0', '12345678', '9'] },
    {
      framing: 'chunked',
      fields: [CHUNKED],
      parts: ['1\r\n0\r\n', '9\r\n123456789\r\n', '0\r\n\r\n'],
    },
  ])('reaches no backend before it is whole: $framing', ({ framing, fields, parts }) =>
    withWire({ engine }, async ({ connect, exchange, backend, accessLines }) => {
      const client = await connect()
      client.send(request('POST', '/v1/pets', { fields }))
      for (const part of parts) {
        expect(backend.connections).toEqual([])
        await sleep(100)
        client.send(part)
      }
      const { responses } = await client.waitForResponses(1)
      expect(responses[0]?.status).toBe(200)
      expect(backend.requests).toMatchObject([{ method: 'POST', framing }])
      expect(backend.requests[0]?.body.toString()).toBe('0123456789')
      // Waiting for a client is not the gateway's own time.
      const [line] = await accessLines(1)
      expect(Number(line?.totalMs)).toBeGreaterThan(100)
      expect(line?.requestBytes).toBe(10)
      expect(Number(line?.gatewayMs) + Number(line?.backendMs)).toBeLessThan(
        Number(line?.totalMs) - 70,
      )
      const next = await exchange(request('GET', '/v1/pets'), { responses: 1 })
      expect(next.responses[0]?.status).toBe(200)
    }),
  )

  it.each([
    { what: 'of tiny chunks', sizes: Array<number>(1_000).fill(1) },
    { what: 'of very many chunks', sizes: Array<number>(4_000).fill(16) },
    { what: 'of growing chunks', sizes: Array.from({ length: 200 }, (_, at) => 1 + at * 3) },
    { what: 'that just fits', sizes: [65_535, 1] },
    { what: 'that just does not fit', sizes: [65_536, 1] },
    { what: 'larger by far', sizes: Array<number>(50).fill(20_000) },
    { what: 'without a byte', sizes: [] },
  ])('$what arrives as it was sent', ({ sizes }) =>
    withWire({ engine }, async ({ connect, backend }) => {
      const body = randomBytes(sizes.reduce((sum, size) => sum + size, 0))
      let at = 0
      const pieces = sizes.map((size) => chunk(body.subarray(at, (at += size))))
      const client = await connect()
      client.send(request('POST', '/v1/pets', { fields: [CHUNKED] }))
      await sleep(20)
      client.send(Buffer.concat(pieces))
      await sleep(20)
      client.send('0\r\n\r\n')
      expect((await client.waitForResponses(1)).responses[0]?.status).toBe(200)
      expect(sha256(backend.requests[0]?.body)).toBe(sha256(body))
      expect(backend.requests[0]?.framing).not.toBe('none')
    }),
  )

  it('that came in several pieces while the store was asked arrives as it was sent', async () => {
    const redis = await startRedisServer()
    const store = `store: { redis: "${redis.url}", lease: off }`
    try {
      await withWire({ engine, blocks: { store } }, async ({ exchange, backend }) => {
        const post = request('POST', '/v1/pets', { fields: [CHUNKED] })
        const { responses } = await exchange(`${post}2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n`, {
          responses: 1,
        })
        expect(responses[0]?.status).toBe(200)
        expect(backend.requests[0]?.body.toString()).toBe('abcd')
      })
    } finally {
      await redis.stop()
    }
  })

  it('that was received whole is sent again where that is safe', () =>
    withWire(
      {
        engine,
        respond: ({ target, connection }) =>
          target.endsWith('warm') || connection > 1 ? answer(200, target) : closeConnection,
      },
      async ({ exchange, backend }) => {
        await exchange(request('GET', '/v1/pets/warm'), { responses: 1 })
        // A connection that has just come back may rest while another is opened.
        await sleep(100)
        const put = request('PUT', '/v1/pets/1', { fields: ['Content-Length: 2'], body: '{}' })
        const { responses } = await exchange(put, { responses: 1 })
        expect(responses[0]?.status).toBe(200)
        expect(backend.requests.map(({ method, body }) => method + body.toString())).toEqual([
          'GET',
          'PUT{}',
          'PUT{}',
        ])
      },
    ))

  it('is passed on as it comes where nothing is to be held', () =>
    withWire(
      { engine, blocks: { server: serverBlock('limits: { bufferedBody: 0B }') } },
      async ({ connect, backend }) => {
        const client = await connect()
        client.send(request('POST', '/v1/pets', { fields: ['Content-Length: 2'], body: '{' }))
        await until(() => backend.connections.length === 1, 'the request')
        client.send('}')
        expect((await client.waitForResponses(1)).responses[0]?.status).toBe(200)
        expect(backend.requests[0]?.body.toString()).toBe('{}')
      },
    ))

  it('that never comes holds no backend connection, and its request is free', () =>
    withWire(
      { engine, upstream: 'connections: 1' },
      async ({ connect, exchange, backend, accessLines, charged }) => {
        const slow = await connect()
        slow.send(request('POST', '/v1/pets', { fields: ['Content-Length: 1000'], body: '{' }))
        await sleep(50)
        const { responses } = await exchange(request('GET', '/v1/pets', { key: keys.business }), {
          responses: 1,
        })
        expect(responses[0]?.status).toBe(200)
        slow.reset()
        const lines = await accessLines(2)
        expect(lines).toMatchObject([{ status: 200 }, { status: 499, requestBytes: 1 }])
        expect(backend.requests).toHaveLength(1)
        expect(await charged()).toBe(0)
      },
    ))
})
