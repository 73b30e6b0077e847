import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { keys, startTestGateway, type TestGateway } from '../support/gateway.ts'
import { makeCertificates, type Certificates } from '../support/redis-tls.ts'

let certificates: Certificates
let url: string
let gateway: TestGateway | undefined
const server = (files: Certificates) =>
  createServer(
    {
      cert: readFileSync(files.server.cert),
      key: readFileSync(files.server.key),
      ca: readFileSync(files.ca),
      requestCert: true,
      // TLS 1.3 would tell of a missing certificate behind the handshake, which not every engine hears.
      maxVersion: 'TLSv1.2',
    },
    (_, response) => response.end('secret'),
  )
let backend: ReturnType<typeof server>
beforeAll(async () => {
  certificates = makeCertificates()
  backend = server(certificates)
  new WebSocketServer({ server: backend }).on('connection', (socket) => socket.send('hello'))
  backend.listen(0, '127.0.0.1')
  await once(backend, 'listening')
  url = `https://127.0.0.1:${(backend.address() as AddressInfo).port}`
})
afterEach(async () => gateway?.stop())
afterAll(() => {
  backend.closeAllConnections()
  backend.close()
  certificates.remove()
})

const start = async (engine: string, tls: string): Promise<TestGateway> => {
  const upstream = `upstream: { urls: ["${url}"], engine: ${engine}, tls: ${tls} }`
  gateway = await startTestGateway({ upstreams: [], blocks: { upstream } })
  return gateway
}

const openWebSocket = (port: number): WebSocket =>
  new WebSocket(`ws://127.0.0.1:${port}/v1/live`, {
    headers: { authorization: `Bearer ${keys.pro}` },
  })

describe.each(['direct', 'undici', 'http-proxy-3'])('upstream.tls with %s', (engine) => {
  it('is what requests and WebSockets are carried with', async () => {
    const { ca, client } = certificates
    const tls = `{ ca: ${ca}, cert: ${client.cert}, key: ${client.key}, serverName: redis.internal }`
    const { fetch, port } = await start(engine, tls)
    expect(await (await fetch('/v1/pets', { key: keys.pro })).text()).toBe('secret')
    const socket = openWebSocket(port)
    const [message] = (await once(socket, 'message')) as [Buffer]
    expect(String(message)).toBe('hello')
    socket.close()
  })

  it.each([
    ['another authority', () => certificates.foreign.ca, 'redis.internal', 'of no authority'],
    ['another name', () => certificates.ca, 'other.internal', 'for another name'],
  ] as const)('that trusts %s carries nothing, and the log says why', async (...row) => {
    const [, ca, serverName, fault] = row
    const { cert, key } = certificates.client
    const own = `cert: ${cert}, key: ${key}`
    const running = await start(engine, `{ ca: ${ca()}, ${own}, serverName: ${serverName} }`)
    const refused = await running.fetch('/v1/pets', { key: keys.pro })
    expect(refused.status).toBe(502)
    // Nothing has reached the backend: it is not charged.
    expect(refused.headers.get('x-ratelimit-remaining')).toBe('300')
    const socket = openWebSocket(running.port)
    const [error] = (await once(socket, 'error')) as [Error]
    expect(error.message).toContain('502')
    const causes = running.logLines().filter(({ status }) => status === 502)
    expect(causes).toHaveLength(2)
    for (const { cause } of causes) expect(cause).toContain(`its certificate is ${fault}`)
  })
})
