/** One quota over several gateways on one Redis: processes where the process is the subject, else gateways in this one. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { minuteWithAtLeast } from '../support/gateway.ts'
import { sharedRedis, type RedisServer, type SharedRedis } from '../support/redis-server.ts'
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
  startRedisServer,
  storeOn,
  tally,
  times,
  type Answer,
  type Gateway,
  type TestClient,
} from './gateways.ts'
import { ask, workerPids } from '../workers/workers.ts'

const client = (id: string, perMinute: number, keys = [`tg_${id}`]): TestClient => ({
  id,
  keys,
  perMinute,
  perDay: 1000,
})

/** No call here comes late enough after a 429 to be a strike: bans are another matter. */
const blocksOn = (
  redis: RedisServer | SharedRedis,
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
    const { redis, backend, file, start } = await scene([client('acme', 100)])
    const gateways = await Promise.all([gatewayProcess(file), gatewayProcess(file), start()])
    await minuteWithAtLeast()
    // The first one after the other, so that each process is warm and has heard of the others.
    const answers: Answer[] = []
    for (let at = 0; at < 6; at++) answers.push(await acme(pick(gateways, at)))
    answers.push(...(await Promise.all(times(144, (at) => acme(pick(gateways, at))))))
    expect(tally(answers)).toEqual({ '200': 100, '429 rate_limit_exceeded': 50 })
    expect(backend.requests).toHaveLength(100)
    for (const { status, headers } of answers) {
      expect(headers.get('x-ratelimit-limit')).toBe('100')
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

  it('keep the count over a restart of each, in order or by kill -9', async () => {
    const { redis, file, start } = await scene([client('acme', 16)], 'off')
    const [first, second] = [await start(), await gatewayProcess(file)]
    await minuteWithAtLeast(15_000)
    const spend = async (gateway: Gateway, before: number): Promise<void> => {
      for (let at = 1; at <= 4; at++) {
        const answer = await acme(gateway)
        expect([answer.status, left(answer)]).toEqual([200, before - at])
      }
    }
    await spend(first, 16)
    await first.stop()
    await spend(second, 12)
    second.signal('SIGKILL')
    await second.finished
    const [third, fourth] = [await start(), await start()]
    await spend(third, 8)
    await spend(fourth, 4)
    expect([(await acme(third)).status, (await acme(fourth)).status]).toEqual([429, 429])
    expect(quotaInRedis(redis, 'acme')).toMatchObject({ minuteUsed: 16, dayUsed: 16 })
  })

  it('hand back what never reached a backend', async () => {
    const redis = sharedRedis()
    const blocks = blocksOn(redis, [client('acme', 10)])
    const gateway = await gatewayHere(configFile('http://127.0.0.1:1', blocks))
    const answers = await Promise.all(times(30, () => gateway.call('tg_acme')))
    expect(Object.keys(tally(answers))).toContain('502 bad_gateway')
    await eventually('nothing charged', () => quotaInRedis(redis, 'acme').dayTaken === 0)
  })

  it('say what is left to within a sixteenth, also one that holds a lease while another takes a burst', async () => {
    const [redis, backend] = await Promise.all([startRedisServer(), startRawBackend()])
    const blocks = blocksOn(redis, [{ ...client('acme', 600), perDay: 10_000 }])
    const file = configFile(backend.url, blocks)
    const [one, other] = [await gatewayHere(file), await gatewayHere(file)]
    await minuteWithAtLeast(40_000)
    // After a second tokens are held ahead, so that the next request asks nobody.
    for (let at = 0; at < 20; at++) {
      await acme(one)
      await sleep(100)
    }
    const calls = 'tollgate_store_calls_total{outcome="ok"}'
    const before = await one.metric(calls)
    const published = (): number =>
      Number(/cmdstat_publish:calls=(\d+)/.exec(redis.cli('INFO', 'commandstats'))?.[1] ?? 0)
    const publishedBefore = published()
    const burst: Answer[] = []
    for (let at = 0; at < 10; at++) burst.push(...(await Promise.all(times(50, () => acme(other)))))
    expect(tally(burst)).toEqual({ '200': 500 })
    const answer = await acme(one)
    expect(left(answer)).toBeLessThanOrEqual(600 - 521 + 37)
    expect(answer.headers.get('ratelimit')).toMatch(/^"minute";r=\d+;t=\d+, "day";r=\d+;t=\d+$/)
    expect(dayLeft(answer)).toBeLessThanOrEqual(10_000 - 521 + 37)
    // The news costs no call, and is rare.
    expect((await one.metric(calls)) - before).toBeLessThanOrEqual(2)
    expect(published() - publishedBefore).toBeLessThan(32)
  })

  it('say what is left in every answer again within a second, when a worker was replaced and when Redis is back', async () => {
    const [redis, backend] = await Promise.all([startRedisServer(), startRawBackend()])
    const file = configFile(backend.url, {
      ...blocksOn(redis, [{ ...client('acme', 60_000), perDay: 1_000_000 }]),
      server: 'server: { listen: "127.0.0.1:0", workers: 2 }',
    })
    const gateway = await gatewayProcess(file)
    /** 200s that say nothing of the quota, while it is asked for so long. */
    const silentFor = async (forMs: number): Promise<number> => {
      let silent = 0
      const untilMs = performance.now() + forMs
      while (performance.now() < untilMs) {
        // Each on a connection of its own, so that both workers serve.
        const { status, headers } = await ask(gateway.origin, { key: 'tg_acme' })
        if (status === 200 && headers['x-ratelimit-remaining'] === undefined) silent += 1
        await sleep(10)
      }
      return silent
    }
    expect(await silentFor(600)).toBe(0)
    const [, pid] = pick([...workerPids(gateway)], 0)
    const started = (): number => gateway.logged('workerStarted').length
    const before = started()
    process.kill(pid, 'SIGKILL')
    await eventually('another worker', () => started() > before)
    expect(await silentFor(1_200)).toBe(0)

    const isBack = (): Promise<boolean> =>
      ask(gateway.origin, { key: 'tg_acme' }).then(({ status }) => status === 200)
    await redis.kill()
    await sleep(600)
    await redis.restart()
    await eventually('answers', isBack)
    await silentFor(1_000)
    expect(await silentFor(500)).toBe(0)
  })
})
