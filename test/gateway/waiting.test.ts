/** A backend whose connections are all in use: who waits, for how long, in whose turn, and at whose cost. */
import { afterEach, describe, expect, it } from 'vitest'
import { keys, minuteWithAtLeast, startTestGateway } from '../support/gateway.ts'
import { answer, startRawBackend, until, type RawBackend } from '../support/raw-backend.ts'
import { openRawClient } from '../support/raw-client.ts'

const engines = ['direct', 'undici', 'http-proxy-3'] as const

const toClose: (() => unknown)[] = []
afterEach(async () => {
  for (const close of toClose.splice(0).toReversed()) await close()
})

const switching =
  'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n'
const handshake = (key: string): string =>
  `GET /v1/live HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${key}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n`

/** One connection to one backend, which answers a request when it is let go, in the order of arrival. */
async function start(upstream: string) {
  const held: (() => void)[] = []
  const backend: RawBackend = await startRawBackend({
    respond: async ({ target }) => {
      if (target === '/v1/live') return switching
      await new Promise<void>((resolve) => held.push(resolve))
      return answer(200, 'ok')
    },
  })
  const gateway = await startTestGateway({
    upstreams: [],
    blocks: {
      upstream: `upstream: { urls: [${backend.url}], connections: 1, ${upstream} }`,
      plans: `plans:
  free: { perMinute: 60, perDay: 1000, concurrent: 50 }
  pro: { perMinute: 300, perDay: 10000, concurrent: 50 }
  business: { perMinute: 1000, perDay: 100000, concurrent: 50 }
  enterprise: { custom: true, concurrent: 50 }`,
    },
  })
  toClose.push(async () => {
    const stopped = gateway.stop()
    await backend.close()
    await stopped
  })
  const arrived = (count: number) =>
    until(() => backend.requests.length === count, `${count} requests at the backend`)
  return {
    backend,
    gateway,
    arrived,
    waiting: (count: number) =>
      expect.poll(() => gateway.metric('tollgate_backend_waiting')).toBe(count),
    /** Lets the oldest go. */
    answerNext: () => held.shift()?.(),
  }
}

describe.each(engines)('with %s, who waits for a backend', (engine) => {
  it('is served by turns: a client with many requests in line delays none with one', async () => {
    const { backend, gateway, arrived, answerNext, waiting } = await start(`engine: ${engine}`)
    const answers: Promise<Response>[] = []
    const send = (path: string, key: string) =>
      void answers.push(gateway.fetch(`/v1/pets/${path}`, { key }))
    send('first', keys.pro)
    await arrived(1)
    for (const path of ['greedy1', 'greedy2', 'greedy3', 'greedy4']) {
      send(path, keys.pro)
      await waiting(answers.length - 1)
    }
    send('modest', keys.free)
    await waiting(5)
    for (let served = 1; served <= 6; served++) {
      await arrived(served)
      answerNext()
    }
    for (const response of await Promise.all(answers)) expect(response.status).toBe(200)
    expect(backend.requests.map(({ target }) => target.replace('/v1/pets/', ''))).toEqual([
      'first',
      'greedy1',
      'modest',
      'greedy2',
      'greedy3',
      'greedy4',
    ])
    expect(backend.connections.length).toBe(1)
  })

  it('is refused at once, free of charge, where too many wait', async () => {
    await minuteWithAtLeast()
    const { gateway, arrived, answerNext, waiting } = await start(
      `engine: ${engine}, breaker: { waiting: 1 }`,
    )
    const served = [gateway.fetch('/v1/pets/1', { key: keys.pro })]
    await arrived(1)
    served.push(gateway.fetch('/v1/pets/2', { key: keys.pro }))
    await waiting(1)
    const refused = await gateway.fetch('/v1/pets/3', { key: keys.pro })
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1'])
    expect(await refused.json()).toMatchObject({ code: 'service_unavailable' })
    expect(refused.headers.get('x-ratelimit-remaining')).toBe('298')
    answerNext()
    await arrived(2)
    answerNext()
    expect((await Promise.all(served)).map(({ status }) => status)).toEqual([200, 200])
  })

  it('is refused when its time is over, free of charge, and the backend hears nothing of it', async () => {
    await minuteWithAtLeast()
    const { backend, gateway, arrived, waiting } = await start(
      `engine: ${engine}, timeouts: { response: 1s }`,
    )
    // An upgrade holds its connection for as long as the tunnel lives.
    const client = await openRawClient(gateway.port)
    client.send(handshake(keys.free))
    expect((await client.waitForResponses(1)).responses[0]?.status).toBe(101)
    const refused = await gateway.fetch('/v1/pets/1', { key: keys.pro })
    expect(refused.status).toBe(504)
    expect(refused.headers.get('x-ratelimit-remaining')).toBe('300')
    expect(backend.requests.length).toBe(1)
    // Its end lets the next one in.
    const next = gateway.fetch('/v1/pets/2', { key: keys.pro })
    await waiting(1)
    client.destroy()
    await arrived(2)
    await next.then((response) => response.body?.cancel()).catch(() => undefined)
  })
})

describe('an upgrade that waits for a backend', () => {
  it('gets the next permit, or leaves its place with its client', async () => {
    const { backend, gateway, arrived, answerNext, waiting } = await start('engine: direct')
    const first = gateway.fetch('/v1/pets/1', { key: keys.pro })
    await arrived(1)
    const [leaving, staying] = [
      await openRawClient(gateway.port),
      await openRawClient(gateway.port),
    ]
    leaving.send(handshake(keys.free))
    await waiting(1)
    staying.send(handshake(keys.pro))
    await waiting(2)
    leaving.end()
    await waiting(1)
    answerNext()
    expect((await staying.waitForResponses(1)).responses[0]?.status).toBe(101)
    expect((await first).status).toBe(200)
    expect(backend.requests.map(({ target }) => target)).toEqual(['/v1/pets/1', '/v1/live'])
    staying.destroy()
    leaving.destroy()
  })
})
