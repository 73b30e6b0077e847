/** WebSockets: judged and charged like any request, then a tunnel; every other upgrade is served as a plain request. */
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { connect, type AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { answer } from '../support/raw-backend.ts'
import { expectGatewayFields, expectRefusal, handshake as WEBSOCKET, keys } from './wire.ts'
import { plansBlock, request, switched, until, withWire } from './wire.ts'

const handshake = (key: string | null = keys.pro): string =>
  request('GET', '/v1/live', { key, fields: WEBSOCKET })
const SMUGGLED = request('GET', '/v1/pets/smuggled')
const switching = (more = ''): string => switched.replace(/\r\n$/, `${more}\r\n`)

/** A WebSocket server that echoes; the handshakes it saw. */
async function startEcho() {
  const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
  const handshakes: IncomingMessage[] = []
  const closes: number[] = []
  server.on('connection', (socket, message) => {
    handshakes.push(message)
    socket.on('message', (data, isBinary) => socket.send(data as Buffer, { binary: isBinary }))
    socket.on('close', (code) => closes.push(code))
    socket.on('error', () => {})
  })
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  return {
    origin: `http://127.0.0.1:${port}`,
    handshakes,
    closes,
    open: () => server.clients.size,
    close: () => {
      for (const client of server.clients) client.terminate()
      return new Promise<void>((resolve) => server.close(() => resolve()))
    },
  }
}

const dial = (port: number, key?: string): WebSocket =>
  new WebSocket(`ws://127.0.0.1:${port}/v1/live?room=1`, {
    headers: { ...(key && { authorization: `Bearer ${key}` }), 'x-client-id': 'evil' },
  })

describe('a WebSocket', () => {
  it('passes nothing of the 101 that is not for the client, and answers in place of the backend', () => {
    const hostile =
      'Connection: X-Secret\r\nX-Secret: 1\r\nDeprecation: @1\r\nSunset: never\r\nX-RateLimit-Foo: 1\r\nProxy-Authenticate: Basic\r\nVia: 1.1 backend\r\nX-Kept: 1\r\n'
    const alike = 'X-RateLimit-Limit: 666\r\nX-Request-Id: evil\r\nContent-Length: 5\r\n'
    return withWire({ respond: () => switching(hostile + alike) }, async ({ exchange }) => {
      const { responses, raw } = await exchange(handshake(), { responses: 1 })
      const head = responses[0]
      expect(head?.status).toBe(101)
      const dropped =
        'x-secret deprecation sunset x-ratelimit-foo proxy-authenticate content-length'
      for (const name of dropped.split(' ')) expect(head?.all(name), name).toEqual([])
      expect(head?.all('connection')).toEqual(['Upgrade'])
      expect(head?.all('upgrade')).toEqual(['websocket'])
      expect(head?.all('via')).toEqual(['1.1 backend, 1.1 tollgate'])
      expect(head?.all('x-kept')).toEqual(['1'])
      expectGatewayFields(head)
      expect(raw.toString().replace(/X-Request-Id: \S+/gi, '')).not.toMatch(/666|evil/)
    })
  })

  it.each(['CONNECT a:1 HTTP/1.1\r\nHost: a\r\n\r\n', handshake(), handshake(null)])(
    'or CONNECT behind a request whose client resets ends nothing but that connection',
    async (behind) => {
      await withWire(
        { respond: () => [50, answer(200, 'ok')], requestsMayBreakOff: true },
        async ({ gateway }) => {
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
    },
  )

  it('is carried both ways, charged once, and recorded when it ends', async () => {
    const echo = await startEcho()
    await withWire({ origin: echo.origin }, async ({ gateway, charged, accessLines, settled }) => {
      const socket = dial(gateway.port, keys.pro)
      const opened = once(socket, 'open')
      const [upgraded] = (await once(socket, 'upgrade')) as [IncomingMessage]
      await opened
      const messages: { data: Buffer; isBinary: boolean }[] = []
      socket.on('message', (data: Buffer, isBinary) => messages.push({ data, isBinary }))
      const large = Buffer.alloc(3_000_000, 'x')
      socket.send('hello')
      socket.send(large)
      await until(() => messages.length === 2, 'the echo')
      expect(messages[0]?.data.toString()).toBe('hello')
      expect(messages[1]).toEqual({ data: large, isBinary: true })
      expect(upgraded.headers['x-request-id']).toBeTypeOf('string')
      expect(upgraded.headers['x-ratelimit-remaining']).toBe('299')

      const [seen] = echo.handshakes
      expect(seen?.url).toBe('/v1/live?room=1')
      expect(seen?.headers['x-client-id']).toBe('pro-client')
      expect(seen?.headers['x-client-plan']).toBe('pro')
      expect(seen?.headers['x-forwarded-for']).toBe('127.0.0.1')
      expect(seen?.headers['x-request-id']).toBe(upgraded.headers['x-request-id'])
      expect(seen?.headers.authorization).toBeUndefined()
      expect(JSON.stringify(seen?.rawHeaders)).not.toMatch(/evil|tg_test/)

      socket.close(4001, 'bye')
      await once(socket, 'close')
      await until(() => echo.closes.length === 1, 'the close')
      expect(echo.closes).toEqual([4001])
      await settled()
      const lines = await accessLines(1)
      expect(lines).toHaveLength(1)
      expect(lines[0]).toMatchObject({ status: 101, route: 'live', client: 'pro-client' })
      expect(lines[0]?.cause).toBeUndefined()
      expect(await charged()).toBe(1)
    })
    await echo.close()
  })

  it('is refused before the upgrade: no key, a wrong key, quota used up, key banned', () =>
    withWire(
      {
        blocks: {
          bans: 'bans: { strikes: 1, within: 1m, grace: 1ms, duration: 1m }',
          plans: plansBlock(),
        },
      },
      async ({ exchange, served, backend, accessLines }) => {
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
        expect(served()).toEqual(['GET /v1/pets'])
        expect(backend.connections).toHaveLength(1)
        expect((await accessLines(5)).every(({ status }) => status !== 101)).toBe(true)
      },
    ))

  it('that is refused is closed even if the client stays', () =>
    withWire({}, async ({ connect, settled, accessLines }) => {
      const client = await connect()
      client.send(handshake(null))
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
    }))

  it('that is reset while it is refused harms nobody', () =>
    withWire({}, async ({ connect, exchange, settled }) => {
      for (let attempt = 0; attempt < 20; attempt++) {
        const client = await connect()
        client.send(handshake(attempt % 2 === 0 ? null : keys.pro))
        if (attempt % 3 > 0) await sleep(attempt % 5)
        client.reset()
      }
      const { responses } = await exchange(request('GET', '/v1/pets'), { responses: 1 })
      expect(responses[0]?.status).toBe(200)
      await settled()
    }))

  it('behind a pipelined request waits for its answer', () =>
    withWire(
      {
        respond: async ({ target }) => {
          if (target === '/v1/live') return [switching(), 'tunnel']
          await sleep(150)
          return answer(200, target)
        },
      },
      async ({ connect, served, charged, exchange }) => {
        const client = await connect()
        client.send(request('GET', '/v1/pets/slow') + handshake())
        const { responses, raw } = await client.waitFor((seen) => seen.raw.includes('tunnel'))
        expect(responses.map(({ status }) => status)).toEqual([200, 101])
        expect(raw.toString()).toContain('tunnel')
        expect(served()).toEqual(['GET /v1/pets/slow', 'GET /v1/live'])
        const alive = await exchange(request('GET', '/v1/pets'), { responses: 1 })
        expect(alive.responses[0]?.status).toBe(200)
        expect(await charged()).toBe(3)
      },
    ))

  it('behind a request that ends the connection is not served', () =>
    withWire({}, async ({ exchange, served }) => {
      const { responses } = await exchange(request('GET', '/v1/pets/..') + handshake() + SMUGGLED)
      expect(responses.map(({ status }) => status)).toEqual([400])
      expect(served()).toEqual([])
    }))

  // What else it may answer is in test/forwarding/upgrader.test.ts.
  it.each([
    ['a refusal of its own', answer(403, 'no'), 502, 'bad_gateway'],
    ['silence', undefined, 504, 'gateway_timeout'],
  ])('that the backend answers with %s is refused', (_, sent, status, code) =>
    withWire(
      { respond: () => sent, upstream: 'timeouts: { response: 300ms }' },
      async ({ exchange, charged, backend, accessLines }) => {
        const { responses, closed } = await exchange(handshake())
        expectRefusal(responses[0], status, { code, closes: true })
        expect([responses.length, closed]).toEqual([1, true])
        await backend.waitFor(() => backend.openConnections() === 0, 'the end')
        expect(await accessLines(1)).toMatchObject([{ status }])
        expect(await charged()).toBe(1)
      },
    ),
  )

  it.each([
    ['an unsound version', WEBSOCKET.with(2, 'Sec-WebSocket-Version: 12'), '13'],
    ['an unsound key', WEBSOCKET.with(3, 'Sec-WebSocket-Key: short'), undefined],
  ])('with %s is refused for free, and no backend hears of it', (_, fields, version) =>
    withWire({}, async ({ exchange, charged, served, accessLines }) => {
      const { responses, closed } = await exchange(
        request('GET', '/v1/live', { fields }) + SMUGGLED,
      )
      expectRefusal(responses[0], 400, { code: 'invalid_request', closes: true })
      expect(responses[0]?.header('sec-websocket-version')).toBe(version)
      expect(responses[0]?.header('x-ratelimit-limit')).toBe('300')
      expect(closed).toBe(true)
      expect(served()).toEqual([])
      expect(await accessLines(1)).toMatchObject([{ status: 400, client: 'pro-client' }])
      expect(await charged()).toBe(0)
    }),
  )

  // What else is unsound is in test/rules/websocket.test.ts.
  it.each([
    ['to another protocol', switched.replace('Upgrade: websocket', 'Upgrade: h2c')],
    ['with another Accept', switched.replace('Accept: s', 'Accept: t')],
  ])('whose 101 comes %s is a 502 with nothing of it, and charged', (_, sent) =>
    withWire(
      { respond: () => [sent, 'tunnel'] },
      async ({ exchange, charged, backend, accessLines }) => {
        const { responses, raw, problem } = await exchange(handshake() + SMUGGLED)
        expect(problem).toBeUndefined()
        expectRefusal(responses[0], 502, { code: 'bad_gateway', closes: true })
        expect(String(raw)).not.toMatch(/HTTP\/1.1 101|tunnel|h2c|Sec-WebSocket/)
        await backend.waitFor(() => backend.openConnections() === 0, 'the end')
        expect(backend.requests).toHaveLength(1)
        expect(await accessLines(1)).toMatchObject([{ status: 502 }])
        expect(await charged()).toBe(1)
      },
    ),
  )

  it('to a backend that is not there is a 502, for free', () =>
    withWire({ noBackend: true }, async ({ exchange, charged }) => {
      const { responses } = await exchange(handshake())
      expectRefusal(responses[0], 502, { code: 'bad_gateway', closes: true })
      expect(await charged()).toBe(0)
    }))

  it('whose client leaves during the handshake ends for the backend', () =>
    withWire({ respond: () => undefined }, async ({ connect, backend, settled, accessLines }) => {
      const client = await connect()
      client.send(handshake())
      await backend.waitFor(() => backend.requests.length === 1, 'the handshake')
      client.reset()
      await backend.waitFor(() => backend.openConnections() === 0, 'its end')
      await settled()
      expect(await accessLines(1)).toMatchObject([{ status: 499 }])
    }))
})

const get = (...fields: string[]): string => request('GET', '/v1/pets', { fields })
const live = (...fields: string[]): string => request('GET', '/v1/live', { fields })
const withBody = { fields: [...WEBSOCKET, 'Content-Length: 2'], body: '{}' }

describe('an upgrade that is not carried', () => {
  it.each([
    ['to h2c', get('Connection: Upgrade, HTTP2-Settings', 'Upgrade: h2c', 'HTTP2-Settings: AAMAA')],
    ['to something unknown', get('Connection: upgrade', 'Upgrade: tunnel/9')],
    ['to a WebSocket where the route takes none', get(...WEBSOCKET)],
    ['to a list of protocols', live('Connection: Upgrade', 'Upgrade: websocket, h2c')],
    ['to a WebSocket, without Connection', live(...WEBSOCKET.slice(1))],
    ['to a WebSocket, with a body', request('GET', '/v1/live', withBody)],
    ['to a WebSocket, by POST', request('POST', '/v1/pets', withBody)],
  ])('is served as a plain request, and nothing behind it is: %s', (_, bytes) =>
    withWire({}, async ({ exchange, backend, charged, accessLines, settled }) => {
      const { responses, problem, closed } = await exchange(bytes + SMUGGLED)
      expect(problem).toBeUndefined()
      expect(responses.map(({ status }) => status)).toEqual([200])
      expect([responses[0]?.header('connection'), closed]).toEqual(['close', true])
      expect(backend.requests).toHaveLength(1)
      const [received] = backend.requests
      expect(received?.header('upgrade')).toBeUndefined()
      expect(received?.header('http2-settings')).toBeUndefined()
      expect(received?.all('connection').join()).not.toMatch(/upgrade/i)
      expect(received?.body.toString()).toBe(bytes.endsWith('{}') ? '{}' : '')
      await settled()
      expect(await accessLines(1)).toHaveLength(1)
      expect(await charged()).toBe(1)
    }),
  )

  it('has its body, even when that comes later', () =>
    withWire({}, async ({ connect, backend }) => {
      const client = await connect()
      const fields = ['Connection: Upgrade', 'Upgrade: h2c', 'Content-Length: 4']
      client.send(request('POST', '/v1/pets', { fields }))
      await sleep(50)
      client.send('{"')
      await sleep(20)
      client.send('"}')
      const { responses } = await client.waitForResponses(1)
      expect(responses[0]?.status).toBe(200)
      expect(backend.requests[0]?.body.toString()).toBe('{""}')
      client.send(SMUGGLED)
      await client.waitFor(({ closed }) => closed)
      expect(backend.requests).toHaveLength(1)
    }))

  it('whose client leaves ends for the backend', () =>
    withWire({ respond: () => undefined }, async ({ connect, backend, settled, accessLines }) => {
      const client = await connect()
      client.send(request('GET', '/v1/pets', { fields: WEBSOCKET }))
      await backend.waitFor(() => backend.requests.length === 1, 'the request')
      client.reset()
      await backend.waitFor(() => backend.openConnections() === 0, 'its end')
      await settled()
      expect(await accessLines(1)).toMatchObject([{ status: 499 }])
    }))
})

describe('a CONNECT', () => {
  it('behind a pipelined request is refused after its answer', () =>
    withWire(
      { respond: async ({ target }) => (await sleep(100), answer(200, target)) },
      async ({ exchange, served }) => {
        const { responses, closed } = await exchange(
          request('GET', '/v1/pets/slow') + request('CONNECT', 'api.example:443') + SMUGGLED,
        )
        expect(responses.map(({ status }) => status)).toEqual([200, 501])
        expect(closed).toBe(true)
        expect(served()).toEqual(['GET /v1/pets/slow'])
      },
    ))

  it('that is reset harms nobody', () =>
    withWire({}, async ({ connect, exchange }) => {
      for (let attempt = 0; attempt < 10; attempt++) {
        const client = await connect()
        client.send(request('CONNECT', 'api.example:443'))
        client.reset()
      }
      const { responses } = await exchange(request('GET', '/v1/pets'), { responses: 1 })
      expect(responses[0]?.status).toBe(200)
    }))
})
