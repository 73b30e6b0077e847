/** A body is received before a backend is chosen, as far as it fits: who sends slowly costs only the gateway. */
import { createHash, randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { answer, closeConnection } from '../support/raw-backend.ts'
import { sharedRedis } from '../support/redis-server.ts'
import { engines, keys, request, until, openWire } from './wire.ts'

const CHUNKED = 'Transfer-Encoding: chunked'
const chunk = (bytes: Buffer): Buffer =>
  Buffer.concat([Buffer.from(`${bytes.length.toString(16)}\r\n`), bytes, Buffer.from('\r\n')])
const sha256 = (bytes: Buffer | undefined): string =>
  createHash('sha256')
    .update(bytes ?? '')
    .digest('hex')

describe('a body', () => {
  it.each([
    { framing: 'length', fields: ['Content-Length: 10'], parts: ['0', '12345678', '9'] },
    {
      framing: 'chunked',
      fields: [CHUNKED],
      parts: ['1\r\n0\r\n', '9\r\n123456789\r\n', '0\r\n\r\n'],
    },
  ])('reaches no backend before it is whole: $framing', async ({ framing, fields, parts }) => {
    const { connect, ask, backend, accessLines } = await openWire()
    const client = await connect(request('POST', '/v1/pets', { fields }))
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
    const [total, own] = [Number(line?.totalMs), Number(line?.gatewayMs) + Number(line?.backendMs)]
    expect(total).toBeGreaterThan(100)
    expect(line?.requestBytes).toBe(10)
    expect(own).toBeLessThan(total - 70)
    expect((await ask(request('GET', '/v1/pets'))).status).toBe(200)
  })

  it.each(engines)('arrives as it was sent, whatever its chunks: %s', async (engine) => {
    const { connect, backend } = await openWire({ engine })
    for (const sizes of [
      Array<number>(1_000).fill(1),
      Array<number>(4_000).fill(16),
      // As a chunk looks that a packet has cut.
      [1, ...Array<number>(4_000).fill(16)],
      Array.from({ length: 200 }, (_, at) => 1 + at * 3),
      // One that just fits, one that just does not, one larger by far, and none.
      [65_535, 1],
      [65_536, 1],
      Array<number>(50).fill(20_000),
      [],
    ]) {
      const body = randomBytes(sizes.reduce((sum, size) => sum + size, 0))
      let at = 0
      const pieces = sizes.map((size) => chunk(body.subarray(at, (at += size))))
      const client = await connect(request('POST', '/v1/pets', { fields: [CHUNKED] }))
      await sleep(20)
      client.send(Buffer.concat(pieces))
      await sleep(20)
      client.send('0\r\n\r\n')
      expect((await client.waitForResponses(1)).responses[0]?.status).toBe(200)
      const received = backend.requests.at(-1)
      expect(sha256(received?.body), `${sizes.length} chunks`).toBe(sha256(body))
      expect(received?.framing).not.toBe('none')
      client.destroy()
    }
  })

  it('that came in several pieces while the store was asked arrives as it was sent', async () => {
    const { url, prefix } = sharedRedis()
    const store = `store: { redis: "${url}", prefix: "${prefix}", lease: off }`
    const { ask, backend } = await openWire({ blocks: { store } })
    const post = request('POST', '/v1/pets', { fields: [CHUNKED] })
    expect((await ask(`${post}2\r\nab\r\n2\r\ncd\r\n0\r\n\r\n`)).status).toBe(200)
    expect(backend.requests[0]?.body.toString()).toBe('abcd')
  })

  it.each(engines)(
    'that was received whole is sent again where that is safe: %s',
    async (engine) => {
      const { ask, backend } = await openWire({
        engine,
        respond: ({ target, connection }) =>
          target.endsWith('warm') || connection > 1 ? answer(200, target) : closeConnection,
      })
      await ask(request('GET', '/v1/pets/warm'))
      // A connection that has just come back may rest while another is opened.
      await sleep(100)
      const fields = ['Content-Length: 2']
      const again = await ask(request('PUT', '/v1/pets/1', { fields, body: '{}' }))
      expect(again.status).toBe(200)
      const seen = backend.requests.map(({ method, body }) => method + body.toString())
      expect(seen).toEqual(['GET', 'PUT{}', 'PUT{}'])
    },
  )

  it('is passed on as it comes where nothing is to be held', async () => {
    const { connect, backend } = await openWire({ server: 'limits: { bufferedBody: 0B }' })
    const client = await connect(
      request('POST', '/v1/pets', { fields: ['Content-Length: 2'], body: '{' }),
    )
    await until(() => backend.connections.length === 1, 'the request')
    client.send('}')
    expect((await client.waitForResponses(1)).responses[0]?.status).toBe(200)
    expect(backend.requests[0]?.body.toString()).toBe('{}')
  })
})

describe('a body that waits for a backend', () => {
  const posted = (fields: string, body: string) =>
    request('POST', '/v1/pets', { fields: [fields], body })
  const LARGE = 'x'.repeat(600_000)
  // More than is read before it waits, and so little that the kernel has the rest, and the end behind it, at the gateway's end.
  const HALF = 'x'.repeat(160_000)

  it.each([
    ['left', 'end', 'Content-Length: 700000', HALF],
    ['left', 'destroy', CHUNKED, `f4240\r\n${HALF}`],
    ['left behind all of it', 'destroy', `Content-Length: ${HALF.length}`, HALF],
    ['has reset', 'reset', 'Content-Length: 700000', HALF],
  ] as const)('does not reach it once its sender %s (%s)', async (_, leave, fields, sent) => {
    const { connect, ask, backend, waiting, release, settled } = await openOneConnection()
    const sender = await connect(posted(fields, sent))
    await waiting(1)
    // What the kernel takes is taken.
    await sleep(100)
    sender[leave]()
    await sleep(100)
    release()
    expect((await ask(request('GET', '/v1/pets/next'))).status).toBe(200)
    await settled()
    expect(backend.connections.map((one) => one.raw()).join('')).not.toContain('POST')
  })

  it.each([
    ['is whole', `Content-Length: ${LARGE.length}`, ''],
    ['goes on', 'Content-Length: 1000000', 'x'.repeat(400_000)],
  ])('arrives as it was sent where it %s', async (_, fields, rest) => {
    const { connect, backend, waiting, release } = await openOneConnection()
    const sender = await connect(posted(fields, LARGE))
    await waiting(1)
    release()
    await until(() => backend.connections.some((one) => one.raw().includes('POST')), 'it')
    sender.send(rest)
    expect((await sender.waitForResponses(1)).responses[0]?.status).toBe(200)
    expect(backend.requests.at(-1)?.body.toString()).toBe(LARGE + rest)
  })

  it('is refused where it turns out to be too large', async () => {
    const server = 'limits: { bodyBytes: 140KiB }'
    const { connect, backend, waiting, release, charged } = await openOneConnection(server)
    const sender = await connect()
    const chunks = Array(8).fill(`4e20\r\n${'x'.repeat(20_000)}\r\n`)
    sender.send(posted(CHUNKED, chunks.join('')))
    await waiting(1)
    // What the kernel takes, and that is all of it, is taken.
    await sleep(100)
    release()
    expect((await sender.waitForResponses(1)).responses[0]?.status).toBe(413)
    expect(backend.connections.map((one) => one.raw()).join('')).not.toContain('POST')
    expect(await charged()).toBe(0)
  })
})

/** A backend whose one connection is taken until release(). */
async function openOneConnection(server = '') {
  const { promise: released, resolve: release } = Promise.withResolvers<void>()
  const respond = async ({ target }: { target: string }) => {
    if (target.endsWith('first')) await released
    return answer(200, '[]')
  }
  const wire = await openWire({ server, upstream: 'connections: 1', respond })
  await wire.connect(request('GET', '/v1/pets/first', { key: keys.business }))
  await wire.backend.waitFor(() => wire.backend.requests.length === 1, 'the first')
  const waiting = (count: number) =>
    expect.poll(() => wire.gateway.metric('tollgate_backend_waiting')).toBe(count)
  return { ...wire, release, waiting }
}
