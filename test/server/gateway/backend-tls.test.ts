import { once } from 'node:events'
import { readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:https'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { WebSocket, WebSocketServer } from 'ws'
import { readTlsFiles } from '../../../src/server/gateway/tls-files.ts'
import { gatewayTo } from '../../support/backed.ts'
import { keys } from '../../support/gateway.ts'
import { listening } from '../../support/listening.ts'
import { makeCertificates, type Certificate } from '../../support/redis-tls.ts'

const certificates = makeCertificates()
const backend = createServer(
  {
    cert: readFileSync(certificates.server.cert),
    key: readFileSync(certificates.server.key),
    ca: readFileSync(certificates.ca),
    requestCert: true,
    // TLS 1.3 would tell of a missing certificate behind the handshake, which not every engine hears.
    maxVersion: 'TLSv1.2',
  },
  (_, response) => response.end('secret'),
)
new WebSocketServer({ server: backend }).on('connection', (socket) => socket.send('hello'))
const url = `https://127.0.0.1:${await listening(backend)}`

const start = (engine: string, tls: string) =>
  gatewayTo([], { upstream: `upstream: { urls: ["${url}"], engine: ${engine}, tls: ${tls} }` })

const openWebSocket = (port: number): WebSocket =>
  new WebSocket(`ws://127.0.0.1:${port}/v1/live`, {
    headers: { authorization: `Bearer ${keys.pro}` },
  })

describe.each(['direct', 'http-proxy-3'])('upstream.tls with %s', (engine) => {
  it('is what requests and WebSockets are carried with', async () => {
    const { ca, client } = certificates
    const tls = `{ ca: ${ca}, cert: ${client.cert}, key: ${client.key}, serverName: redis.internal }`
    const { ask, port } = await start(engine, tls)
    expect(await ask('/v1/pets', { key: keys.pro })).toMatchObject({ body: 'secret' })
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
    // Nothing has reached the backend: it is not charged.
    const refused = await running.ask('/v1/pets', { key: keys.pro })
    expect(refused).toMatchObject({ status: 502, left: 300 })
    const socket = openWebSocket(running.port)
    const [error] = (await once(socket, 'error')) as [Error]
    expect(error.message).toContain('502')
    const causes = running.logLines().filter(({ status }) => status === 502)
    expect(causes).toHaveLength(2)
    for (const { cause } of causes) expect(cause).toContain(`its certificate is ${fault}`)
  })
})

it('files for upstream.tls that are of no use are refused with key, file and remedy', () => {
  const { ca, client, server: other } = certificates
  const fault = (caFile: string | undefined, own?: Certificate): string => {
    const [certFile, keyFile] = [own?.cert, own?.key]
    try {
      readTlsFiles('upstream.tls', { caFile, certFile, keyFile, serverName: undefined })
    } catch (error) {
      return (error as Error).message
    }
    return 'none'
  }
  const garbage = join(ca, '../garbage.pem')
  writeFileSync(garbage, '-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n')
  expect(fault(ca, client)).toBe('none')
  expect(fault('/nowhere/ca.pem')).toBe(
    'upstream.tls.ca: /nowhere/ca.pem cannot be read (ENOENT); check its name and permissions',
  )
  expect(fault(garbage)).toMatch(
    /^upstream\.tls\.ca: \S+garbage\.pem cannot be used \(\w+\); give the PEM certificates of the authorities to trust$/,
  )
  expect(fault(client.key)).toMatch(/^upstream\.tls\.ca: \S+client\.key .* \(not PEM\);/)
  expect(fault(ca, { cert: garbage, key: client.key })).toMatch(
    /^upstream\.tls\.cert: \S+garbage\.pem cannot be used \(\w+\); give the PEM certificate /,
  )
  expect(fault(ca, { cert: client.cert, key: other.key })).toMatch(
    /^upstream\.tls\.key: \S+server\.key cannot be used \(ERR_OSSL_X509_KEY_VALUES_MISMATCH\); give the PEM private key of upstream\.tls\.cert, not encrypted$/,
  )
})
