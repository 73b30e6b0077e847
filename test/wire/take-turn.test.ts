/** What one client may have under way at once: who wants more waits for a moment in a line of his own, and is then refused for free. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { minuteWithAtLeast } from '../support/gateway.ts'
import { answer } from '../support/raw-backend.ts'
import type { RawClient } from '../support/raw-client.ts'
import { expectGatewayFields, handshake, keys, plansBlock, request } from './wire.ts'
import { switched, until, openWire, type Wire } from './wire.ts'

const blocks = { plans: plansBlock('perMinute: 60, perDay: 1000', ', concurrent: 2') }
const get = (target: string): string => request('GET', `/v1/pets/${target}`)
const statusOf = async ({ ask }: Wire, bytes: string): Promise<number> => (await ask(bytes)).status

/** A backend that answers those that are held once they are released. */
function holding() {
  const { promise: held, resolve: release } = Promise.withResolvers<void>()
  const respond = async ({ target }: { target: string }) => {
    if (target.includes('held')) await held
    return answer(200, target)
  }
  return { release, respond }
}

describe('a client of a plan with concurrent: 2', () => {
  it('is refused a third request at once, for free, without a strike; others are served', async () => {
    const { release, respond } = holding()
    const wire = await openWire({
      blocks: { ...blocks, bans: 'bans: { strikes: 1, within: 1m, grace: 0s, duration: 1m }' },
      respond,
    })
    const { backend, ask, accessLines, charged } = wire
    await minuteWithAtLeast()
    const two = [statusOf(wire, get('held1')), statusOf(wire, get('held2'))]
    await backend.waitFor(() => backend.requests.length === 2, 'the two')
    for (let nth = 0; nth < 3; nth++) {
      const got = await ask(get('third'))
      expect(got.status).toBe(429)
      expect(got.header('retry-after')).toBe('1')
      expect(got.header('x-ratelimit-remaining')).toBe('298')
      expect(got.header('connection')).not.toBe('close')
      expectGatewayFields(got)
      expect(JSON.parse(got.body.toString())).toEqual({
        code: 'concurrency_limit_exceeded',
        message: 'Too many requests of this client at once. Limit: 2 at once. Retry in 1 s.',
        status: 429,
        limit: 2,
        retryAfter: 1,
      })
    }
    expect(await statusOf(wire, request('GET', '/v1/pets/1', { key: keys.business }))).toBe(200)
    release()
    expect(await Promise.all(two)).toEqual([200, 200])
    expect(await statusOf(wire, get('after'))).toBe(200)
    const refused = (await accessLines(7)).filter(({ status }) => status === 429)
    // The wait is the client's doing.
    for (const line of refused) expect(line.gatewayMs).toBeLessThan(Number(line.totalMs) - 150)
    expect(await charged()).toBe(3)
  })

  it('has what it sends in a burst or on one connection done, two at a time', async () => {
    let now = 0
    let most = 0
    const wire = await openWire({
      blocks: { plans: blocks.plans.replace('perMinute: 300', 'perMinute: 3000') },
      respond: async ({ target }) => {
        most = Math.max(most, ++now)
        await sleep(2)
        now--
        return answer(200, target)
      },
    })
    const targets = Array.from({ length: 4 }, (_, nth) => `pet${nth}`)
    const burst = async () => {
      const all = await Promise.all([
        wire.exchange(targets.map(get).join(''), { responses: 4 }),
        ...targets.map((target) => wire.exchange(get(target), { responses: 1 })),
      ])
      return all.flatMap(({ responses }) => responses.map(({ status }) => status))
    }
    let statuses = await burst()
    // A starved machine may need longer for it than a turn is waited for.
    for (let more = 0; more < 60 && statuses.includes(429); more++) statuses = await burst()
    expect(statuses).toEqual(Array(8).fill(200))
    expect(most).toBe(2)
  })

  it.each([
    { how: 'leaves while they are under way', end: 'reset' },
    { how: 'leaves in the middle of its bodies', end: 'reset', body: 'Content-Length: 10' },
    { how: 'breaks its bodies off', end: 'send', body: 'Transfer-Encoding: chunked' },
  ] as const)(
    'that $how has its turns back',
    async ({ end, body }: { end: 'reset' | 'send'; body?: string }) => {
      const wire = await openWire({
        blocks,
        respond: ({ target }) => (target.endsWith('held') ? undefined : answer(200, 'ok')),
      })
      for (let round = 0; round < 3; round++) {
        for (let nth = 0; nth < 2; nth++) {
          const client = await wire.connect(
            body === undefined
              ? get('held')
              : request('POST', '/v1/pets', { fields: [body], body: '1\r\n' }),
          )
          await sleep(20)
          if (end === 'reset') client.reset()
          else client.send('ZZZ\r\n')
        }
        await wire.settled()
      }
      expect(await statusOf(wire, get('after'))).toBe(200)
    },
  )
})

describe('a WebSocket', () => {
  it('holds its turn for as long as it is open', async () => {
    const wire = await openWire({
      blocks,
      respond: ({ target }) => (target === '/v1/live' ? switched : answer(200, 'ok')),
    })
    const tunnels = [await wire.connect(), await wire.connect()]
    for (const tunnel of tunnels) {
      tunnel.send(request('GET', '/v1/live', { fields: handshake }))
      await tunnel.waitFor(({ responses }) => responses[0]?.status === 101)
    }
    expect(await statusOf(wire, get('1'))).toBe(429)
    tunnels[0]?.destroy()
    await until(() => wire.backend.openConnections() < 2, 'the end of a tunnel')
    expect(await statusOf(wire, get('2'))).toBe(200)
  })

  it.each([
    ['closes', (client: RawClient) => client.socket.destroy()],
    ['says its last word', (client: RawClient) => client.socket.end()],
    ['resets', (client: RawClient) => client.socket.resetAndDestroy()],
  ])(
    'whose client %s while it waits for its turn reaches no backend, and holds nothing',
    async (_, leave) => {
      const { release, respond } = holding()
      const wire = await openWire({ blocks, respond })
      const { backend, connect } = wire
      const two = [statusOf(wire, get('held1')), statusOf(wire, get('held2'))]
      await backend.waitFor(() => backend.requests.length === 2, 'the two')
      const client = await connect(request('GET', '/v1/live', { fields: handshake }))
      await sleep(50)
      leave(client)
      await sleep(50)
      release()
      expect(await Promise.all(two)).toEqual([200, 200])
      const after = [statusOf(wire, get('3')), statusOf(wire, get('4'))]
      expect(await Promise.all(after)).toEqual([200, 200])
      await wire.settled()
      expect(backend.requests.filter(({ target }) => target === '/v1/live')).toEqual([])
    },
  )
})
