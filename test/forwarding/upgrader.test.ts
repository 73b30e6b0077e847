import { switchingHeaders } from '../../src/rules/client-headers.ts'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, describe, expect, it } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { createUpgradeEngine } from '../../src/forwarding/upgrader.ts'
import { createUpgrader } from '../../src/forwarding/upgrades.ts'
import type { BackendFailure } from '../../src/rules/backend-failure.ts'
import { isRefusal } from '../../src/rules/refusals.ts'
import { readOffer, type WebSocketOffer } from '../../src/rules/websocket.ts'
import { balancerOf } from '../support/balancer.ts'
import {
  answer,
  closeConnection,
  resetConnection,
  startRawBackend,
  until,
  type Answer,
  type RawBackend,
} from '../support/raw-backend.ts'
import { openRawClient, type RawClient } from '../support/raw-client.ts'
import { freePort } from '../support/redis-server.ts'

interface Passage {
  readonly backends: string[]
  established: boolean
  result: BackendFailure | undefined
  done: boolean
  socket: Duplex
}

const lines = (headers: readonly string[] = []): string[] =>
  headers.flatMap((name, at) => (at % 2 === 0 ? [`${name}: ${headers[at + 1]}`] : []))

const toClose: (() => unknown)[] = []
afterEach(async () => {
  for (const close of toClose.splice(0).toReversed()) await close()
})

const switching =
  'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nX-RateLimit-Limit: 1\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n'
const handshake =
  'GET /v1/live?x=%7C&y=a/../b HTTP/1.1\r\nHost: a\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n'

const offerOf = (rawHeaders: readonly string[]): WebSocketOffer => {
  const offer = readOffer(rawHeaders, new Set())
  if (isRefusal(offer)) throw new Error(offer.cause)
  return offer
}

async function startBackend(respond: () => Answer): Promise<RawBackend> {
  const backend = await startRawBackend({ respond })
  toClose.push(() => backend.close())
  return backend
}

