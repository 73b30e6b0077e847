/** Each of several requests on one connection is judged and charged by itself; answers keep the order of the requests. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { answer, closeConnection, type Answer } from '../support/raw-backend.ts'
import { openRawClient } from '../support/raw-client.ts'
import { expectOnlyRefusal, expectRefusal, keys, request } from './wire.ts'
import { SMALL_LIMITS, trusting, until, openWire } from './wire.ts'

const get = (id: string | number, key: string | null = keys.pro): string =>
  request('GET', `/v1/pets/${id}`, { key })
const SMUGGLED = get('smuggled')
const GARBAGE = 'NOT HTTP AT ALL\r\n\r\n'
/** Slow for the targets that say so, and telling which request it answers. */
const respond = async ({ target }: { target: string }) => {
  if (target.includes('slow')) await sleep(150)
  return answer(200, target)
}
const bodies = (responses: readonly { body: Buffer }[]): string[] =>
  responses.map(({ body }) => body.toString())

describe('pipelined requests', () => {
  it('are answered in order, each charged to its own key', async () => {
    const { exchange, charged, backend, accessLines } = await openWire({ respond })
    const { responses } = await exchange(
      get('slow') + get('fast', keys.business) + get('slow2') + get('last'),
      { responses: 4 },
    )
    const targets = ['/v1/pets/slow', '/v1/pets/fast', '/v1/pets/slow2', '/v1/pets/last']
    expect(bodies(responses)).toEqual(targets)
    expect(backend.requests).toHaveLength(4)
    for (const received of backend.requests)
      expect(received.header('x-client-id')).toBe(
        received.target.endsWith('fast') ? 'business-client' : 'pro-client',
      )
    expect(new Set((await accessLines(4)).map(({ id }) => id)).size).toBe(4)
    expect(await charged()).toBe(3)
  })

  it.each([
    ['an ambiguous request', request('GET', '/v1/pets', { fields: ['Host: other'] })],
    ['what is no request', GARBAGE],
    ['a bad target', get('..')],
  ])('are answered before the 400 for %s, which ends the connection', async (_, bad) => {
    const { exchange, charged, served } = await openWire({ respond })
    const { responses, closed, statuses } = await exchange(
      get('slow') + get('fast') + bad + SMUGGLED,
    )
    expect(statuses).toEqual([200, 200, 400])
    expect(bodies(responses).slice(0, 2)).toEqual(['/v1/pets/slow', '/v1/pets/fast'])
    expectRefusal(responses[2], 400, { code: 'invalid_request', closes: true })
    expect([closed, served().sort()]).toEqual([true, ['GET /v1/pets/fast', 'GET /v1/pets/slow']])
    expect(await charged()).toBe(2)
  })

  it.each([{}, { tls: trusting() }])(
    'are refused though a client left, and not answered otherwise',
    async (tls) => {
      const { gateway } = await openWire({ ...tls, respond, requestsMayBreakOff: true })
      const ambiguous = request('GET', '/v1/pets', { fields: ['Host: other'] })
      for (const [bytes, expected] of [
        [get(1, 'nobody').repeat(6), Array(6).fill(401)],
        [ambiguous, [400]],
        [get('slow'), []],
      ] as const) {
        const client = await openRawClient(gateway.port, tls)
        client.socket.end(bytes)
        expect((await client.waitFor(({ closed }) => closed)).statuses).toEqual(expected)
      }
    },
  )

  it('are not served after one that said it was the last', async () => {
    const { exchange, charged, served, accessLines, gateway } = await openWire({
      respond: () => answer(200, Buffer.alloc(3_000_000, 'x')),
    })
    const { responses, closed } = await exchange(
      request('GET', '/v1/pets', { fields: ['Connection: close'] }) + SMUGGLED + GARBAGE,
    )
    expect([responses.length, responses[0]?.complete]).toEqual([1, true])
    expect(responses[0]?.body.length).toBe(3_000_000)
    expect([closed, served(), await charged()]).toEqual([true, ['GET /v1/pets'], 1])
    expect(await accessLines(1)).toHaveLength(1)
    expect(await gateway.metric('tollgate_refusals_total{code="invalid_request"')).toBe(0)
  })

  it('are not served after one of HTTP/1.0 that says close and keep-alive both', async () => {
    const { exchange, charged, served } = await openWire({ respond })
    const fields = ['Connection: close, X-Probe', 'Connection: keep-alive']
    const { responses, closed, statuses } = await exchange(
      request('GET', '/v1/pets/slow', { version: '1.0', fields }) + SMUGGLED,
    )
    expect(statuses).toEqual([200])
    expect([responses[0]?.header('connection'), closed]).toEqual(['close', true])
    expect([served(), await charged()]).toEqual([['GET /v1/pets/slow'], 1])
  })

  it('wait for nothing that is cut off: the connection ends there', async () => {
    const cut: Answer = [
      50,
      'HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf',
      50,
      closeConnection,
    ]
    const cutting = ({ target }: { target: string }): Answer =>
      target.includes('cut') ? cut : answer(200, target)
    const { exchange, settled, accessLines } = await openWire({ respond: cutting })
    const { responses, closed } = await exchange(get('first') + get('cut') + get('after'))
    expect(closed).toBe(true)
    expect(responses.map(({ complete }) => complete)).toEqual([true, false])
    expect(responses[1]?.body.toString()).toBe('half')
    await settled()
    expect(await accessLines(2)).toHaveLength(2)
  })
})

