import { createServer, type IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { Exchange } from '../../../src/core/pipeline/exchange.ts'
import { forward, type Carrier } from '../../../src/core/pipeline/forward.ts'
import { Engine } from '../../../src/core/forwarding/engine.ts'
import { Handshake } from '../../../src/core/forwarding/http-proxy-3.ts'
import { Tunnels } from '../../../src/core/forwarding/tunnel.ts'
import type { BackendFailureKind } from '../../../src/core/rules/backend-failure.ts'
import { createCaller } from '../../../src/core/rules/credentials.ts'
import type { OwnEnd, TunnelEnd } from '../../../src/core/rules/websocket.ts'
import { balancerOf, engineOptions, retriesOf } from '../../support/balancer.ts'
import { atEnd, gatewayEnds } from '../../support/ending.ts'
import { listening } from '../../support/listening.ts'
import { closeConnection, resetConnection } from '../../support/raw-backend.ts'
import { startRawBackend, until, type Answer, type RawBackend } from '../../support/raw-backend.ts'
import { openRawClient, type RawClient } from '../../support/raw-client.ts'
import { ownMs } from '../../support/own-time.ts'
import { freePort } from '../../support/redis-server.ts'
import { switched } from '../../wire/wire.ts'

interface Passage {
  readonly backends: string[]
  established: boolean
  failed?: BackendFailureKind
  end?: TunnelEnd
  done: boolean
}

const lines = (headers: readonly string[] = []): string[] =>
  headers.flatMap((name, at) => (at % 2 === 0 ? [`${name}: ${headers[at + 1]}`] : []))

const switching = switched.replace('\r\n\r\n', '\r\nX-RateLimit-Limit: 1\r\n\r\n')
const handshake =
  'GET /v1/live?x=%7C&y=a/../b HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n'

const caller = createCaller(
  { id: 'acme', plan: 'pro', limits: { perMinute: 60, perDay: 60 }, concurrent: 8 },
  { id: 'acme-1' },
  false,
)

const startBackend = (respond: () => Answer): Promise<RawBackend> => startRawBackend({ respond })

/** The parts of an exchange that forwarding an upgrade needs. */
function admit(
  request: IncomingMessage,
  socket: Duplex,
  passage: Passage,
  tunnelIdleMs: number,
): Exchange {
  const exchange = {
    id: 'r1',
    terms: { server: { limits: {}, timeouts: { tunnelIdleMs } } },
    target: request.url ?? '',
    framing: { websocket: true, host: 'a', body: 'none', nominated: new Set(['upgrade']) },
    connection: { protocol: { takeOver: () => socket } },
    request,
    response: { headersSent: false, send: () => void (passage.done = true) },
    route: { websocket: true },
    quotaHeaders: ['X-RateLimit-Limit', '60'],
    corsHeaders: [],
    status: 0,
    sender: { address: '127.0.0.1', proxies: '' },
    proto: 'http',
    sentTo: (backend: string) => passage.backends.push(backend),
  } as unknown as Exchange
  // As the connection and the first stage do.
  socket.on('error', () => {})
  socket.once('close', () => {
    if (exchange.status !== 101) exchange.forwarding?.abort()
    passage.done ||= exchange.status !== 101
  })
  return exchange
}

/** A front server whose every upgrade is forwarded. */
async function startFront(url: string | string[], { tunnelIdleMs = 60_000 } = {}) {
  const balancer = balancerOf([url].flat())
  const engine = { send: () => expect.unreachable(), close: () => {} }
  const tunnels = new Tunnels()
  const upgrades = new Engine(Handshake, engineOptions, balancer)
  const settings = { upstream: { host: 'preserve', ...engineOptions } } as Carrier['settings']
  const carrier = { balancer, retries: retriesOf(balancer), engine, upgrades, settings }
  const passages: Passage[] = []
  const server = createServer()
  server.on('upgrade', (request, socket: Duplex, head: Buffer) => {
    const passage: Passage = { backends: [], established: false, done: false }
    passages.push(passage)
    // As a connection does that hands itself over.
    socket.pause().unshift(head)
    const parts = {
      log: { backendFailed: () => {} },
      metrics: {
        backendFailed: (kind: BackendFailureKind) => (passage.failed = kind),
        tunnelOpened: () => (passage.established = true),
        tunnelEnded: (end: TunnelEnd) => (passage.end = end),
        tunnelClosed: () => (passage.done = true),
      },
      tunnels,
    } as unknown as Parameters<typeof forward>[0]
    forward(parts, carrier, admit(request, socket, passage, tunnelIdleMs), caller)
  })
  // Not for tunnels.
  server.timeout = 300
  const front = { judge: (): OwnEnd | undefined => undefined }
  const reviews = setInterval(() => tunnels.review(() => front.judge()), 20)
  const port = await listening(server)
  gatewayEnds(() => {
    clearInterval(reviews)
    tunnels.cut()
    upgrades.close()
  })
  return Object.assign(front, { port, passages, tunnels })
}

/** Until the first passage of the front is over. */
const over = ({ passages }: { passages: readonly Passage[] }): Promise<void> =>
  until(() => passages[0]?.done ?? false, 'the end of the tunnel')

/** A front before a backend that agrees to each handshake, and a client that has its answer. */
async function openTunnel(options?: Parameters<typeof startFront>[1]) {
  const backend = await startBackend(() => switching)
  const front = await startFront(backend.url, options)
  const client = await openClient(front.port, handshake)
  await client.waitForResponses(1)
  return { backend, front, client }
}

async function openClient(port: number, bytes: string): Promise<RawClient> {
  const client = await openRawClient(port)
  atEnd(() => client.destroy())
  client.send(bytes)
  return client
}

describe('an upgrade', () => {
  it('sends the exact target and header fields, and answers with the gateway’s fields in place of the backend’s', async () => {
    const backend = await startBackend(() => switching)
    const front = await startFront(backend.url)
    const client = await openClient(front.port, handshake)
    const { responses } = await client.waitForResponses(1)
    expect(responses[0]).toMatchObject({ status: 101 })
    expect(lines(responses[0]?.headers)).toEqual([
      'Connection: Upgrade',
      'Upgrade: websocket',
      'X-Request-Id: r1',
      'X-RateLimit-Limit: 60',
      'Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=',
      'Via: 1.1 tollgate',
    ])
    const [request] = backend.requests
    expect(request?.target).toBe('/v1/live?x=%7C&y=a/../b')
    expect(lines(request?.headers)).toEqual([
      'Host: a',
      'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
      'Sec-WebSocket-Version: 13',
      'X-Client-Id: acme',
      'X-Client-Plan: pro',
      'X-Request-Id: r1',
      'X-Forwarded-For: 127.0.0.1',
      'X-Forwarded-Proto: http',
      'X-Forwarded-Host: a',
      'Via: 1.1 tollgate',
      'Connection: Upgrade',
      'Upgrade: websocket',
    ])
  })

  it('loses nothing that either side sent early', async () => {
    const backend = await startBackend(() => [30, `${switching}from the backend`])
    const front = await startFront(backend.url)
    const client = await openClient(front.port, `${handshake}early`)
    await until(() => backend.requests.length === 1, 'the handshake')
    client.send(' and later')
    await until(() => String(backend.connections[0]?.raw()).endsWith('early and later'))
    const { raw } = await client.waitFor((seen) => String(seen.raw).endsWith('from the backend'))
    expect(String(raw)).toMatch(/\r\nVia: 1.1 tollgate\r\n\r\nfrom the backend$/)
  })

  it('goes to the next backend when nobody listens at the first, with all that the client sent at once', async () => {
    const backend = await startBackend(() => switching)
    const nobody = `http://127.0.0.1:${await freePort()}`
    const front = await startFront([nobody, backend.url])
    const client = await openClient(front.port, `${handshake}early`)
    expect((await client.waitForResponses(1)).responses[0]?.status).toBe(101)
    await until(() => String(backend.connections[0]?.raw()).endsWith('early'))
    expect(front.passages[0]).toMatchObject({ established: true, backends: [nobody, backend.url] })
  })

  it.each<[string, string[], tried: number, kind: BackendFailureKind]>([
    ['fails after two at which nobody listens', ['nobody', 'nobody', 'well'], 2, 'unreachable'],
    ['that has a wrong 101 goes to no other', ['wrong', 'well'], 1, 'broken'],
  ])('%s', async (_, kinds, tried, kind) => {
    const urls = await Promise.all(
      kinds.map(async (each) => {
        if (each === 'nobody') return `http://127.0.0.1:${await freePort()}`
        const wrong = switching.replace('Upgrade: websocket', 'Upgrade: h2c')
        return (await startBackend(() => (each === 'well' ? switching : wrong))).url
      }),
    )
    const front = await startFront(urls)
    await openClient(front.port, handshake)
    await over(front)
    expect(front.passages[0]).toMatchObject({ failed: kind, backends: urls.slice(0, tried) })
  })

  it.each([
    ['closes', closeConnection],
    ['resets', resetConnection],
  ] as const)('closes the client’s side when the backend %s', async (_, leave) => {
    const backend = await startBackend(() => [switching, 'last words', 50, leave])
    const front = await startFront(backend.url)
    const client = await openClient(front.port, handshake)
    const { raw } = await client.waitFor(({ closed }) => closed)
    expect(String(raw)).toMatch(/last words$/)
    client.end()
    await over(front)
  })

  it('does not keep a side open for one that never closes its own', async () => {
    const backend = await startRawBackend({
      respond: () => switching,
      onConnection: ({ socket }) => void socket.removeAllListeners('end'),
    })
    const front = await startFront(backend.url)
    const client = await openClient(front.port, handshake)
    await client.waitForResponses(1)
    client.end()
    await over(front)
  })

  it('is cut by close', async () => {
    const { backend, front, client } = await openTunnel()
    front.tunnels.cut()
    await client.waitFor(({ closed }) => closed)
    await until(() => backend.openConnections() === 0, 'the backend connection to close')
  })
})

/** RFC 6455 5.2, without a mask. */
const text = (payload: string): string => `\x81${String.fromCharCode(payload.length)}${payload}`
const goodbye = '\x88\x06\x03\xe9idle'

describe('a tunnel that the gateway ends', () => {
  const open = async (options: { tunnelIdleMs?: number } = {}) => {
    const { backend, front, client } = await openTunnel(options)
    const [connection] = backend.connections
    if (connection === undefined) throw new Error('no backend connection')
    const end = (reason: OwnEnd): void => void (front.judge = () => reason)
    /** What came behind the heads, unmasked where it was masked. */
    const behindHead = (raw: Buffer): string => raw.toString('latin1', raw.indexOf('\r\n\r\n') + 4)
    const atClient = (): string => behindHead(client.received().raw)
    const atBackend = (): string => behindHead(connection.raw())
    const [passage] = front.passages
    return { front, client, backend: connection, end, atClient, atBackend, passage }
  }
  const unmask = (frame: string): string => {
    const bytes = Buffer.from(frame, 'latin1')
    const payload = bytes.subarray(6).map((byte, at) => byte ^ (bytes[2 + (at % 4)] ?? 0))
    return `${String.fromCharCode(bytes[0] ?? 0, (bytes[1] ?? 0) ^ 0x80)}${Buffer.from(payload).toString('latin1')}`
  }

  it("is idle for no longer than it may be, whatever the listener's time-out is", async () => {
    const beforeMs = performance.now()
    const { passage, client, atClient, atBackend } = await open({ tunnelIdleMs: 1_000 })
    await until(() => passage?.end !== undefined, 'the end')
    expect(performance.now() - beforeMs).toBeGreaterThan(900)
    expect(passage?.end).toBe('idle')
    await client.waitFor(() => atClient() === goodbye)
    await until(() => atBackend().length === 12, 'the close frame at the backend')
    expect(unmask(atBackend())).toBe(goodbye)
  })

  it('takes no more from one side than the other takes from it', async () => {
    const { client, backend } = await open()
    const { bytesRead } = client.socket
    client.socket.pause()
    const frame = Buffer.concat([
      Buffer.from([0x82, 127, 0, 0, 0, 0, 0, 0x10, 0, 0]),
      Buffer.alloc(2 ** 20, 'x'),
    ])
    const frames = 32
    for (let count = 0; count < frames; count++) backend.socket.write(frame)
    let left = Number.NaN
    while (left !== backend.socket.writableLength) {
      left = backend.socket.writableLength
      await sleep(300)
    }
    // What the kernel holds on the way is no more than some megabytes.
    expect(left).toBeGreaterThan((frames * frame.length) / 2)
    client.socket.resume()
    const all = bytesRead + frames * frame.length
    await until(() => client.socket.bytesRead === all, 'all of it')
  })

  it.each(['client', 'backend'] as const)(
    'gets its close frame behind the frame that the %s had half sent, and nothing after it',
    async (side) => {
      const { client, backend, end, atClient, atBackend, passage } = await open()
      const [from, heard] =
        side === 'client' ? [client.socket, atBackend] : [backend.socket, atClient]
      const [half, rest] = [`${text('one')}\x01\x05fr`, 'agm']
      from.write(Buffer.from(half, 'latin1'))
      await until(() => heard() === half, 'the first half')
      end('idle')
      await until(() => passage?.end === 'idle', 'the end')
      await until(
        () => (side === 'client' ? atClient() : atBackend()) !== '',
        "the other side's close",
      )
      expect(heard()).toBe(half)
      from.write(Buffer.from(`${rest}${text('too late')}`, 'latin1'))
      await until(() => heard().length > half.length + rest.length, 'the close frame')
      await sleep(50)
      expect(heard().slice(0, half.length + rest.length)).toBe(half + rest)
      const last = heard().slice(half.length + rest.length)
      expect(side === 'client' ? unmask(last) : last).toBe(goodbye)
    },
  )

  it('closes both connections once both sides have answered', async () => {
    const { client, backend, end, atClient, atBackend, passage } = await open()
    end('banned')
    await until(() => atClient() !== '' && atBackend() !== '', 'both close frames')
    expect(atClient().slice(2, 4)).toBe('\x03\xf0')
    const startedMs = ownMs()
    for (const socket of [client.socket, backend.socket])
      socket.write(Buffer.from('\x88\x82\0\0\0\0\x03\xf0', 'latin1'))
    await client.waitFor(({ closed }) => closed)
    client.end()
    await until(() => passage?.done ?? false, 'the end of the tunnel')
    // Else they would be cut, five seconds after the goodbye.
    expect(ownMs() - startedMs).toBeLessThan(4_000)
    expect([passage?.end, passage?.failed]).toEqual(['banned', undefined])
  })

  it('is cut if nobody answers', async () => {
    const { end, client, passage } = await open()
    client.send('\x81\xff')
    end('expired')
    await until(() => passage?.done ?? false, 'the cut')
    expect(passage?.end).toBe('expired')
  })

  it('is left to its two sides where one of them has said goodbye', async () => {
    const { client, backend, front, atClient, atBackend, passage } = await open()
    const own = '\x88\x82\0\0\0\0\x03\xe8'
    client.send(own)
    await until(() => atBackend() === own, 'the close of the client')
    expect(passage?.end).toBe('client')
    front.tunnels.drain()
    const answered = `${text('one')}\x88\x02\x03\xe8`
    backend.socket.write(Buffer.from(answered, 'latin1'))
    await until(() => atClient() === answered, 'the answer of the backend')
    expect(atBackend()).toBe(own)
    expect(passage?.end).toBe('client')
  })

  it('hears of a drain that begins during its handshake', async () => {
    const backend = await startBackend(() => [100, switching])
    const front = await startFront(backend.url)
    const client = await openClient(front.port, handshake)
    await until(() => backend.requests.length === 1, 'the handshake')
    front.tunnels.drain()
    await client.waitFor(({ raw }) => raw.includes('the gateway goes away'))
    expect(front.passages[0]?.end).toBe('drain')
  })
})
