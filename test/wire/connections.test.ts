/** Connections beyond their bounds are closed at once, counted and logged; those within are served. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { keys } from '../support/gateway.ts'
import { openH2Client } from '../support/h2-client.ts'
import { answer } from '../support/raw-backend.ts'
import { handshake, request, switched, trusting, until, openWire, type Wire } from './wire.ts'

const limited = (limits: string, more = '') => ({
  server: `limits: { ${limits} }\n  ${more}`,
})

/** A backend whose answers, but to handshakes, wait until they are called for. */
function holding() {
  const waiting: (() => void)[] = []
  const respond = ({ target }: { target: string }) =>
    target === '/v1/live'
      ? switched
      : new Promise<Buffer>((resolve) => waiting.push(() => resolve(answer(200, 'ok'))))
  return { waiting, respond }
}

/** Opens so many, and waits until no more are open than are to be kept. */
async function openMany({ connect }: Wire, count: number, keeps = count) {
  // A reset may come before the client knows that it is connected.
  const opening = Array.from({ length: count }, () => connect().catch(() => undefined))
  const clients = (await Promise.all(opening)).filter((client) => client !== undefined)
  const open = () => clients.filter(({ received }) => !received().closed)
  await until(() => open().length <= keeps, `${keeps} open connections`)
  await sleep(100)
  expect(open()).toHaveLength(keeps)
  return open()
}

async function expectServed(clients: Awaited<ReturnType<typeof openMany>>): Promise<void> {
  for (const client of clients) {
    client.send(request('GET', '/v1/pets'))
    expect((await client.waitForResponses(1)).responses[0]?.status).toBe(200)
  }
}

const counted = ({ gateway }: Wire, what: string, reason: string): Promise<number> =>
  gateway.metric(`tollgate_connections_${what}_total{reason="${reason}"}`)

describe('connections', () => {
  it('of one address make room for its next one: those without a valid key first, those at work never', async () => {
    const { waiting, respond } = holding()
    const wire = await openWire({ ...limited('connectionsPerAddress: 6'), respond })
    const ask = async (key: string | null = keys.pro) => {
      const client = await wire.connect(request('GET', '/v1/pets', { key }))
      return client
    }
    const askAndWork = async () => {
      const before = waiting.length
      const client = await ask()
      await until(() => waiting.length > before, 'a request at work')
      return client
    }
    const live = await wire.connect(request('GET', '/v1/live', { fields: handshake }))
    await live.waitFor(({ raw }) => String(raw).startsWith('HTTP/1.1 101'))
    const keyed = await askAndWork()
    waiting.pop()?.()
    const busy = await askAndWork()
    const silent = await wire.connect()
    const keyless = await ask(null)
    const slow = await ask('tg_nobody')
    for (const client of [keyed, keyless, slow]) await client.waitForResponses(1)
    slow.send('GET /v1/pets HTTP/1.1\r\nHost: a')
    const named = { silent, keyless, slow, keyed, busy, live }
    const gone = () =>
      Object.entries(named).flatMap(([name, { received }]) => (received().closed ? [name] : []))
    const served = [busy]
    for (const name of ['silent', 'keyless', 'slow', 'keyed']) {
      // Who has just come is given time to show a key.
      if (name === 'slow') await sleep(1_000)
      served.push(await askAndWork())
      await until(() => gone().includes(name), `${name} gone`)
    }
    expect(gone()).toEqual(['silent', 'keyless', 'slow', 'keyed'])
    expect(await counted(wire, 'displaced', 'address')).toBe(4)
    await openMany(wire, 3, 0)
    expect(await counted(wire, 'refused', 'address')).toBe(3)
    const said = () => wire.gateway.logLines().filter(({ event }) => event === 'connectionsRefused')
    await until(() => said().length > 0, 'a line about connections')
    expect(said()).toMatchObject([
      { level: 'warn', count: 3, reason: 'address', address: '127.0.0.1' },
    ])
    waiting.forEach((go) => go())
    for (const client of served)
      expect((await client.waitForResponses(1)).responses[0]?.status).toBe(200)
    expect(await wire.gateway.metric('tollgate_connections ')).toBe(6)
    live.destroy()
  })

  it('that make room lose nothing of an answer that their clients have yet to read', async () => {
    const body = Buffer.alloc(1_000_000, 'a')
    const wire = await openWire({
      ...limited('connectionsPerAddress: 1'),
      respond: () => answer(200, String(body)),
    })
    const slow = await wire.connect()
    slow.socket.pause()
    slow.send(request('GET', '/v1/pets'))
    await wire.accessLines(1)
    const other = await wire.connect(request('GET', '/v1/pets'))
    await other.waitForResponses(1)
    expect(await counted(wire, 'displaced', 'address')).toBe(1)
    slow.socket.resume()
    expect((await slow.waitForResponses(1)).responses[0]?.body).toEqual(body)
  })

  it('of trusted proxies are not, as they are those of many', async () => {
    const wire = await openWire(
      limited('connectionsPerAddress: 5', 'trustedProxies: ["127.0.0.0/8"]'),
    )
    await expectServed(await openMany(wire, 12))
  })

  it('that carried a valid key stay where silent ones can go, whatever they speak', async () => {
    const wire = await openWire({ ...limited('connections: 10'), tls: trusting() })
    const client = await openH2Client(wire.gateway.port, { secure: true })
    expect((await client.request()).status).toBe(200)
    await openMany(wire, 30, 9)
    expect((await client.request()).status).toBe(200)
    expect(await counted(wire, 'displaced', 'total')).toBe(21)
    client.close()
  })
})
