/** Methods that the gateway does not take, and those it answers itself, never reach the backend; others do, body or none. */
import { describe, expect, it } from 'vitest'
import { expectGatewayFields, expectOnlyRefusal, request, openWire } from './wire.ts'

const SMUGGLED = request('GET', '/v1/pets/smuggled')
const FORWARD = { unmatched: 'unmatched: forward' }

describe('a method that is not supported', () => {
  it.each([
    ['PROPFIND', '/v1/pets'],
    ['FOO', '/v1/pets'],
    ['get', '/v1/pets'],
    ['CONNECT', 'api.example:443'],
    ['CONNECT', '*'],
  ])(
    'is refused with 501 and no tunnel, and nothing behind it is served: %s %s',
    async (...row) => {
      const wire = await openWire({ blocks: FORWARD })
      await expectOnlyRefusal(wire, request(...row) + SMUGGLED, [501, 'method_not_implemented'])
      if (row[0] === 'CONNECT') expect(await wire.accessLines(1)).toHaveLength(1)
    },
  )

  it('is refused without a key too, and its body is not read as a request', async () => {
    const wire = await openWire()
    const fields = [`Content-Length: ${SMUGGLED.length}`]
    const bytes = request('TRACE', '/v1/pets', { key: null, fields, body: SMUGGLED })
    await expectOnlyRefusal(wire, bytes, [501, 'method_not_implemented'])
  })
})

describe('OPTIONS *', () => {
  it('is answered here, for free, and the connection goes on', async () => {
    const { exchange, served, charged } = await openWire()
    const { responses, statuses } = await exchange(
      request('OPTIONS', '*', { key: null }) + request('GET', '/v1/pets'),
      { responses: 2 },
    )
    expect(statuses).toEqual([200, 200])
    expect(responses[0]?.header('allow')).toContain('GET')
    expect(responses[0]?.header('content-length')).toBe('0')
    expectGatewayFields(responses[0])
    expect([served(), await charged()]).toEqual([['GET /v1/pets'], 1])
  })

  it('does not let its unread body pass for a request', async () => {
    const { exchange, served } = await openWire()
    const body = `${SMUGGLED.length.toString(16)}\r\n${SMUGGLED}\r\n`
    const fields = ['Transfer-Encoding: chunked']
    const { responses } = await exchange(request('OPTIONS', '*', { fields, body }), {
      responses: 1,
    })
    expect([responses.length, served()]).toEqual([1, []])
  })
})

it('the refusal of a HEAD has the headers of its body and no body', async () => {
  const { exchange } = await openWire()
  const { responses, raw, statuses } = await exchange(
    request('HEAD', '/v1/pets', { key: null }) + request('GET', '/v1/pets'),
    { responses: 2, methods: ['HEAD', 'GET'] },
  )
  expect(statuses).toEqual([401, 200])
  expect(Number(responses[0]?.header('content-length'))).toBeGreaterThan(0)
  expect(raw.includes('missing_api_key')).toBe(false)
})

// What each engine makes of one is in test/contract.
it.each([
  ['PATCH', '/v1/pets/1', '1.1', ['0']],
  ['DELETE', '/v1/pets/1', '1.1', []],
  ['POST', '/v1/pets', '1.0', ['0']],
])('%s without length and coding has no body, and what follows is a request', async (...row) => {
  const { exchange, backend, served, charged } = await openWire()
  const [method, target, version, lengths] = row
  const bytes = request(method, target, { version, fields: ['Connection: keep-alive'] })
  const { statuses } = await exchange(bytes + request('GET', '/v1/pets/next'), { responses: 2 })
  const both = [`${method} ${target}`, 'GET /v1/pets/next']
  expect([statuses, served(), await charged()]).toEqual([[200, 200], both, 2])
  expect(backend.requests[0]?.all('content-length')).toEqual(lengths)
})
