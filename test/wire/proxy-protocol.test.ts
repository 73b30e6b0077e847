/** Behind a TCP load balancer: each connection begins with a PROXY header, which tells whose it is. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { openRawClient } from '../support/raw-client.ts'
import { request, trusting, openWire, type Wire } from './wire.ts'

const behind = (peers: string, more = '') => ({
  server: `proxyProtocol: true\n  trustedProxies: ["${peers}"]\n  ${more}`,
})
const header = (address: string): string => `PROXY TCP4 ${address} 127.0.0.1 5 443\r\n`
const get = request('GET', '/v1/pets', { fields: ['X-Forwarded-For: 198.51.100.9'] })
const refused = ({ gateway }: Wire) =>
  gateway.metric('tollgate_connections_refused_total{reason="proxy"}')

describe('PROXY', () => {
  it('tells whose the connection is, however it is cut, and no field may say otherwise', async () => {
    const wire = await openWire(behind('127.0.0.0/8'))
    const bytes = header('203.0.113.7') + get
    const every = Array.from(bytes, (_, at) => at)
    for (const cuts of [[], [1], [20], [header('203.0.113.7').length], every]) {
      const client = await wire.connect()
      let from = 0
      for (const to of [...cuts, bytes.length]) {
        client.send(bytes.slice(from, to))
        from = to
        await sleep(2)
      }
      expect((await client.waitForResponses(1)).responses[0]?.status).toBe(200)
    }
    const lines = await wire.accessLines(5)
    expect(new Set(lines.map((line) => line['address']))).toEqual(new Set(['203.0.113.7']))
    expect(wire.backend.requests[0]?.all('x-forwarded-for')).toEqual(['203.0.113.7'])
  })

  it('is counted by the address that it tells, and by the balancer where it tells none', async () => {
    const wire = await openWire(behind('127.0.0.0/8', 'limits: { connectionsPerAddress: 2 }'))
    const open = async (...headers: string[]) => {
      const clients = []
      for (const bytes of headers) {
        const client = await wire.connect(bytes)
        clients.push(client)
      }
      await sleep(100)
      return clients
    }
    const [first, second, other] = await open(
      header('203.0.113.7'),
      header('203.0.113.7'),
      header('203.0.113.8'),
    )
    const third = (await open(header('203.0.113.7')))[0]
    const isGone = [first, second, third, other].map((one) => one?.received().closed)
    expect(isGone).toEqual([true, false, false, false])
    const unnamed = await open(...Array<string>(4).fill('PROXY UNKNOWN\r\n'))
    for (const client of unnamed) {
      client.send(get)
      expect((await client.waitForResponses(1)).responses[0]?.status).toBe(200)
    }
  })

  const local = Buffer.from('\r\n\r\n\0\r\nQUIT\n\x20\0\0\0', 'latin1')
  const alien = [
    'X-Forwarded-For: 198.51.100.9',
    'X-Forwarded-Proto: https',
    'X-Request-Id: theirs',
  ]
  it.each([
    ['UNKNOWN', Buffer.from('PROXY UNKNOWN\r\n'), '127.0.0.1', false],
    ['LOCAL', local, '127.0.0.1', false],
    ['a trusted address', Buffer.from(header('127.0.0.2')), '198.51.100.9', true],
  ])('that names %s: forwarding headers are believed of named addresses alone', async (...row) => {
    const [, before, address, isBelieved] = row
    const wire = await openWire(behind('127.0.0.0/8'))
    const client = await wire.connect(before)
    client.send(request('GET', '/v1/pets', { fields: alien }))
    expect((await client.waitForResponses(1)).responses[0]?.status).toBe(200)
    const [line] = await wire.accessLines(1)
    const [seen] = wire.backend.requests
    expect(line?.['address']).toBe(address)
    expect(line?.['id'] === 'theirs').toBe(isBelieved)
    expect(seen?.all('x-forwarded-for')).toEqual([isBelieved ? `${address}, 127.0.0.2` : address])
    expect(seen?.all('x-forwarded-proto')).toEqual([isBelieved ? 'https' : 'http'])
  })

  it('is due within its time, and once: all else is reset', async () => {
    const wire = await openWire(behind('127.0.0.0/8', 'timeouts: { headers: 1s }'))
    const drip = await wire.connect()
    for (const byte of 'PROXY TCP4 ') {
      drip.send(byte)
      await sleep(110)
    }
    for (const bytes of [get, 'PROXY TCP9 \r\n', '']) {
      const client = await wire.connect(bytes)
      expect((await client.waitFor(({ closed }) => closed)).responses).toEqual([])
    }
    await drip.waitFor(({ closed }) => closed)
    expect(await refused(wire)).toBe(4)
    const twice = await wire.exchange(header('203.0.113.7').repeat(2) + get)
    expect(twice.responses.map(({ status }) => status)).toEqual([400])
  })

  it('is not taken from anybody else', async () => {
    const wire = await openWire(behind('192.0.2.1'))
    const opened = await openRawClient(wire.gateway.port).catch(() => undefined)
    opened?.send(header('203.0.113.7') + get)
    await opened?.waitFor(({ closed }) => closed)
    expect(await refused(wire)).toBe(1)
  })

  it('stands before TLS', async () => {
    const wire = await openWire({ ...behind('127.0.0.0/8'), tls: trusting() })
    const before = header('203.0.113.7')
    const opened = await openRawClient(wire.gateway.port, { tls: trusting(), before })
    opened.send(get)
    expect((await opened.waitForResponses(1)).responses[0]?.status).toBe(200)
    opened.destroy()
    expect((await wire.accessLines(1))[0]?.['address']).toBe('203.0.113.7')
  })
})
