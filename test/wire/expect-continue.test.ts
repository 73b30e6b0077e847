/** A client that asks first is answered by the verdict: 100 only for a request that was admitted. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { answer } from '../support/raw-backend.ts'
import { expectRefusal, keys, plansBlock, request, SMALL_LIMITS, openWire } from './wire.ts'

const EXPECT = 'Expect: 100-continue'
const SMUGGLED = request('GET', '/v1/pets/smuggled')
const posting = (length: number, path = '/v1/pets', more: object = {}): string =>
  request('POST', path, { fields: [EXPECT, `Content-Length: ${length}`], ...more })

describe('Expect: 100-continue', () => {
  it('is told to go on once admitted, and the backend hears nothing of it', async () => {
    const { connect, backend, charged } = await openWire()
    const client = await connect(posting(2))
    const asked = await client.waitFor(({ responses }) => responses.length > 0)
    expect(asked.responses[0]?.status).toBe(100)
    client.send('{}')
    const { statuses } = await client.waitForResponses(1)
    expect([statuses, backend.requests[0]?.body.toString()]).toEqual([[100, 200], '{}'])
    expect(backend.requests[0]?.header('expect')).toBeUndefined()
    client.send(request('GET', '/v1/pets'))
    await client.waitForResponses(2)
    expect(await charged()).toBe(2)
  })

  it.each([
    ['that does not wait, with a chunked body', 'Transfer-Encoding: chunked', '{}', [100, 200]],
    ['that has none to send, which is not told to go on', undefined, '', [200]],
  ])('works for a client %s', async (_, framing, body, expected) => {
    const { exchange, backend, charged } = await openWire()
    const fields = framing === undefined ? [EXPECT] : [EXPECT, framing]
    const sent = framing === undefined ? '' : '2\r\n{}\r\n0\r\n\r\n'
    const [method, path] = framing === undefined ? ['GET', ''] : ['DELETE', '/1']
    const bytes = request(method, `/v1/pets${path}`, { fields, body: sent })
    const { statuses } = await exchange(bytes, { responses: 1 })
    expect([statuses, backend.requests[0]?.body.toString()]).toEqual([expected, body])
    expect(backend.requests[0]?.header('expect')).toBeUndefined()
    expect(await charged()).toBe(1)
  })

  it('is told in its turn, behind the answers to earlier requests on the connection', async () => {
    // The second answer waits for the first: a 100 that waits too would go out between its head and its body.
    const respond = ({ method }: { method: string }) =>
      method === 'GET' ? [15, answer(200, 'ok')] : answer(200, 'ok')
    const { connect } = await openWire({ respond })
    for (let round = 0; round < 20; round++) {
      const client = await connect(
        request('GET', '/v1/pets') + posting(2, '/v1/pets', { body: '{}' }),
      )
      const { responses, problem } = await client.waitForResponses(2)
      const told = responses.map(({ status, body }) => `${status} ${body.toString()}`)
      // No 100 where the second answer is there before the first has gone out.
      expect(told.join()).toMatch(/^200 ok,(100 ,)?200 ok$/)
      expect(problem).toBeUndefined()
      client.destroy()
    }
  })

  it.each([
    ['without a key', posting(2, '/v1/pets', { key: null }), 401, 'missing_api_key'],
    ['for a body that is too large', posting(5_000), 413, 'body_too_large'],
    [
      'for ambiguous framing',
      posting(2).replace('\r\n\r\n', '\r\nContent_Length: 3\r\n\r\n'),
      400,
      'invalid_request',
    ],
    ['for an unknown path', posting(2, '/v1/nothing'), 404, 'not_found'],
    ['outside the base path', posting(2, '/'), 404, 'not_found'],
    ['without a length', request('POST', '/v1/pets', { fields: [EXPECT] }), 411, 'length_required'],
  ])(
    'gets no 100, and what follows is not read as a request: %s',
    async (_, bytes, status, code) => {
      const wire = await openWire({ server: SMALL_LIMITS })
      const client = await wire.connect(bytes)
      const { responses } = await client.waitForResponses(1)
      expectRefusal(responses[0], status, { code, closes: true })
      for (let packet = 0; packet < 3; packet++) {
        client.send(SMUGGLED)
        await sleep(10)
      }
      const after = await client.waitFor(({ closed }) => closed)
      expect([after.responses.length, wire.served(), await wire.charged()]).toEqual([1, [], 0])
    },
  )

  it('gets no 100 when the quota is used up', async () => {
    const { ask, exchange, served } = await openWire({ blocks: { plans: plansBlock() } })
    await ask(request('GET', '/v1/pets', { key: keys.free }))
    const { responses } = await exchange(posting(2, '/v1/pets', { key: keys.free }))
    expectRefusal(responses[0], 429, { code: 'rate_limit_exceeded', closes: true })
    expect([responses.length, served()]).toEqual([1, ['GET /v1/pets']])
  })
})
