/** What the contract of the engines leaves to this one: its connections from turn to turn of the event loop, and TLS. */
import { readFileSync } from 'node:fs'
import type { AddressInfo, Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import * as tls from 'node:tls'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { createDirectEngine } from '../../src/forwarding/direct/forwarder.ts'
import { forwardNow as forward, Outcome, startFront, type Front } from '../contract/forwarding.ts'
import { answer, closeConnection, startRawBackend, until } from '../support/raw-backend.ts'
import { type BackendConnection, type RawBackend } from '../support/raw-backend.ts'
import { type RecordedRequest } from '../support/raw-backend.ts'
import { makeCertificates, type Certificate, type Certificates } from '../support/redis-tls.ts'

const toClose: { close(): Promise<void> }[] = []
afterEach(async () => {
  for (const each of toClose.splice(0).toReversed()) await each.close()
})
const keep = <Closable extends { close(): Promise<void> }>(each: Closable): Closable => {
  toClose.push(each)
  return each
}
const startBackend = async (options?: Parameters<typeof startRawBackend>[0]) =>
  keep(await startRawBackend(options))
const front = async (backend: RawBackend, options?: Parameters<typeof startFront>[2]) =>
  keep(await startFront(createDirectEngine, [backend.url], options))

const forwardNow = ({ forwarder }: Front, method: string, target: string, outcome?: Outcome) =>
  forward(forwarder, { method, target }, outcome)

describe('a great answer', () => {
  it('is read in many turns of the event loop, so that others have theirs', async () => {
    const body = 'x'.repeat(4_000_000)
    const backend = await startBackend({ respond: () => answer(200, body) })
    const gateway = await front(backend)
    const perTurn: number[] = [0]
    const outcome = new (class extends Outcome {
      override data(chunk: Buffer): boolean {
        perTurn.push((perTurn.pop() ?? 0) + chunk.length)
        return super.data(chunk)
      }
    })()
    const count = (): void => {
      perTurn.push(0)
      if (!outcome.settled) setImmediate(count)
    }
    setImmediate(count)
    await forwarded(forwardNow(gateway, 'GET', '/', outcome))
    expect(outcome.bodyBytes).toBe(body.length)
    expect(Math.max(...perTurn)).toBeLessThanOrEqual(128 * 1024)
  })
})

describe('an idle connection', () => {
  it('that the backend is just closing is not used, for a POST neither', async () => {
    const backend = await startBackend()
    const gateway = await front(backend, { connections: 1 })
    for (let round = 0; round < 20; round++) {
      await forwarded(forwardNow(gateway, 'GET', '/first'))
      backend.connections.at(-1)?.socket.end()
      const outcome = forwardNow(gateway, 'POST', '/second')
      await forwarded(outcome)
      expect(outcome).toMatchObject({ status: 200, body: 'ok', failure: undefined })
    }
    expect(backend.requests).toHaveLength(40)
  })

  it('on which the backend is just saying something is not used, and what it says is lost', async () => {
    const backend = await startBackend({ respond: ({ target }) => answer(200, target) })
    const gateway = await front(backend, { connections: 1 })
    for (let round = 0; round < 20; round++) {
      await forwarded(forwardNow(gateway, 'GET', '/first'))
      backend.connections.at(-1)?.socket.write(answer(200, 'evil'))
      const outcome = forwardNow(gateway, 'POST', '/second')
      await forwarded(outcome)
      expect(outcome).toMatchObject({ status: 200, body: '/second' })
    }
    expect(backend.requests).toHaveLength(40)
  })

  it('that was used last, of those that have rested for a moment, is used next', async () => {
    const backend = await startBackend({ respond: () => [20, answer(200, 'ok')] })
    const gateway = await front(backend)
    await Promise.all(['/1', '/2', '/3'].map((target) => gateway.get(target)))
    const last = await forwardedBy(gateway, backend)
    for (let count = 0; count < 5; count++) {
      await sleep(20)
      expect(await forwardedBy(gateway, backend)).toBe(last)
    }
    expect(backend.connections).toHaveLength(3)
  })

  it.each([
    ['for no longer than the backend says, with a second to spare', 'timeout=2', 900],
    ['not at all where the backend says a second', 'timeout=1, max=100', 0],
  ])('is kept %s', async (_, hint, leastMs) => {
    const backend = await startBackend({ respond: () => answer(200, 'ok', `Keep-Alive: ${hint}`) })
    const gateway = await front(backend)
    const sinceMs = performance.now()
    await gateway.get('/')
    await until(() => backend.openConnections() === 0, 'the idle connection to close')
    const keptMs = performance.now() - sinceMs
    expect(keptMs).toBeGreaterThanOrEqual(leastMs)
    // Without the hint it would be ten seconds.
    expect(keptMs).toBeLessThan(9_000)
  })

  it('is read again after its client has paused the end of an answer', async () => {
    const backend = await startBackend()
    const gateway = await front(backend, { connections: 1 })
    for (let round = 0; round < 3; round++) {
      const outcome = forwardNow(gateway, 'GET', '/')
      outcome.accepts = false
      await forwarded(outcome)
      expect(outcome.calls).toEqual(['head', 'data', 'end'])
      outcome.handle?.resume()
    }
    expect(backend.connections).toHaveLength(1)
    backend.connections[0]?.socket.end()
    await until(() => backend.openConnections() === 0, 'the end to be noticed')
  })
})

/** Sends the next request from within the end of the answer before, so that nothing else has its turn in between. */
class Chain extends Outcome {
  readonly next: () => void
  constructor(next: () => void) {
    super()
    this.next = next
  }
  override end(): void {
    super.end()
    this.next()
  }
}

async function forwardChain(gateway: Front, method: string, count: number): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  const next = (): void => {
    if (outcomes.length === count) return
    const outcome = new Chain(next)
    outcomes.push(outcome)
    forwardNow(gateway, method, `/${outcomes.length}`, outcome)
  }
  next()
  await until(() => outcomes.at(-1)?.settled === true, 'the last answer')
  return outcomes
}