describe('a refused request with a body', () => {
  it('is drained when it is small and comes later', async () => {
    const { connect, served } = await openWire()
    const client = await connect()
    const fields = [`Content-Length: ${SMUGGLED.length}`]
    client.send(request('POST', '/v1/pets', { key: null, fields }))
    await client.waitForResponses(1)
    client.send(SMUGGLED.slice(0, 10))
    await sleep(20)
    client.send(SMUGGLED.slice(10) + get('after'))
    const { statuses } = await client.waitForResponses(2)
    expect([statuses, served()]).toEqual([[401, 200], ['GET /v1/pets/after']])
  })

  it('ends the connection when it is large, and the answer arrives all the same', async () => {
    const wire = await openWire()
    const fields = ['Content-Length: 1000000']
    const head = request('POST', '/v1/pets', { key: null, fields })
    await expectOnlyRefusal(wire, head + SMUGGLED.repeat(5_000), [401, 'missing_api_key'])
  })

  it('ends the connection in order, so that no reset can take the answer with it', async () => {
    const { connect } = await openWire()
    const client = await connect()
    const errors: Error[] = []
    client.socket.on('error', (error) => errors.push(error))
    const fields = ['Content-Length: 1000000']
    client.send(request('POST', '/v1/pets', { key: null, fields }))
    await client.waitForResponses(1)
    // To a connection that was simply closed the first piece is answered with a reset, and the second fails.
    for (let piece = 0; piece < 3; piece++) {
      client.send('x'.repeat(1_000))
      await sleep(20)
    }
    client.end()
    await until(() => client.socket.destroyed, 'the end of the connection')
    expect(errors).toEqual([])
  })

  it('ends the connection when it is chunked and under way', async () => {
    const { connect, served } = await openWire()
    const client = await connect()
    const fields = ['Transfer-Encoding: chunked']
    client.send(request('POST', '/v1/pets', { key: null, fields, body: '3\r\nabc\r\n' }))
    const first = await client.waitForResponses(1)
    expectRefusal(first.responses[0], 401, { code: 'missing_api_key', closes: true })
    client.send(`0\r\n\r\n${SMUGGLED}`)
    const { responses } = await client.waitFor(({ closed }) => closed)
    expect([responses.length, served()]).toEqual([1, []])
  })

  it('is answered though the client goes on sending for as long as it may', async () => {
    const { connect, served } = await openWire({ server: SMALL_LIMITS })
    const client = await connect(
      request('POST', '/v1/pets', { fields: ['Content-Length: 100000000'] }),
    )
    const flood = (async () => {
      while (!client.socket.destroyed) {
        client.send('x'.repeat(65_536))
        await sleep(5)
      }
    })()
    const { responses } = await client.waitForResponses(1)
    expectRefusal(responses[0], 413, { code: 'body_too_large', closes: true })
    await until(() => client.socket.destroyed, 'the end of the connection')
    await flood
    expect(served()).toEqual([])
  })
})

describe('a client of HTTP/1.0', () => {
  it('gets an answer that ends with the connection', async () => {
    const { exchange, backend } = await openWire({
      respond: () => 'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n',
    })
    const { responses, closed } = await exchange(
      request('GET', '/v1/pets', { version: '1.0' }) + SMUGGLED,
    )
    expect([responses.length, responses[0]?.status]).toEqual([1, 200])
    expect(responses[0]?.header('transfer-encoding')).toBeUndefined()
    expect(responses[0]?.body.toString()).toBe('ok')
    expect([closed, backend.requests.length]).toEqual([true, 1])
    expect(backend.requests[0]?.version).toBe('1.1')
  })

  it('may keep the connection when it asks for that', async () => {
    const { exchange, served } = await openWire()
    const bytes = request('GET', '/v1/pets', { version: '1.0', fields: ['Connection: keep-alive'] })
    const { statuses } = await exchange(bytes + bytes, { responses: 2 })
    expect([statuses, served().length]).toEqual([[200, 200], 2])
  })
})
