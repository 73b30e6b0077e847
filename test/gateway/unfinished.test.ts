/** Requests that do not run their course: clients that leave while they wait, and a drain in the middle of an answer. */
import { Agent, request as httpRequest } from 'node:http'
import { describe, expect, it } from 'vitest'
import { keys, minuteWithAtLeast, startTestGateway } from '../support/gateway.ts'
import { rawExchange } from '../support/raw-client.ts'
import { answer, startRawBackend, until } from '../support/raw-backend.ts'

const engines = ['direct', 'undici', 'http-proxy-3'] as const

describe.each(engines)(
  'with %s, a client that leaves before any backend has seen its request',
  (engine) => {
    it('is not charged for it', async () => {
      const backend = await startRawBackend({
        respond: ({ target }) => (target === '/v1/pets' ? undefined : answer(200, 'ok')),
      })
      const gateway = await startTestGateway({
        upstreams: [backend.url],
        blocks: {
          upstream: `upstream: { urls: [${backend.url}], connections: 1, engine: ${engine} }`,
          unmatched: 'unmatched: reject',
        },
      })
      await minuteWithAtLeast()
      const leave = new AbortController()
      const first = gateway.fetch('/v1/pets', { key: keys.pro, signal: leave.signal })
      await until(() => backend.requests.length === 1, 'the request that holds the connection')
      const queued = [1, 2, 3].map((id) =>
        gateway.fetch(`/v1/pets/${id}`, { key: keys.pro, signal: leave.signal }),
      )
      const left = async (): Promise<number> => {
        const response = await gateway.fetch('/v1/nothing', { key: keys.pro })
        await response.arrayBuffer()
        return Number(response.headers.get('x-ratelimit-remaining'))
      }
      await expect.poll(left).toBe(296)
      leave.abort()
      await Promise.allSettled([first, ...queued])
      // Of the first the backend has heard.
      await expect.poll(left).toBe(299)
      expect(backend.requests.length).toBe(1)
      await gateway.stop()
      await backend.close()
    })
  },
)

describe('a drain in the middle of an answer', () => {
  it('ends with that answer, although the client would keep its connection', async () => {
    let finish: () => void = () => {}
    const backend = await startRawBackend({
      respond: async (_request, connection) => {
        await connection.play('HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc')
        await new Promise<void>((resolve) => (finish = resolve))
        return 'def'
      },
    })
    const gateway = await startTestGateway({ upstreams: [backend.url] })
    const agent = new Agent({ keepAlive: true })
    let body = ''
    const ended = new Promise<void>((resolve) => {
      httpRequest(
        `${gateway.origin}/v1/pets`,
        { agent, headers: { authorization: `Bearer ${keys.pro}` } },
        (response) => {
          response.on('data', (chunk: Buffer) => (body += String(chunk)))
          response.on('end', resolve)
        },
      ).end()
    })
    await until(() => body === 'abc', 'the first half')
    const startedMs = performance.now()
    const stopped = gateway.stop()
    finish()
    await ended
    await stopped
    expect(body).toBe('abcdef')
    // server.timeouts.drain is 20 s.
    expect(performance.now() - startedMs).toBeLessThan(10_000)
    agent.destroy()
    await backend.close()
  })
})

describe('a refused request whose body never comes', () => {
  it('is answered once, and its connection is closed when its time is over', async () => {
    const backend = await startRawBackend()
    const gateway = await startTestGateway({
      upstreams: [backend.url],
      blocks: {
        server: 'server: { listen: "127.0.0.1:0", timeouts: { headers: 200ms, request: 400ms } }',
      },
    })
    const head = 'POST /v1/pets HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nab'
    const { responses, closed } = await rawExchange(gateway.port, head, { timeoutMs: 10_000 })
    expect(responses.map(({ status }) => status)).toEqual([401])
    expect(closed).toBe(true)
    await gateway.stop()
    await backend.close()
  })
})
