/** Connections beyond their bounds are closed at once, counted and logged; those within are served. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { request, serverBlock, until, withWire, type Wire } from './wire.ts'

const limited = (limits: string, more = '') => ({
  blocks: { server: serverBlock(`limits: { ${limits} }\n  ${more}`) },
})

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

describe('connections', () => {
  it('of one address are bounded', () =>
    withWire(limited('connectionsPerAddress: 5'), async (wire) => {
      const kept = await openMany(wire, 12, 5)
      await expectServed(kept)
      expect(await wire.gateway.metric('tollgate_connections ')).toBe(5)
      expect(
        await wire.gateway.metric('tollgate_connections_refused_total{reason="address"}'),
      ).toBe(7)
      const said = () =>
        wire.gateway.logLines().filter(({ event }) => event === 'connectionsRefused')
      await until(() => said().length > 0, 'a line about connections')
      expect(said()).toEqual([
        expect.objectContaining({
          level: 'warn',
          count: 7,
          reason: 'address',
          address: '127.0.0.1',
        }),
      ])
      kept[0]?.destroy()
      await sleep(50)
      await expectServed(await openMany(wire, 1))
    }))

  it('of trusted proxies are not, as they are those of many', () =>
    withWire(limited('connectionsPerAddress: 5', 'trustedProxies: ["127.0.0.0/8"]'), async (wire) =>
      expectServed(await openMany(wire, 12)),
    ))

  it('give way to new ones where there is no room and nothing goes on', () =>
    withWire(limited('connections: 10'), async (wire) => {
      await openMany(wire, 10)
      await expectServed(await openMany(wire, 10))
      expect(await wire.gateway.metric('tollgate_connections ')).toBe(10)
    }))

  it('are refused where all others are at work', () => {
    const waiting: (() => void)[] = []
    const respond = () =>
      new Promise<string>((resolve) =>
        waiting.push(() => resolve('HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok')),
      )
    return withWire({ ...limited('connections: 10'), respond }, async (wire) => {
      const kept = await openMany(wire, 10)
      for (const client of kept) client.send(request('GET', '/v1/pets'))
      await until(() => waiting.length === 10, 'ten requests')
      await openMany(wire, 3, 0)
      expect(await wire.gateway.metric('tollgate_connections_refused_total{reason="total"}')).toBe(
        3,
      )
      waiting.forEach((go) => go())
      for (const client of kept)
        expect((await client.waitForResponses(1)).responses[0]?.status).toBe(200)
    })
  })
})
