/** WebSockets: judged and charged like any request, then a tunnel; every other upgrade is served as a plain request. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { answer, closeConnection, resetConnection, type Answer } from '../support/raw-backend.ts'
import { expectOnlyRefusal, expectRefusal, handshake as WEBSOCKET, keys } from './wire.ts'
import { plansBlock, request, switched, until, openWire } from './wire.ts'

const handshake = (key: string | null = keys.pro): string =>
  request('GET', '/v1/live', { key, fields: WEBSOCKET })
const SMUGGLED = request('GET', '/v1/pets/smuggled')

describe('a WebSocket', () => {
  it.each(['CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n', handshake(), handshake(null)])(
    'or CONNECT behind a request whose client resets ends nothing but that connection',
    async (behind) => {
      const { gateway } = await openWire({
        respond: () => [50, answer(200, 'ok')],
        requestsMayBreakOff: true,
      })
      for (let attempt = 0; attempt < 10; attempt++) {
        for (const key of [keys.pro, null]) {
          const socket = connect(gateway.port, '127.0.0.1')
          socket.on('error', () => {})
          await once(socket, 'connect')
          socket.write(request('GET', '/v1/pets', { key }) + behind)
          if (attempt % 2 === 0) await sleep(5)
          socket.resetAndDestroy()
        }
      }
      const response = await gateway.fetch('/v1/pets', { key: keys.business })
      expect(response.status).toBe(200)
    },
  )

  it('is refused before the upgrade: no key, a wrong key, quota used up, key banned', async () => {
    const { exchange, served, backend, accessLines } = await openWire({
      blocks: {
        bans: 'bans: { strikes: 1, within: 1m, grace: 1ms, duration: 1m }',
        plans: plansBlock(),
      },
    })
    const missing = await exchange(handshake(null) + SMUGGLED)
    expectRefusal(missing.responses[0], 401, { code: 'missing_api_key', closes: true })
    expect(missing.responses).toHaveLength(1)
    expect(missing.closed).toBe(true)
    const wrong = await exchange(handshake('tg_wrong'))
    expectRefusal(wrong.responses[0], 401, { code: 'invalid_api_key', closes: true })
    await exchange(request('GET', '/v1/pets', { key: keys.free }), { responses: 1 })
    const over = await exchange(handshake(keys.free))
    expectRefusal(over.responses[0], 429, { code: 'rate_limit_exceeded', closes: true })
    expect(over.responses[0]?.header('retry-after')).toMatch(/^\d+$/)
    const deadline = Date.now() + 10_000
    let banned = over
    do {
      await sleep(20)
      banned = await exchange(handshake(keys.free))
    } while (!banned.raw.includes('api_key_banned') && Date.now() < deadline)
    expectRefusal(banned.responses[0], 429, { code: 'api_key_banned', closes: true })
    expect([served(), backend.connections.length]).toEqual([['GET /v1/pets'], 1])
    expect((await accessLines(5)).every(({ status }) => status !== 101)).toBe(true)
  })

  it('that is refused is closed even if the client stays', async () => {
    const { connect, settled, accessLines } = await openWire()
    const client = await connect(handshake(null))
    await client.waitFor(({ closed }) => closed)
    // The client does not close its side: its bytes go nowhere, and the connection ends.
    const trickle = (async () => {
      while (!client.socket.destroyed) {
        client.send('x')
        await sleep(50)
      }
    })()
    await until(() => client.socket.destroyed, 'the end of the connection')
    await trickle
    await settled()
    expect(await accessLines(1)).toMatchObject([{ status: 401 }])
  })

  it.each<[string, Answer]>([
    ['answers 200', answer(200, 'no tunnel here')],
    ['answers 403', answer(403, 'no tunnel here')],
    ['answers garbage', 'garbage\r\n\r\n'],
    ['closes', closeConnection],
    ['resets', resetConnection],
    ['goes over to another protocol', [switched.replace(': websocket', ': h2c'), 'tunnel']],
    ['is silent', undefined],
  ])('whose backend %s is refused with nothing of it, and charged', async (_, reply) => {
    const isSilent = reply === undefined
    const { exchange, charged, backend, gateway, accessLines } = await openWire({
      respond: () => reply,
      upstream: isSilent ? 'timeouts: { response: 300ms }' : '',
    })
    const { responses, raw, closed } = await exchange(handshake() + SMUGGLED)
    const [status, code, kind] = isSilent
      ? ([504, 'gateway_timeout', 'response_timeout'] as const)
      : ([502, 'bad_gateway', 'broken'] as const)
    expectRefusal(responses[0], status, { code, closes: true })
    expect([responses.length, closed]).toEqual([1, true])
    expect(String(raw)).not.toMatch(/HTTP\/1.1 101|tunnel|h2c|Sec-WebSocket|garbage/)
    await backend.waitFor(() => backend.openConnections() === 0, 'the end')
    expect(backend.requests).toHaveLength(1)
    expect(await accessLines(1)).toMatchObject([{ status }])
    const failures = `tollgate_backend_failures_total{kind="${kind}"}`
    expect(await gateway.metric(failures)).toBe(1)
    expect(await charged()).toBe(1)
  })

  it.each([
    ['end', ''],
    ['end', 'early'],
    ['reset', ''],
  ] as const)(
    'whose client leaves before the answer (%s, %j sent) is closed, and frees its backend, which has not failed',
    async (leave, early) => {
      const { connect, backend, gateway } = await openWire({ respond: () => undefined })
      const client = await connect(handshake() + early)
      await until(() => backend.requests.length === 1, 'the handshake')
      client[leave]()
      await until(() => backend.openConnections() === 0, 'the backend to be left')
      await client.waitFor(({ closed }) => closed)
      expect(await gateway.metric('tollgate_backend_failures_total{')).toBe(0)
    },
  )

  // What else is unsound is in test/core/rules/websocket.test.ts.
  it('with an unsound version is refused for free, and no backend hears of it', async () => {
    const wire = await openWire()
    const fields = WEBSOCKET.with(2, 'Sec-WebSocket-Version: 12')
    const bytes = request('GET', '/v1/live', { fields }) + SMUGGLED
    const got = await expectOnlyRefusal(wire, bytes, [400, 'invalid_request'])
    expect(got?.header('sec-websocket-version')).toBe('13')
    expect(got?.header('x-ratelimit-limit')).toBe('300')
    expect(await wire.accessLines(1)).toMatchObject([{ status: 400, client: 'pro-client' }])
  })

  it('to a backend that is not there is a 502, for free', async () => {
    const { exchange, charged } = await openWire({ noBackend: true })
    const { responses } = await exchange(handshake())
    expectRefusal(responses[0], 502, { code: 'bad_gateway', closes: true })
    expect(await charged()).toBe(0)
  })
})

const get = (...fields: string[]): string => request('GET', '/v1/pets', { fields })

describe('an upgrade that is not carried', () => {
  it.each([
    ['to h2c', get('Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAA')],
    ['to something unknown', get('Connection: upgrade', 'Upgrade: tunnel/9')],
    ['to a WebSocket where the route takes none', get(...WEBSOCKET)],
  ])('is served as a plain request, and nothing behind it is: %s', async (_, bytes) => {
    const { exchange, backend, charged, accessLines, settled } = await openWire()
    const { responses, closed, statuses } = await exchange(bytes + SMUGGLED)
    expect(statuses).toEqual([200])
    expect([responses[0]?.header('connection'), closed]).toEqual(['close', true])
    expect(backend.requests).toHaveLength(1)
    const [received] = backend.requests
    expect(received?.header('upgrade')).toBeUndefined()
    expect(received?.header('http2-settings')).toBeUndefined()
    expect(received?.all('connection').join()).not.toMatch(/upgrade/i)
    await settled()
    expect([(await accessLines(1)).length, await charged()]).toEqual([1, 1])
  })
})

describe('a CONNECT', () => {
  it('behind a pipelined request is refused after its answer', async () => {
    const { exchange, served } = await openWire({
      respond: async ({ target }) => (await sleep(100), answer(200, target)),
    })
    const { closed, statuses } = await exchange(
      request('GET', '/v1/pets/slow') + request('CONNECT', 'api.example:443') + SMUGGLED,
    )
    expect([statuses, closed, served()]).toEqual([[200, 501], true, ['GET /v1/pets/slow']])
  })
})
