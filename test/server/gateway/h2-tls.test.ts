/** HTTP/2 over TLS beside HTTP/1.1 on one port, with real clients; and what abuse costs an address that is nobody's proxy. */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { connect as connectPlain, type Socket } from 'node:net'
import { connect } from 'node:tls'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { ensurePackage } from '../../support/debian-package.ts'
import { configText, keys, startTestGateway } from '../../support/gateway.ts'
import { ended, openH2Client } from '../../support/h2-client.ts'
import { frame, openH2Peer, types } from '../../support/h2-frames.ts'
import { startRawBackend } from '../../support/raw-backend.ts'
import { makeCertificates } from '../../support/redis-tls.ts'

const run = promisify(execFile)
ensurePackage('curl', { probe: ['curl', '--version'] })
const certificates = makeCertificates()
const backend = await startRawBackend()

/** More of tls, as of the next reload. */
let ofTls = ''

function serverBlock(): string {
  const { cert, key } = certificates.server
  const tls = `{ cert: "${cert}", key: "${key}"${ofTls} }`
  return `server: { listen: "127.0.0.1:0", tls: ${tls}, timeouts: { drain: 1s } }`
}

const options = () => ({ upstreams: [backend.url], blocks: { server: serverBlock() } })
const gateway = await startTestGateway({ ...options(), reload: () => configText(options()) })

const url = (path: string): string => `https://127.0.0.1:${gateway.port}/v1/${path}`

test.each([
  ['--http2', '2 200'],
  ['--http1.1', '1.1 200'],
])('curl %s gets an answer of its protocol on the one port', async (protocol, expected) => {
  const quiet = `-s --cacert ${certificates.ca} ${protocol} -o /dev/null -w`.split(' ')
  const key = `Authorization: Bearer ${keys.business}`
  const args = [...quiet, '%{http_version} %{http_code}', '-H', key, url('pets')]
  const { stdout } = await run('curl', args)
  expect(stdout).toBe(expected)
  expect(backend.requests.at(-1)?.all('x-forwarded-proto')).toEqual(['https'])
})

test('who goes on although he is refused is told to go, and what is under way is answered', async () => {
  const client = await openH2Client(gateway.port, { secure: true })
  const refused = { path: '/v1/../x' }
  for (let sent = 0; sent < 99; sent++) expect((await client.request(refused)).status).toBe(400)
  expect(client.goaway).toBeUndefined()
  expect(await client.request(refused)).toMatchObject({ status: 400, complete: true })
  await ended(client)
  expect(client.goaway).toBe(0)
  expect(await gateway.metric('tollgate_http2_abuse_total{kind="refused"}')).toBe(1)
})

/** By a configuration with that much more of tls. */
async function reload(more: string): Promise<void> {
  ofTls = more
  const url = `http://127.0.0.1:${gateway.adminPort}/api/reload`
  expect((await fetch(url, { method: 'POST' })).status).toBe(200)
}

test('a reload closes nothing; where other clients are let in from now on, those that are in finish and go', async () => {
  const client = await openH2Client(gateway.port, { secure: true })
  await reload('')
  expect((await client.request()).status).toBe(200)
  const waiting = client.start({ method: 'POST', body: 'a', open: true })
  await expect.poll(() => gateway.metric('tollgate_requests_in_flight')).toBe(1)
  expect(client.goaway).toBeUndefined()
  await reload(`, clientCa: "${certificates.ca}"`)
  await expect.poll(() => client.goaway).toBe(0)
  waiting.end('b')
  expect(await client.answer(waiting)).toMatchObject({ status: 200, complete: true })
  await ended(client)
  await reload('')
})

test('who breaks HTTP/2 again and again costs his neighbours nothing but HTTP/2, or a moment before it begins', async () => {
  const { port } = gateway
  const open = await openH2Client(port, { secure: true })
  // One that has asked for nothing yet is closed after ten seconds.
  expect((await open.request()).status).toBe(200)
  const over = new AbortController()
  const attack = async (): Promise<void> => {
    while (!over.signal.aborted) {
      const peer = await openH2Peer(port, { secure: true })
      peer.send(frame(types.data, 0, 0, [1]))
      await peer.waitFor(() => peer.closed, 'the end of the connection')
    }
  }
  const ends = () => gateway.metric('tollgate_http2_abuse_total{kind="frames"}')
  const attacks = [attack(), attack()]
  await expect.poll(ends).toBeGreaterThanOrEqual(5)
  const begunMs = performance.now()
  const endsBefore = await ends()
  for (let at = 0; at < 10; at++) {
    let neighbour = await openTls(['h2', 'http/1.1'])
    // On a busy machine the attack may be too slow to go on counting as one.
    for (; neighbour.alpnProtocol === 'h2'; neighbour = await openTls(['h2', 'http/1.1'])) {
      neighbour.destroy()
      const seen = await ends()
      await expect.poll(ends).toBeGreaterThanOrEqual(seen + 5)
    }
    neighbour.write(`GET /v1/pets HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer ${keys.pro}\r\n\r\n`)
    const [data] = (await once(neighbour, 'data')) as [Buffer]
    expect(String(data)).toMatch(/^HTTP\/1\.1 200/)
    neighbour.destroy()
    // Who speaks nothing else.
    const other = await openH2Client(port, { secure: true })
    expect((await other.request()).status).toBe(200)
    other.close()
  }
  // Each of the two has to wait before each attempt, too.
  const attempts = (await ends()) - endsBefore
  expect(attempts).toBeLessThanOrEqual((2 * (performance.now() - begunMs)) / 300 + 2)
  expect((await open.request()).status).toBe(200)
  open.close()
  // Who leaves while he waits leaves nothing behind.
  const transport = connectPlain({ host: '127.0.0.1', port })
  await openTls(['h2'], transport)
  transport.resetAndDestroy()
  ;(await openTls(['h2'])).end()
  over.abort()
  await Promise.all(attacks)
  // Nor is he let in whom the configuration of meanwhile would not let in.
  const waiting = await openTls(['h2'])
  await reload(`, clientCa: "${certificates.ca}"`)
  const answered: Buffer[] = []
  waiting.on('data', (bytes: Buffer) => answered.push(bytes))
  await once(waiting, 'close')
  expect(answered).toEqual([])
  await reload('')
  await expect.poll(() => gateway.metric('tollgate_connections ')).toBe(0)
})

async function openTls(ALPNProtocols: string[], transport?: Socket) {
  const target = transport ? { socket: transport } : { host: '127.0.0.1', port: gateway.port }
  const socket = connect({ ...target, ALPNProtocols, rejectUnauthorized: false })
  await once(socket, 'secureConnect')
  return socket
}
