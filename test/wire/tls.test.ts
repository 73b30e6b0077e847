/** HTTPS at the public listener: what is agreed on in the handshake, who is let in, and that HTTP behind it is the same. */
import { readFileSync } from 'node:fs'
import { connect, type ConnectionOptions } from 'node:tls'
import { describe, expect, it } from 'vitest'
import { ownMs } from '../support/own-time.ts'
import { openRawClient } from '../support/raw-client.ts'
import { makeCertificates } from '../support/redis-tls.ts'
import { request, trusting, openWire, type Wire } from './wire.ts'

const over = (more = '', tlsKeys = '') => ({ tls: trusting(), tlsKeys, server: more })
const failed = ({ gateway }: Wire, reason: string) =>
  gateway.metric(`tollgate_tls_handshakes_failed_total{reason="${reason}"}`)

/** What came of a handshake: the protocol, or the alert. */
async function handshake(port: number, options: ConnectionOptions): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', ...trusting(), ...options })
  try {
    return await new Promise<string>((resolve) => {
      socket.once('secureConnect', () => resolve(String(socket.getProtocol())))
      socket.once('error', ({ code }: NodeJS.ErrnoException) => resolve(String(code)))
      socket.once('close', () => resolve('closed'))
    })
  } finally {
    socket.destroy()
  }
}

describe('TLS', () => {
  it('is refused to old versions, weak ciphers and foreign protocols, with an alert that is counted', async () => {
    const wire = await openWire(over('timeouts: { headers: 1s }'))
    const { port } = wire.gateway
    const weak = 'ECDHE-ECDSA-AES128-SHA256:@SECLEVEL=0'
    const old = {
      minVersion: 'TLSv1.1',
      maxVersion: 'TLSv1.1',
      ciphers: 'ALL:@SECLEVEL=0',
    } as const
    const cases: [ConnectionOptions, RegExp, string][] = [
      [{ maxVersion: 'TLSv1.2' }, /^TLSv1\.2$/, ''],
      [{ minVersion: 'TLSv1.3' }, /^TLSv1\.3$/, ''],
      [{ ALPNProtocols: ['http/1.1'] }, /^TLSv1\.3$/, ''],
      [old, /PROTOCOL_VERSION/, 'version'],
      [{ maxVersion: 'TLSv1.2', ciphers: weak }, /HANDSHAKE_FAILURE/, 'cipher'],
      [{ ALPNProtocols: ['spdy/1'] }, /NO_APPLICATION_PROTOCOL/, 'protocol'],
    ]
    for (const [options, outcome, reason] of cases) {
      expect(await handshake(port, options), reason).toMatch(outcome)
      if (reason !== '') await expect.poll(() => failed(wire, reason)).toBe(1)
    }
  })

  it.each([
    ['says nothing', '', 'timeout'],
    ['stops in the middle', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc', 'timeout'],
    ['asks in plain HTTP', request('GET', '/v1/pets'), 'not_tls'],
    ['speaks nonsense', 'nonsense'.repeat(10), 'not_tls'],
  ])('ends a connection that %s, and counts it', async (_, bytes, reason) => {
    const wire = await openWire(over('timeouts: { headers: 1s }'))
    const client = await openRawClient(wire.gateway.port)
    client.send(bytes)
    await client.waitFor(({ closed }) => closed)
    expect(await failed(wire, reason)).toBe(1)
    expect(await wire.gateway.metric('tollgate_connections ')).toBe(0)
  })

  it.each([
    ['before its handshake', ''],
    ['in the middle of it', '\x16\x03\x01\x02\x00\x01\x00\x01\xfc'],
  ])('ends a connection at once whose client ends its side %s', async (_, bytes) => {
    const wire = await openWire(over('timeouts: { headers: 60s }'))
    const client = await openRawClient(wire.gateway.port)
    client.send(bytes)
    client.end()
    await client.waitFor(({ closed }) => closed)
    expect(await failed(wire, 'closed')).toBe(1)
    expect(await wire.gateway.metric('tollgate_connections ')).toBe(0)
  })

  it('gives a handshake that comes byte by byte no more time', async () => {
    const wire = await openWire(over('timeouts: { headers: 1s }'))
    const client = await openRawClient(wire.gateway.port)
    client.send('\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03')
    const startedMs = ownMs()
    const drip = setInterval(() => client.send('\x01'), 20)
    await client.waitFor(({ closed }) => closed)
    clearInterval(drip)
    expect(ownMs() - startedMs).toBeLessThan(5_000)
    expect(await failed(wire, 'timeout')).toBe(1)
  })

  it('asks for client certificates of its authority, which are a door and no credential', async () => {
    const wire = await openWire(over('', `clientCa: ${makeCertificates().ca}`))
    const { client, foreign } = makeCertificates()
    const read = ({ cert, key }: { cert: string; key: string }) => ({
      ...trusting(),
      cert: readFileSync(cert),
      key: readFileSync(key),
    })
    const open = async (tls: ConnectionOptions) => {
      const opened = await openRawClient(wire.gateway.port, { tls })
      opened.send(request('GET', '/v1/pets', { key: null }))
      const answered = await opened.waitFor(
        ({ closed, responses }) => closed || responses.length > 0,
      )
      opened.destroy()
      return answered
    }
    expect((await open(read(client))).responses[0]?.status).toBe(401)
    for (const tls of [trusting(), read(foreign)])
      expect(await open(tls)).toMatchObject({ responses: [], closed: true })
    expect(await failed(wire, 'certificate')).toBe(2)
  })

  it('tells of HSTS on every answer, in place of a backend', async () => {
    const respond = () =>
      'HTTP/1.1 200 OK\r\nStrict-Transport-Security: max-age=1\r\nContent-Length: 2\r\n\r\nok'
    const { exchange } = await openWire({ ...over('hsts: 1y'), respond })
    for (const bytes of [
      request('GET', '/v1/pets'),
      request('GET', '/v1/no'),
      'nonsense\r\n\r\n',
    ]) {
      const { responses } = await exchange(bytes, { responses: 1 })
      expect(responses[0]?.all('strict-transport-security'), bytes).toEqual(['max-age=31536000'])
    }
  })
})