/** A front server whose every upgrade goes through the upgrader. */
async function startFront(url: string | string[], timeouts: { responseMs?: number } = {}) {
  const upgrader = createUpgrader(
    balancerOf([url].flat()),
    createUpgradeEngine({
      timeouts: { connectMs: 2_000, responseMs: 10_000, idleMs: 10_000, ...timeouts },
    }),
    10_000,
  )
  const passages: Passage[] = []
  const server = createServer()
  server.on('upgrade', (request, socket: Duplex, head: Buffer) => {
    const passage: Passage = {
      backends: [],
      established: false,
      result: undefined,
      done: false,
      socket,
    }
    passages.push(passage)
    const job = {
      clientId: 'acme',
      request,
      socket,
      head,
      target: request.url ?? '',
      offer: offerOf(request.rawHeaders),
      headers: [...request.rawHeaders, 'X-Client-Id', 'acme'],
      responseHeaders: (backend: readonly string[]) =>
        switchingHeaders(backend, ['X-RateLimit-Limit', '60', 'X-Request-Id', 'r1']),
      sentTo: (backend: string) => passage.backends.push(backend),
      established: () => {
        passage.established = true
      },
    }
    void upgrader.upgrade(job).then((result) => Object.assign(passage, { result, done: true }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const { port } = server.address() as AddressInfo
  toClose.push(async () => {
    await upgrader.close()
    for (const { socket } of passages) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  })
  return { port, passages, upgrader }
}

async function openClient(port: number, bytes: string): Promise<RawClient> {
  const client = await openRawClient(port)
  toClose.push(() => client.destroy())
  client.send(bytes)
  return client
}

describe('an upgrade', () => {
  it('carries WebSocket messages both ways until both sides are closed', async () => {
    const server = new WebSocketServer({ port: 0, host: '127.0.0.1' })
    toClose.push(() => new Promise((resolve) => server.close(resolve)))
    await new Promise((resolve) => server.once('listening', resolve))
    server.on('connection', (peer) => {
      peer.send('welcome')
      peer.on('message', (message: Buffer) => peer.send(`echo ${String(message)}`))
    })
    const { port } = server.address() as AddressInfo
    const front = await startFront(`http://127.0.0.1:${port}`)
    const client = new WebSocket(`ws://127.0.0.1:${front.port}/live`)
    const messages: string[] = []
    client.on('message', (message: Buffer) => messages.push(String(message)))
    await new Promise((resolve) => client.once('open', resolve))
    const large = 'x'.repeat(300_000)
    client.send('one')
    client.send(large)
    await until(() => messages.length === 3, 'the echoes')
    expect(messages).toEqual(['welcome', 'echo one', `echo ${large}`])
    client.close()
    await until(() => front.passages[0]?.done ?? false, 'the end of the tunnel')
    expect(front.passages[0]).toMatchObject({ established: true, result: undefined })
    expect(server.clients.size).toBe(0)
  })

  it('sends the exact target and header fields, and answers with the gateway’s fields in place of the backend’s', async () => {
    const backend = await startBackend(() => switching)
    const front = await startFront(backend.url)
    const client = await openClient(front.port, handshake)
    const { responses } = await client.waitForResponses(1)
    expect(responses[0]).toMatchObject({ status: 101 })
    expect(lines(responses[0]?.headers)).toEqual([
      'Connection: Upgrade',
      'Upgrade: websocket',
      'Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=',
      'X-RateLimit-Limit: 60',
      'X-Request-Id: r1',
      'Via: 1.1 tollgate',
    ])
    const [request] = backend.requests
    expect(request?.target).toBe('/v1/live?x=%7C&y=a/../b')
    expect(lines(request?.headers)).toEqual([
      'Host: a',
      'Upgrade: websocket',
      'Connection: Upgrade',
      'Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==',
      'Sec-WebSocket-Version: 13',
      'X-Client-Id: acme',
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
    expect(String(raw)).toMatch(/r1\r\nVia: 1.1 tollgate\r\n\r\nfrom the backend$/)
  })

  it.each<[string, Answer, BackendFailure['kind']]>([
    ['answers 200', answer(200, 'no socket here'), 'broken'],
    ['answers 403', answer(403, 'no'), 'broken'],
    ['answers garbage', 'garbage\r\n\r\n', 'broken'],
    ['closes', closeConnection, 'broken'],
    ['resets', resetConnection, 'broken'],
    ['is silent', undefined, 'response_timeout'],
  ])('fails with nothing written to the client when the backend %s', async (_, reply, kind) => {
    const backend = await startBackend(() => reply)
    const front = await startFront(backend.url, { responseMs: 500 })
    const client = await openClient(front.port, handshake)
    await until(() => front.passages[0]?.done ?? false, 'the result')
    expect(front.passages[0]).toMatchObject({ established: false, result: { kind } })
    await sleep(50)
    expect(client.received()).toMatchObject({ closed: false, raw: Buffer.alloc(0) })
    // The socket is still the gateway's to answer on.
    front.passages[0]?.socket.end('HTTP/1.1 502 Bad Gateway\r\nContent-Length: 0\r\n\r\n')
    expect((await client.waitForResponses(1)).responses[0]?.status).toBe(502)
    await until(() => backend.openConnections() === 0, 'the backend connection to close')
  })

  it('fails as unreachable when nobody listens', async () => {
    const front = await startFront(`http://127.0.0.1:${await freePort()}`)
    await openClient(front.port, handshake)
    await until(() => front.passages[0]?.done ?? false, 'the result')
    expect(front.passages[0]?.result?.kind).toBe('unreachable')
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

  it.each(['end', 'reset'] as const)(
    'ends the handshake when the client leaves early (%s)',
    async (leave) => {
      const backend = await startBackend(() => undefined)
      const front = await startFront(backend.url)
      const client = await openClient(front.port, handshake)
      await until(() => backend.requests.length === 1, 'the handshake')
      client[leave]()
      await until(() => front.passages[0]?.done ?? false, 'the result')
      expect(front.passages[0]?.result?.kind).toBe('client_gone')
      expect(front.passages[0]?.socket.destroyed).toBe(true)
      await until(() => backend.openConnections() === 0, 'the backend connection to close')
    },
  )

  it.each(['end', 'reset', 'destroy'] as const)(
    'closes the backend’s side with the client’s (%s)',
    async (leave) => {
      const backend = await startBackend(() => switching)
      const front = await startFront(backend.url)
      const client = await openClient(front.port, handshake)
      await client.waitForResponses(1)
      client[leave]()
      await until(() => backend.openConnections() === 0, 'the backend connection to close')
      client.end()
      await until(() => front.passages[0]?.done ?? false, 'the result')
    },
  )

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
    await until(() => front.passages[0]?.done ?? false, 'the result')
  })

  it('does not keep a side open for one that never closes its own', async () => {
    const backend = await startRawBackend({
      respond: () => switching,
      onConnection: ({ socket }) => void socket.removeAllListeners('end'),
    })
    toClose.push(() => backend.close())
    const front = await startFront(backend.url)
    const client = await openClient(front.port, handshake)
    await client.waitForResponses(1)
    client.end()
    await until(() => front.passages[0]?.done ?? false, 'both sides to be cut')
  })

  it('is cut by close', async () => {
    const backend = await startBackend(() => switching)
    const front = await startFront(backend.url)
    const client = await openClient(front.port, handshake)
    await client.waitForResponses(1)
    await front.upgrader.close()
    await client.waitFor(({ closed }) => closed)
    await until(() => backend.openConnections() === 0, 'the backend connection to close')
  })
})
