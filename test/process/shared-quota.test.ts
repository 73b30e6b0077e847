/** One quota over several gateways on one Redis: processes where the process is the subject, else gateways in this one. */
import { describe, expect, it } from 'vitest'
import { minuteWithAtLeast } from '../support/gateway.ts'
import { sharedRedis, type SharedRedis } from '../support/redis-server.ts'
import {
  clientsBlock,
  configFile,
  decided,
  eventually,
  gatewayHere,
  gatewayProcess,
  pick,
  quotaInRedis,
  startRawBackend,
  storeOn,
  tally,
  times,
  type Answer,
  type Gateway,
  type TestClient,
} from './gateways.ts'

const client = (id: string, perMinute: number, keys = [`tg_${id}`]): TestClient => ({
  id,
  keys,
  perMinute,
  perDay: 1000,
})

/** No call here comes late enough after a 429 to be a strike: bans are another matter. */
const blocksOn = (
  redis: SharedRedis,
  clients: readonly TestClient[],
  lease: 'auto' | 'off' = 'auto',
) => ({
  // What a busy machine holds up is not admitted in another way.
  store: storeOn(redis, `timeout: 110ms, onOutage: closed, lease: ${lease}`),
  bans: 'bans: { grace: 1m }',
  clients: clientsBlock(clients),
})

/** A Redis, a backend, and the file of gateways between them. */
async function scene(clients: readonly TestClient[], lease?: 'auto' | 'off') {
  const [redis, backend] = [sharedRedis(), await startRawBackend()]
  const file = configFile(backend.url, blocksOn(redis, clients, lease))
  return { redis, backend, file, start: () => gatewayHere(file) }
}

/** What the gateway decides, as the client gets it that comes back after a 503. */
const acme = (gateway: Gateway): Promise<Answer> => decided(() => gateway.call('tg_acme'))
const left = ({ headers }: Answer): number => Number(headers.get('x-ratelimit-remaining'))
const dayLeft = ({ headers }: Answer): number =>
  Number(/"day";r=(\d+)/.exec(headers.get('ratelimit') ?? '')?.[1])

describe('gateways on one Redis', () => {
  it('admit exactly the limit between them, and charge nothing for what they refuse', async () => {
    const acmeOnly = [client('acme', 100)]
    const { redis, backend, file, start } = await scene(acmeOnly)
    const workers = { server: 'server: { listen: "127.0.0.1:0", workers: 2 }' }
    const ofWorkers = configFile(backend.url, { ...blocksOn(redis, acmeOnly), ...workers })
    const gateways = await Promise.all([gatewayProcess(ofWorkers), gatewayProcess(file), start()])
    await minuteWithAtLeast()
    // The first one after the other, so that each process is warm and has heard of the others.
    const answers: Answer[] = []
    for (let at = 0; at < 6; at++) answers.push(await acme(pick(gateways, at)))
    answers.push(...(await Promise.all(times(144, (at) => acme(pick(gateways, at))))))
    // What a process that stands still holds is refused by the others, until it goes on.
    await eventually('the whole limit', async () => {
      answers.push(...(await Promise.all(gateways.map(acme))))
      return backend.requests.length >= 100
    })
    expect(tally(answers)).toEqual({ '200': 100, '429 rate_limit_exceeded': answers.length - 100 })
    expect(backend.requests).toHaveLength(100)
    for (const { status, headers } of answers) {
      expect(headers.get('x-ratelimit-limit') ?? '100').toBe('100')
      if (status === 429) expect(headers.get('x-ratelimit-remaining')).toBe('0')
    }
    const spent = { minuteTaken: 100, minuteUsed: 100, dayTaken: 100, dayUsed: 100 }
    // What was spent of a lease is told with the next call, or when others are refused.
    await eventually('all use stated', () => quotaInRedis(redis, 'acme').minuteUsed === 100)
    expect(quotaInRedis(redis, 'acme')).toEqual(spent)

    const refused = await Promise.all(times(12, (at) => acme(pick(gateways, at))))
    for (const answer of refused) expect([answer.status, dayLeft(answer)]).toEqual([429, 900])
    expect(quotaInRedis(redis, 'acme')).toEqual(spent)
    expect(backend.requests).toHaveLength(100)

    // A raised limit admits again at once, and the day goes on from where it was.
    const raised = blocksOn(redis, [client('acme', 200)])
    const next = await acme(await gatewayHere(configFile(backend.url, raised)))
    expect([next.status, left(next), dayLeft(next)]).toEqual([200, 99, 899])
  })

  it('count there from their first request on, count their calls to the store, and tell that it is up', async () => {
    const { file } = await scene([client('acme', 100)])
    const gateway = await gatewayHere(file, { waitForStore: false })
    expect(left(await acme(gateway))).toBe(99)
    expect(await gateway.metric('tollgate_store_calls_total{outcome="ok"}')).toBeGreaterThan(0)
    expect(await gateway.metric('tollgate_store_up')).toBe(1)
    const admitted = 'tollgate_quota_decisions_total{window="none",outcome="admitted"}'
    expect(await gateway.metric(admitted)).toBe(1)
  })

  it('count every method and both keys of a client the same, and each client alone', async () => {
    const both = ['tg_key_one', 'tg_key_two']
    const clients = [client('two', 50, both), client('b', 50)]
    const { redis, backend, start } = await scene(clients, 'off')
    const gateways = [await start(), await start()]
    await minuteWithAtLeast()
    const methods = ['GET', 'HEAD', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']
    let calls = 0
    for (const gateway of gateways)
      for (const method of methods) {
        const key = both[calls % 2]
        const answer = await decided(() => gateway.call(key, '/v1/pets', { method }))
        calls++
        const told = [method, answer.status, left(answer), dayLeft(answer)]
        expect(told).toEqual([method, 200, 50 - calls, 1000 - calls])
      }
    // Paths outside the routes and answers of the backend such as a 404 count too, refusals do not.
    const gateway = pick(gateways, 0)
    await decided(() => gateway.call(both[0], '/v1/else/where'))
    expect((await decided(() => gateway.call(both[0], '/outside'))).status).toBe(404)
    expect((await gateway.call('tg_nobody')).status).toBe(401)
    calls++
    expect(backend.requests).toHaveLength(calls)
    expect(quotaInRedis(redis, 'two')).toMatchObject({ minuteUsed: calls, dayUsed: calls })
    expect(left(await decided(() => gateway.call('tg_b')))).toBe(49)
  })
})
