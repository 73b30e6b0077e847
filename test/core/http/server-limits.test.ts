import { createServer } from 'node:http'
import { createServer as createNetServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, it } from 'vitest'
import { createHttp1Server, type Http1Events } from '../../../src/core/http/http1-server.ts'
import type { Entry } from '../../../src/core/http/connections.ts'
import { ServerLimits } from '../../../src/core/http/server-limits.ts'
import { listening } from '../../support/listening.ts'
import { openRawClient } from '../../support/raw-client.ts'
import { readBlocks } from '../../support/serving.ts'

const config = (timeouts: string) =>
  readBlocks(['http://127.0.0.1:1'], {
    server: `server: { listen: "127.0.0.1:0", timeouts: { ${timeouts} } }`,
  })

it('A request has the time-outs in force as it begins, also the first on a connection from before', async () => {
  const seen: (number | undefined)[] = []
  const ignore = () => {}
  const events: Http1Events = {
    connection: ignore,
    isHandshake: () => false,
    upgrade: ignore,
    connect: ignore,
    clientError: ignore,
    request: ({ socket }, response) => {
      seen.push(socket.timeout)
      response.end()
    },
  }
  const http1 = createHttp1Server(config('request: 100s'), events)
  const server = createNetServer((socket: Socket) => http1.take(socket, {} as Entry))
  const port = await listening(server)
  const ask = async (client: Awaited<ReturnType<typeof openRawClient>>, count: number) => {
    client.send('GET / HTTP/1.1\r\nHost: a\r\n\r\n')
    await client.waitForResponses(count)
  }
  const [unused, used] = [await openRawClient(port), await openRawClient(port)]
  await ask(used, 1)
  http1.use(config('request: 300s'))
  await ask(used, 2)
  await ask(unused, 1)
  await ask(await openRawClient(port), 1)
  const slackMs = 10_000
  expect(seen).toEqual([100_000, 300_000, 300_000, 300_000].map((ms) => ms + slackMs))
  http1.destroy()
})

it('A shorter time-out of a changed configuration ends no request that began before, and each one later', async () => {
  const server = createServer({ connectionsCheckingInterval: 20 }, (_, response) => response.end())
  const limits = new ServerLimits(server, config('headers: 1s, request: 1s'))
  const port = await listening(server)
  const early = await openRawClient(port)
  early.send('GET / HTTP/1.1\r\n')
  limits.use(config('headers: 20ms, request: 20ms'))
  // Another change of something else does not put it off.
  await sleep(250)
  limits.use(config('headers: 20ms, request: 20ms, idle: 10s'))
  early.send('Host: a\r\n\r\n')
  expect((await early.waitForResponses(1)).responses[0]?.status).toBe(200)
  expect(server.keepAliveTimeout).toBe(10_000)
  await expect.poll(() => server.headersTimeout).toBe(20)
  const late = await openRawClient(port)
  late.send('GET / HTTP/1.1\r\n')
  expect((await late.waitForResponses(1)).responses[0]?.status).toBe(408)
  limits.use(config('headers: 5s, request: 6s'))
  expect([server.headersTimeout, server.requestTimeout]).toEqual([5_000, 6_000])
})
