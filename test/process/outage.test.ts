import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { OutageMode } from '../../src/config/config.ts'
import type { RedisServer } from '../support/redis-server.ts'
import {
  acquainted,
  clientsBlock,
  configFile,
  decided,
  endAll,
  eventually,
  gatewayProcess,
  pick,
  quotaInRedis,
  rawBackend,
  redisServer,
  storeLost,
  tally,
  times,
  type Answer,
  type GatewayProcess,
  type TestClient,
} from './gateways.ts'
import {
  expectDecidedInTime,
  expectRecovery,
  startLoad,
  tellsNothing,
  tellsQuota,
} from './store-load.ts'

afterAll(endAll)

const key = 'tg_outage_key'
/** Of the day, so that no minute ends meanwhile. */
const client = (limit: number): TestClient => ({
  id: 'acme',
  keys: [key],
  perMinute: limit,
  perDay: limit,
})

interface Scene {
  readonly redis: RedisServer
  readonly gateways: readonly GatewayProcess[]
  readonly file: string
  requestsAtBackend(): number
}

async function scene(
  mode: OutageMode,
  perMinute: number,
  { processes = 1, lease = 'auto' }: { processes?: number; lease?: 'auto' | 'off' } = {},
): Promise<Scene> {
  const [redis, backend] = await Promise.all([redisServer(), rawBackend()])
  const file = configFile(backend.url, {
    store: `store: { redis: "${redis.url}", onOutage: ${mode}, lease: ${lease} }`,
    clients: clientsBlock([client(perMinute)]),
    bans: 'bans: { grace: 0s }',
  })
  const gateways = await Promise.all(times(processes, () => gatewayProcess(file)))
  if (mode === 'local') await acquainted(redis, processes)
  return { redis, gateways, file, requestsAtBackend: () => backend.requests.length }
}

/** Every admission is known to Redis, once. */
async function expectChargedOnce({ redis, requestsAtBackend }: Scene): Promise<void> {
  const admitted = requestsAtBackend()
  await eventually('the charges in Redis', () => quotaInRedis(redis, 'acme').dayUsed === admitted)
  // A late execution of a call that had timed out would show now.
  await sleep(300)
  expect(quotaInRedis(redis, 'acme').dayUsed).toBe(admitted)
  // Tokens in hand go back when nobody spends them.
  await eventually('no token left over', () => quotaInRedis(redis, 'acme').dayTaken === admitted)
}

const outages = {
  frozen: {
    begin: async (redis: RedisServer) => redis.freeze(),
    end: async (redis: RedisServer) => redis.thaw(),
  },
  killed: {
    begin: (redis: RedisServer) => redis.kill(),
    end: (redis: RedisServer) => redis.restart(),
  },
} as const

/** Load before, during and after an outage; returns the answers given without the store. */
async function throughOutage(stage: Scene, kind: keyof typeof outages): Promise<Answer[]> {
  const { redis, gateways } = stage
  const load = startLoad(gateways, { key })
  try {
    await eventually('answers with the store', () => load.answers.filter(tellsQuota).length > 40)
    const whole = load.since()
    await outages[kind].begin(redis)
    await eventually('an answer without the store', () => whole().some(tellsNothing))
    await storeLost(gateways)
    // Those under way then have been decided by now.
    await sleep(300)
    const without = load.since()
    await sleep(1_200)
    const during = without()
    await outages[kind].end(redis)
    await expectRecovery(load)
    await eventually('answers with the store only', () => {
      const last = load.answers.slice(-20)
      return last.every((answer) => answer.status === 200 && tellsQuota(answer))
    })
    expectDecidedInTime(whole(), load.undecidedMs)
    return during
  } finally {
    await load.stop()
  }
}

async function expectToldOfOutage({ gateways }: Scene): Promise<void> {
  for (const gateway of gateways) {
    expect(gateway.logged('storeLost').length).toBeGreaterThan(0)
    await eventually('the log line', () => gateway.logged('storeBack').length > 0)
    expect(await gateway.metric('tollgate_store_up')).toBe(1)
    expect(await gateway.metric('tollgate_store_outages_total')).toBeGreaterThan(0)
  }
}

