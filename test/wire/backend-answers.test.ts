/**
 * Whatever a backend answers: one clean answer or a cut connection for this client, nothing of it for the next one. What
 * each engine makes of many more such answers is in test/contract.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { answer, closeConnection, resetConnection, type Answer } from '../support/raw-backend.ts'
import { engines, expectGatewayFields, expectRefusal, request, openWire } from './wire.ts'

const get = (id: string): string => request('GET', `/v1/pets/${id}`)
const ok = 'HTTP/1.1 200 OK\r\n'
const LEAKED = `${ok}Content-Length: 6\r\n\r\nleaked`
const okTwo = `${ok}Content-Length: 2\r\n\r\nok`

/** Answers that are not HTTP, or that two readers could understand differently. */
const unusable: [what: string, sent: Answer][] = [
  [
    'a 101 that nobody asked for',
    `HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: evil\r\n\r\n${LEAKED}`,
  ],
  // The head was good, but nothing of it has been passed on yet.
  ['a first chunk that is none', `${ok}Transfer-Encoding: chunked\r\n\r\nxyz\r\nok`],
]

/** Answers that are good, or can be made good. */
const usable: [what: string, sent: Answer, status: number, body: string][] = [
  [
    'a body on a 304',
    `HTTP/1.1 304 None\r\nContent-Length: ${LEAKED.length}\r\n\r\n${LEAKED}`,
    304,
    '',
  ],
  [
    'a body that ends with the connection',
    [`${ok}\r\n`, 'ok', 20, 'ok', closeConnection],
    200,
    'okok',
  ],
  [
    'a body of one piece, long after its head',
    [`${ok}Content-Length: 2\r\n\r\n`, 40, 'ok'],
    200,
    'ok',
  ],
  ['its own 429', answer(429, 'oh', 'Retry-After: 7'), 429, 'oh'],
]

describe('a backend', () => {
  it.each([...unusable.map(([what, sent]) => [what, sent, 502, ''] as const), ...usable])(
    'that answers with %s is understood or refused, and the next request is sound',
    async (...row) => {
      const [, sent, status, body] = row
      const respond = ({ target }: { target: string }) =>
        target.endsWith('odd') ? sent : answer(200, target)
      const { exchange, ask, charged, accessLines, settled } = await openWire({ respond })
      const { responses, raw, statuses } = await exchange(get('odd') + get('good'), {
        responses: 2,
      })
      expect(statuses).toEqual([status, 200])
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
    },
  )

  const ENGINES = engines.flatMap((engine) => [
    ['at once', engine, `${okTwo}${LEAKED}`] as const,
    ['a little later', engine, [okTwo, 40, LEAKED]] as const,
  ])
  it.each(ENGINES)('that answers twice, %s, is counted, and named once: %s', async (...row) => {
    const { ask, gateway, backend } = await openWire({ engine: row[1], respond: () => row[2] })
    for (let times = 1; times <= 2; times++) {
      await ask(get('1'))
      await backend.waitFor(() => backend.openConnections() === 0, 'the end of the connection')
      const counted = `tollgate_backend_surplus_total{backend="${backend.url}"}`
      await expect.poll(() => gateway.metric(counted), { interval: 10 }).toBe(times)
    }
    const named = gateway.logLines().filter(({ event }) => event === 'backendSurplus')
    expect(named).toMatchObject([{ level: 'error', backend: backend.url }])
  })

  it('that breaks off never looks complete', async () => {
    const respond = (): Answer => [`${ok}\r\nhalf`, 40, resetConnection]
    const { exchange, charged, accessLines } = await openWire({ respond })
    const { responses, closed } = await exchange(get('1'))
    // A body that ends with the connection would look complete to its reader: it is sent in chunks.
    expect([closed, responses[0]?.complete]).toEqual([true, false])
    expect(responses[0]?.framing).not.toBe('close')
    expect(responses[0]?.body.toString()).toBe('half')
    expect((await accessLines(1))[0]?.cause).toBeTypeOf('string')
    expect(await charged()).toBe(1)
  })

  it('that never answers is a 504', async () => {
    const { ask, charged, backend } = await openWire({
      upstream: 'timeouts: { response: 300ms }',
      respond: () => undefined,
    })
    expectRefusal(await ask(get('1')), 504, { code: 'gateway_timeout', closes: false })
    expect(await charged()).toBe(1)
    await backend.waitFor(() => backend.openConnections() === 0, 'the dead request')
  })

  it.each([
    ['', []],
    [', to who would wait for a 100', ['Expect: 100-continue']],
  ])(
    'that answers before the body has come ends the connection with its answer%s',
    async (_, more) => {
      const { connect, served, charged } = await openWire({
        requestsMayBreakOff: true,
        onHead: (_request, { play }) => void play(answer(403, 'no')),
        respond: () => undefined,
      })
      const client = await connect()
      const fields = ['Content-Length: 1000000', ...more]
      client.send(request('POST', '/v1/pets', { fields, body: 'x'.repeat(100_000) }))
      const got = (await client.waitForResponses(1)).responses.at(-1)
      expect(got).toMatchObject({ status: 403, body: Buffer.from('no') })
      expect(got?.header('connection')).toBe('close')
      client.send(get('smuggled'))
      await client.waitFor(({ closed }) => closed)
      expect([served(), await charged()]).toEqual([[], 1])
    },
  )
})

it.each(engines)(
  'a head that comes with a fault in the body of its request is not written beside the refusal, by %s',
  async (engine) => {
    const { backend, connect } = await openWire({
      engine,
      server: 'limits: { bufferedBody: 0B }',
      requestsMayBreakOff: true,
    })
    const fields = ['Transfer-Encoding: chunked']
    const client = await connect(request('POST', '/v1/pets', { fields, body: '2\r\nok\r\n' }))
    const sent = () => backend.connections[0]?.raw().includes('ok')
    await backend.waitFor(() => sent() === true, 'the body')
    backend.connections[0]?.socket.write(`${ok}Content-Length: 2\r\n\r\n`)
    client.send('no chunk\r\n')
    const { raw } = await client.waitFor(({ closed }) => closed)
    // Either alone, as they may come in two turns.
    expect(raw.toString('latin1').match(/HTTP\/1.1 /g)).toHaveLength(1)
  },
)