describe('a connection whose answer has just come', () => {
  const soon = ({ target }: { target: string }) => answer(200, target)
  const later = (act: (socket: Socket) => void) => ({
    respond: (request: RecordedRequest, { socket }: BackendConnection) => {
      // In the turn in which the gateway reads the answer, which is the next.
      setImmediate(() => setImmediate(() => act(socket)))
      return soon(request)
    },
  })
  const hostile: [string, Parameters<typeof startRawBackend>[0]][] = [
    ['closes it at once', { respond: (request) => [soon(request), closeConnection] }],
    ['closes it a little later', later((socket) => socket.end())],
    ['sends another answer a little later', later((socket) => socket.write(answer(200, 'evil')))],
    ['sends half an answer a little later', later((socket) => socket.write('HTTP/1.1 2'))],
  ]

  it.each(
    hostile.flatMap(([what, options]) =>
      [1, 8].map((connections) => [what, connections, options] as const),
    ),
  )(
    'and whose backend %s, out of %i at most, does no harm to the POST that follows at once',
    async (_, connections, options) => {
      const backend = await startBackend(options)
      const gateway = await front(backend, { connections })
      const outcomes = await forwardChain(gateway, 'POST', 100)
      expect(outcomes.map(({ body }) => body)).toEqual(backend.requests.map((r) => r.target))
      expect(backend.connections).toHaveLength(100)
    },
  )

  it('and whose backend closes it does no harm to those that wait for it', async () => {
    const backend = await startBackend({ respond: (request) => [soon(request), closeConnection] })
    const gateway = await front(backend, { connections: 2 })
    const outcomes = Array.from({ length: 50 }, (_, at) => forwardNow(gateway, 'POST', `/${at}`))
    for (const outcome of outcomes) await forwarded(outcome)
    expect(outcomes.map(({ body }) => body)).toEqual(outcomes.map((_each, at) => `/${at}`))
    expect(backend.requests).toHaveLength(50)
  })

  it('is met closed by few GETs, though its backend closes each one a moment after its answer', async () => {
    const backend = await startBackend({
      respond: (request) => [soon(request), 3, closeConnection],
    })
    const gateway = await front(backend)
    const outcomes = await forwardChain(gateway, 'GET', 20)
    expect(outcomes.map(({ body }) => body)).toEqual(outcomes.map((_, at) => `/${at + 1}`))
    // Each that was met closed was sent twice.
    expect(backend.requests.length).toBeLessThan(25)
    expect(backend.requests.length).toBeGreaterThan(20)
  })

  it('is waited for by a GET, while a POST has another made where there may be one', async () => {
    const backend = await startBackend()
    const gateway = await front(backend, { connections: 5 })
    await forwardChain(gateway, 'GET', 20)
    expect(backend.connections).toHaveLength(1)
    const outcomes = await forwardChain(gateway, 'POST', 20)
    expect(outcomes.map(({ status }) => status)).toEqual(outcomes.map(() => 200))
    expect(backend.connections.length).toBeGreaterThan(1)
    expect(backend.connections.length).toBeLessThanOrEqual(5)
  })
})

describe('a connection', () => {
  it('on which more came than the answer is closed', async () => {
    const backend = await startBackend({
      respond: () => `${String(answer(200, 'ok'))}${String(answer(200, 'evil'))}`,
    })
    const gateway = await front(backend, { connections: 1 })
    for (let round = 1; round <= 3; round++) {
      expect((await gateway.get('/')).body).toBe('ok')
      expect(backend.connections).toHaveLength(round)
    }
    await until(() => backend.openConnections() === 0, 'all of them to close')
  })

  it('that the backend keeps for a second only is not used twice', async () => {
    const backend = await startBackend({
      respond: () => answer(200, 'ok', 'Keep-Alive: timeout=1'),
    })
    const gateway = await front(backend)
    await gateway.get('/')
    await gateway.get('/')
    expect(backend.connections).toHaveLength(2)
  })

  it('that ends makes room for the request that waits', async () => {
    const backend = await startBackend({
      respond: ({ target }) => (target === '/held' ? undefined : answer(200, target)),
    })
    const gateway = await front(backend, { connections: 1 })
    const held = forwardNow(gateway, 'GET', '/held')
    const waiting = ['/1', '/2'].map((target) => forwardNow(gateway, 'POST', target))
    await until(() => backend.requests.length === 1, 'the request that holds the connection')
    held.handle?.abort()
    for (const outcome of waiting) await forwarded(outcome)
    expect(waiting.map(({ body }) => body)).toEqual(['/1', '/2'])
  })
})

