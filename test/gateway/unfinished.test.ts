/** Requests that do not run their course: clients that leave while they wait, and a drain in the middle of an answer. */
import { Agent, request as httpRequest } from 'node:http'
import { expect, it } from 'vitest'
import { backed } from '../support/backed.ts'
import { keys } from '../support/gateway.ts'
import { rawExchange } from '../support/raw-client.ts'
import { answer, until } from '../support/raw-backend.ts'

it.each(['direct', 'undici', 'http-proxy-3'])(
  'with %s, a client that leaves before any backend has seen its request is not charged for it',
  async (engine) => {
    const { backend, gateway } = await backed({
      respond: ({ target }) => (target === '/v1/pets' ? undefined : answer(200, 'ok')),
      upstream: `connections: 1, engine: ${engine}`,
      blocks: { unmatched: 'unmatched: reject' },
    })
    const leave = new AbortController()
    const send = (path: string) => gateway.fetch(path, { key: keys.pro, signal: leave.signal })
    const first = send('/v1/pets')
    await until(() => backend.requests.length === 1, 'the request that holds the connection')
    const queued = [1, 2, 3].map((id) => send(`/v1/pets/${id}`))
    const left = async () => (await gateway.ask('/v1/nothing', { key: keys.pro })).dayLeft
    await expect.poll(left).toBe(9_996)
    leave.abort()
    await Promise.allSettled([first, ...queued])
    // Of the first the backend has heard.
    await expect.poll(left).toBe(9_999)
    expect(backend.requests.length).toBe(1)
  },
)

it('a drain in the middle of an answer ends with that answer, although the client would keep its connection', async () => {
  const half = Promise.withResolvers<void>()
  const { gateway } = await backed({
    respond: async (_request, connection) => {
      await connection.play('HTTP/1.1 200 OK\r\nContent-Length: 6\r\n\r\nabc')
      await half.promise
      return 'def'
    },
    // What would be cut off is far away.
    blocks: { server: 'server: { listen: "127.0.0.1:0", timeouts: { drain: 10m } }' },
  })
  const agent = new Agent({ keepAlive: true })
  const headers = { authorization: `Bearer ${keys.pro}` }
  let body = ''
  const ended = new Promise<void>((resolve) => {
    httpRequest(`${gateway.origin}/v1/pets`, { agent, headers }, (response) =>
      response.on('data', (chunk: Buffer) => (body += String(chunk))).on('end', resolve),
    ).end()
  })
  await until(() => body === 'abc', 'the first half')
  const stopped = gateway.stop()
  half.resolve()
  await ended
  await stopped
  expect(body).toBe('abcdef')
  agent.destroy()
})

it('a refused request whose body never comes is answered once, and its connection is closed when its time is over', async () => {
  const timeouts = 'timeouts: { headers: 200ms, request: 400ms }'
  const { gateway } = await backed({
    blocks: { server: `server: { listen: "127.0.0.1:0", ${timeouts} }` },
  })
  const head = 'POST /v1/pets HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nab'
  const { responses, closed } = await rawExchange(gateway.port, head, { timeoutMs: 60_000 })
  expect(responses.map(({ status }) => status)).toEqual([401])
  expect(closed).toBe(true)
})
