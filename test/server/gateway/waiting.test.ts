/** A backend whose connections are all in use: who waits, for how long, in whose turn, and at whose cost. */
import { describe, expect, it } from 'vitest'
import { backed } from '../../support/backed.ts'
import { keys } from '../../support/gateway.ts'
import { answer, until } from '../../support/raw-backend.ts'
import { openRawClient } from '../../support/raw-client.ts'
import { handshake as fields, plansBlock, request, switched } from '../../wire/wire.ts'

const handshake = (key: string): string => request('GET', '/v1/live', { key, fields })

/** One connection to one backend, which answers a request when it is let go, in the order of arrival. */
async function start(upstream: string) {
  const held: (() => void)[] = []
  const { backend, gateway } = await backed({
    respond: async ({ target }) => {
      if (target === '/v1/live') return switched
      await new Promise<void>((resolve) => held.push(resolve))
      return answer(200, 'ok')
    },
    upstream: `connections: 1, ${upstream}`,
    blocks: { plans: plansBlock('perMinute: 60, perDay: 1000', ', concurrent: 50') },
  })
  return {
    gateway,
    targets: () => backend.requests.map(({ target }) => target.replace('/v1/', '')),
    /** No more than so many: a second connection would have brought another. */
    arrived: (count: number) =>
      until(() => backend.requests.length === count, `${count} requests at the backend`),
    waiting: (count: number) =>
      expect.poll(() => gateway.metric('tollgate_backend_waiting')).toBe(count),
    /** Lets the oldest go. */
    answerNext: () => held.shift()?.(),
  }
}

describe.each(['direct', 'http-proxy-3'])('with %s, who waits for a backend', (engine) => {
  it('is served by turns: a client with many requests in line delays none with one', async () => {
    const { gateway, arrived, answerNext, waiting, targets } = await start(`engine: ${engine}`)
    const answers: Promise<number>[] = []
    const send = (path: string, key: string) =>
      void answers.push(gateway.status(`/v1/${path}`, { key }))
    send('first', keys.pro)
    await arrived(1)
    for (const path of ['greedy1', 'greedy2', 'greedy3', 'greedy4']) {
      send(path, keys.pro)
      await waiting(answers.length - 1)
    }
    send('modest', keys.free)
    await waiting(5)
    // Each in its turn; one that was held for long may leave its connection to be made anew.
    for (let served = 1; served <= 6; served++) {
      await arrived(served)
      answerNext()
    }
    expect(await Promise.all(answers)).toEqual(Array<number>(6).fill(200))
    expect(targets()).toEqual(['first', 'greedy1', 'modest', 'greedy2', 'greedy3', 'greedy4'])
  })

  it('is refused at once, free of charge, where too many wait', async () => {
    const { gateway, arrived, answerNext, waiting } = await start(
      `engine: ${engine}, breaker: { waiting: 1 }`,
    )
    const served = [gateway.status('/v1/pets/1', { key: keys.pro })]
    await arrived(1)
    served.push(gateway.status('/v1/pets/2', { key: keys.pro }))
    await waiting(1)
    const { header, ...refused } = await gateway.ask('/v1/pets/3', { key: keys.pro })
    expect(refused).toMatchObject({ status: 503, code: 'service_unavailable', dayLeft: 9_998 })
    expect(header('retry-after')).toBe('1')
    answerNext()
    await arrived(2)
    answerNext()
    expect(await Promise.all(served)).toEqual([200, 200])
  })

  it('is refused when its time is over, free of charge, and the backend hears nothing of it', async () => {
    const { gateway, arrived, targets } = await start(
      `engine: ${engine}, timeouts: { response: 300ms }`,
    )
    // An upgrade holds its connection for as long as the tunnel lives.
    const client = await openRawClient(gateway.port)
    client.send(handshake(keys.free))
    expect((await client.waitForResponses(1)).responses[0]?.status).toBe(101)
    const refused = await gateway.ask('/v1/pets/1', { key: keys.pro })
    expect(refused).toMatchObject({ status: 504, left: 300 })
    expect(targets()).toEqual(['live'])
    // Its end lets the next one in.
    client.destroy()
    const next = gateway.status('/v1/pets/2', { key: keys.pro })
    await arrived(2)
    await next
  })
})

it('an upgrade that waits for a backend gets the next permit, or leaves its place with its client', async () => {
  const { gateway, arrived, answerNext, waiting, targets } = await start('engine: direct')
  const first = gateway.status('/v1/pets/1', { key: keys.pro })
  await arrived(1)
  const [leaving, staying] = [await openRawClient(gateway.port), await openRawClient(gateway.port)]
  leaving.send(handshake(keys.free))
  await waiting(1)
  staying.send(handshake(keys.pro))
  await waiting(2)
  leaving.end()
  await waiting(1)
  answerNext()
  expect((await staying.waitForResponses(1)).responses[0]?.status).toBe(101)
  expect(await first).toBe(200)
  expect(targets()).toEqual(['pets/1', 'live'])
  staying.destroy()
  leaving.destroy()
})

it.each(['direct', 'http-proxy-3'])(
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