const degraded = (gateway: GatewayProcess, mode: OutageMode): Promise<number> =>
  gateway.metric(`tollgate_degraded_decisions_total{mode="${mode}"}`)

describe('while Redis is away under load', () => {
  const cases = (['local', 'open', 'closed'] as const).flatMap((mode) =>
    (['frozen', 'killed'] as const).map((kind) => ({ mode, kind })),
  )
  let scenes: readonly Scene[] = []
  // Without leases, so that each request asks. Before all of them, since the start of a process costs so much that the others would feel it.
  beforeAll(async () => {
    scenes = await Promise.all(
      cases.map(({ mode }) => scene(mode, 1_000_000, { processes: 2, lease: 'off' })),
    )
  })

  it.concurrent.each(cases.map((each, at) => ({ ...each, at })))(
    'every request is decided in time, and charged once if it was admitted ($mode, $kind)',
    async ({ mode, kind, at }) => {
      const stage = pick(scenes, at)
      const during = await throughOutage(stage, kind)
      const expected = mode === 'closed' ? '503 service_unavailable' : '200'
      expect(tally(during)).toEqual({ [expected]: during.length })
      expect(during.every(tellsNothing)).toBe(true)
      const counts = await Promise.all(stage.gateways.map((gateway) => degraded(gateway, mode)))
      expect(counts.reduce((sum, count) => sum + count, 0)).toBeGreaterThanOrEqual(during.length)
      await expectToldOfOutage(stage)
      await expectChargedOnce(stage)
    },
  )
})

describe('while Redis is frozen and requests are admitted from leases', () => {
  it('each is decided in time and charged once, tells its quota or nothing, and has its share once the store is away', async () => {
    const stage = await scene('local', 1_000_000, { processes: 2 })
    const load = startLoad(stage.gateways, { key })
    try {
      await eventually('answers with the store', () => load.answers.filter(tellsQuota).length > 40)
      const whole = load.since()
      stage.redis.freeze()
      await storeLost(stage.gateways)
      await sleep(300)
      const without = load.since()
      await sleep(1_000)
      expect(tally(without())).toEqual({ '200': without().length })
      stage.redis.thaw()
      await expectRecovery(load)
      await eventually('answers with the store only', () =>
        load.answers.slice(-20).every(tellsQuota),
      )
      // In the first second only who waited for a call: another gateway may have been granted what a share would spend.
      const { '200': admitted = 0, '503 service_unavailable': waited = 0 } = tally(whole())
      expect(admitted + waited).toBe(whole().length)
      expect(whole().every((answer) => tellsQuota(answer) || tellsNothing(answer))).toBe(true)
      expectDecidedInTime(whole(), load.undecidedMs)
    } finally {
      await load.stop()
    }
    await expectChargedOnce(stage)
  })
})