describe('a connection that was being made for a request that is gone', () => {
  it('carries the next', async () => {
    const backend = await startBackend()
    const gateway = await front(backend, { connections: 1 })
    const gone = forwardNow(gateway, 'GET', '/gone')
    const next = forwardNow(gateway, 'GET', '/next')
    expect(gone.handle?.abort()).toBe(false)
    await forwarded(next)
    expect(backend.requests.map(({ target }) => target)).toEqual(['/next'])
    expect(backend.connections).toHaveLength(1)
    expect(gone.calls).toEqual([])
  })
})

describe('a body', () => {
  it.each([
    ['longer', '3'],
    ['shorter', '9'],
  ])('that is %s than its Content-Length says never makes a request', async (_, length) => {
    const backend = await startBackend()
    const gateway = await front(backend)
    const outcome = await gateway.run('POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nhello', {
      headers: ['Host', 'animals.example', 'Content-Length', length],
    })
    expect(outcome.failure?.kind).toBe('broken')
    await until(() => backend.openConnections() === 0, 'the connection to close')
    expect(backend.requests).toEqual([])
  })
})

describe('a closed forwarder', () => {
  it('takes nothing new', async () => {
    const backend = await startBackend()
    const gateway = await front(backend)
    await gateway.get('/')
    await gateway.forwarder.close()
    const late = await gateway.get('/late')
    expect(late.calls).toEqual(['fail'])
    expect(late.failure?.kind).toBe('unreachable')
    expect(late.calledEarly).toBe(false)
    await until(() => backend.openConnections() === 0, 'the idle connection to close')
  })
})

describe('a backend with TLS', () => {
  let certificates: Certificates
  const trusted = tls.getCACertificates('default')
  beforeAll(() => {
    certificates = makeCertificates()
    tls.setDefaultCACertificates([...trusted, readFileSync(certificates.ca, 'utf8')])
  })
  afterAll(() => {
    tls.setDefaultCACertificates(trusted)
  })

  async function startTlsFront({ cert, key }: Certificate) {
    const sockets: tls.TLSSocket[] = []
    const files = { cert: readFileSync(cert), key: readFileSync(key) }
    const server = tls.createServer({ ...files, ALPNProtocols: ['h2', 'http/1.1'] }, (socket) => {
      sockets.push(socket)
      socket.on('error', () => {})
      // Of any length, so that an answer takes more than one TLS record.
      socket.on('data', (bytes) => {
        if (String(bytes).endsWith('\r\n\r\n')) socket.write(answer(200, 'x'.repeat(100_000)))
      })
    })
    server.on('tlsClientError', () => {})
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    keep({
      close: async () => {
        for (const socket of sockets) socket.destroy()
        await new Promise((resolve) => server.close(resolve))
      },
    })
    const url = `https://127.0.0.1:${port}`
    return { sockets, gateway: keep(await startFront(createDirectEngine, [url])) }
  }

  it('is spoken to in HTTP/1.1 over one connection, paused or not', async () => {
    const { sockets, gateway } = await startTlsFront(certificates.server)
    for (const accepts of [true, false, true]) {
      const outcome = forwardNow(gateway, 'GET', '/')
      outcome.accepts = accepts
      while (!outcome.settled) {
        await sleep(1)
        outcome.handle?.resume()
      }
      expect(outcome.failure).toBeUndefined()
      expect(outcome.bodyBytes).toBe(100_000)
    }
    expect(sockets).toHaveLength(1)
    expect(sockets[0]?.alpnProtocol).toBe('http/1.1')
    expect(sockets[0]?.isSessionReused()).toBe(false)
    sockets[0]?.end()
    await until(() => sockets[0]?.destroyed === true, 'the end to be noticed')
    await gateway.get('/')
    expect(sockets[1]?.isSessionReused()).toBe(true)
  })

  it('that is not who its certificate says, or is nobody known, is unreachable', async () => {
    for (const certificate of [certificates.misnamed, certificates.foreign]) {
      const { gateway } = await startTlsFront(certificate)
      const outcome = await gateway.get('/')
      expect(outcome.calls).toEqual(['fail'])
      expect(outcome.failure?.kind).toBe('unreachable')
    }
  })
})

const forwarded = (outcome: Outcome): Promise<void> => until(() => outcome.settled, 'end or fail')

/** Number of the connection that the backend has received the request on. */
async function forwardedBy(gateway: Front, backend: RawBackend): Promise<number | undefined> {
  await gateway.get('/')
  return backend.requests.at(-1)?.connection
}