describe.concurrent('what onOutage promises', () => {
  it('local: each process admits its share of the limit, and the whole is never exceeded', async () => {
    const stage = await scene('local', 100, { processes: 2 })
    const { redis, gateways } = stage
    const send = (count: number): Promise<Answer[]> =>
      Promise.all(times(count, (at) => pick(gateways, at).call(key)))
    // One after the other, so that each process has heard of the other.
    for (let at = 0; at < 20; at++) await decided(() => pick(gateways, at).call(key))
    redis.freeze()
    await storeLost(gateways)
    const without = await send(200)
    // The limit is used up, but neither can know that of the other.
    const { '200': admitted = 0, ...counts } = tally(without)
    expect(counts).toEqual({ '503 service_unavailable': 200 - admitted })
    // Tokens in hand may lie where nobody needs them.
    expect(admitted).toBeLessThanOrEqual(80)
    expect(admitted).toBeGreaterThan(70)
    const refused = without.filter(({ status }) => status === 503)
    for (const { headers } of refused)
      expect(Number(headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
    expect(refused.every(tellsNothing)).toBe(true)
    expect(stage.requestsAtBackend()).toBe(20 + admitted)
    // A refusal without the store may be unjust, so it is no strike.
    expect(await pick(gateways, 0).metric('tollgate_strikes_total')).toBe(0)
    redis.thaw()
    // Until every process has stated what it admitted, the first to be back cannot know.
    await expectChargedOnce(stage)
    // For a second each goes on within its share, so that all have been heard.
    for (const gateway of gateways)
      await eventually('quota headers again', async () => tellsQuota(await gateway.call(key)))
    const after = await send(30)
    expect(tally(after)).toMatchObject({ '429 rate_limit_exceeded': expect.any(Number) })
    expect(after.every(tellsQuota)).toBe(true)
    expect(stage.requestsAtBackend()).toBe(100)
    await expectChargedOnce(stage)
  })

  it('local: whoever is back first does not spend what another spent unheard', async () => {
    const stage = await scene('local', 100, { processes: 2 })
    const { redis, gateways } = stage
    const [early, late] = [pick(gateways, 0), pick(gateways, 1)]
    for (let at = 0; at < 20; at++) await decided(() => pick(gateways, at).call(key))
    redis.freeze()
    await storeLost(gateways)
    // The share of the late one is then spent where nobody hears of it.
    await Promise.all(times(10, () => early.call(key)))
    await Promise.all(times(60, () => late.call(key)))
    expect(stage.requestsAtBackend()).toBe(20 + 10 + 40)
    redis.thaw()
    for (let round = 0; round < 30; round++) {
      await Promise.all(times(10, () => early.call(key)))
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
    expect(stage.requestsAtBackend()).toBe(100)
    await expectChargedOnce(stage)
  })

  it('open: admits beyond the limit, and is back at the limit when Redis is', async () => {
    const stage = await scene('open', 20)
    const { redis, gateways } = stage
    const gateway = pick(gateways, 0)
    expect((await decided(() => gateway.call(key))).status).toBe(200)
    redis.freeze()
    const without = await Promise.all(times(60, () => gateway.call(key)))
    expect(without.every((answer) => answer.status === 200)).toBe(true)
    expect(await degraded(gateway, 'open')).toBe(60)
    redis.thaw()
    await eventually('the limit again', async () => (await gateway.call(key))?.status === 429)
    await expectChargedOnce(stage)
  })
})

describe.concurrent('Redis that is not there at the start', () => {
  it.each(['local', 'open', 'closed'] as const)(
    'does not keep a gateway from starting (%s); readiness tells, and it comes back by itself',
    async (mode) => {
      const [redis, backend] = await Promise.all([redisServer(), rawBackend()])
      await redis.kill()
      const file = configFile(backend.url, {
        store: `store: { redis: "${redis.url}", onOutage: ${mode} }`,
        clients: clientsBlock([client(100)]),
      })
      const gateway = await gatewayProcess(file, { waitForStore: false })
      const ready = async () => {
        const response = await fetch(`${gateway.adminOrigin}/readyz`)
        return { status: response.status, body: await response.text() }
      }
      const isUsable = mode !== 'closed'
      const away = await ready()
      expect(away.status).toBe(isUsable ? 200 : 503)
      expect(away.body).toContain(`); onOutage is ${mode}`)
      const without = await gateway.call(key)
      expect(without.status).toBe(isUsable ? 200 : 503)
      expect(tellsNothing(without)).toBe(true)
      expect(await gateway.metric('tollgate_store_up')).toBe(0)
      await redis.restart()
      await eventually('the store in use', async () => tellsQuota(await gateway.call(key)))
      const back = await ready()
      expect([back.status, back.body.includes('"available"')]).toEqual([200, true])
      const admitted = backend.requests.length
      await eventually('charges', () => quotaInRedis(redis, 'acme').dayUsed === admitted)
    },
  )
})
