/** What requests get while Redis is away, and that each admission is charged once all the same. */
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import type { OutageMode } from '../../src/config/config.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { startSlowLink } from '../support/slow-link.ts'
import {
  acquainted,
  clientsBlock,
  configFile,
  decided,
  eventually,
  gatewayProcess,
  pick,
  quotaInRedis,
  startRawBackend,
  startRedisServer,
  storeLost,
  tally,
  times,
  type Answer,
  gatewayHere,
  type GatewayHere,
} from './gateways.ts'
import { expectDecidedInTime, expectRecovery, startLoad, tellsNothing } from './store-load.ts'
import { tellsQuota } from './store-load.ts'

const key = 'tg_outage_acme'

/** Gateways of a client that has a limit of the day, so that no minute ends meanwhile. port: of a link to that Redis. */
async function scene(
  redis: RedisServer,
  mode: OutageMode,
  limit: number,
  { processes = 1, more = 'lease: auto', port = redis.port } = {},
) {
  const backend = await startRawBackend()
  // Those of another prefix are no processes of this scene.
  const prefix = processes > 1 ? 'tollgate' : `tollgate-${mode}`
  const client = { id: 'acme', keys: [key], perMinute: limit, perDay: limit }
  const file = configFile(backend.url, {
    store: `store: { redis: "redis://127.0.0.1:${port}", prefix: ${prefix}, onOutage: ${mode}, ${more} }`,
    clients: clientsBlock([client]),
    bans: 'bans: { grace: 0s }',
  })
  const gateways = await Promise.all(times(processes, () => gatewayHere(file)))
  if (processes > 1) await acquainted(redis, processes)
  const admitted = () => backend.requests.length
  return {
    gateways,
    admitted,
    /** Every admission is known to Redis, once. */
    async expectChargedOnce() {
      const [charged, quota] = [admitted(), () => quotaInRedis(redis, 'acme', prefix)]
      await eventually('the charges in Redis', () => quota().dayUsed === charged)
      // A late execution of a call that had timed out would show now.
      await sleep(300)
      expect(quota().dayUsed).toBe(charged)
      // Tokens in hand go back when nobody spends them.
      await eventually('no token left over', () => quota().dayTaken === charged)
    },
  }
}

const degraded = (gateway: GatewayHere, mode: OutageMode): Promise<number> =>
  gateway.metric(`tollgate_degraded_decisions_total{mode="${mode}"}`)

describe('while Redis is away under load', () => {
  const modes = ['local', 'open', 'closed'] as const
  let redis: RedisServer
  let scenes: readonly Awaited<ReturnType<typeof scene>>[] = []

  // Without leases, so that each request asks.
  const begun = async (): Promise<void> => {
    redis = await startRedisServer()
    scenes = await Promise.all(
      modes.map((mode) =>
        scene(redis, mode, 1e6, { processes: mode === 'local' ? 2 : 1, more: 'lease: off' }),
      ),
    )
  }

  it.each(['frozen', 'killed'] as const)(
    'every request is decided in time, and charged once if it was admitted (%s)',
    async (kind) => {
      if (scenes.length === 0) await begun()
      const loads = scenes.map(({ gateways }) => startLoad(gateways, { key }))
      const last = (count: number) => loads.map(({ answers }) => answers.slice(-count))
      await eventually('answers with the store', () =>
        loads.every(({ answers }) => answers.filter(tellsQuota).length > 20),
      )
      const whole = loads.map((load) => load.since())
      await (kind === 'frozen' ? redis.freeze() : redis.kill())
      for (const { gateways } of scenes) await storeLost(gateways)
      // Those under way then have been decided by now.
      await sleep(300)
      const without = loads.map((load) => load.since())
      await eventually('answers without it', () => without.every((seen) => seen().length > 40))
      const during = without.map((seen) => seen())
      await (kind === 'frozen' ? redis.thaw() : redis.restart())
      await Promise.all(loads.map((load) => expectRecovery(load)))
      await eventually('answers with the store only', () =>
        last(20).every((answers) =>
          answers.every((each) => each.status === 200 && tellsQuota(each)),
        ),
      )
      for (const [at, mode] of modes.entries()) {
        const answers = during[at] ?? []
        const expected = mode === 'closed' ? '503 service_unavailable' : '200'
        expect(tally(answers), mode).toEqual({ [expected]: answers.length })
        expect(answers.every(tellsNothing), mode).toBe(true)
        expectDecidedInTime(pick(whole, at)(), pick(loads, at).undecidedMs)
        const { gateways } = pick(scenes, at)
        const counts = await Promise.all(gateways.map((gateway) => degraded(gateway, mode)))
        const sum = counts.reduce((total, count) => total + count, 0)
        expect(sum).toBeGreaterThanOrEqual(answers.length)
      }
      await Promise.all(loads.map((load) => load.stop()))
      const outages = kind === 'frozen' ? 1 : 2
      for (const gateway of scenes.flatMap(({ gateways }) => gateways)) {
        expect(gateway.logged('storeLost').length).toBeGreaterThanOrEqual(outages)
        await eventually('the log line', () => gateway.logged('storeBack').length >= outages)
        expect(await gateway.metric('tollgate_store_up')).toBe(1)
        expect(await gateway.metric('tollgate_store_outages_total')).toBeGreaterThanOrEqual(outages)
      }
      await Promise.all(scenes.map(({ expectChargedOnce }) => expectChargedOnce()))
    },
  )
})

it('local: each process admits its share of the limit, and the whole is never exceeded', async () => {
  const redis = await startRedisServer()
  const { gateways, admitted, expectChargedOnce } = await scene(redis, 'local', 100, {
    processes: 2,
  })
  const send = (count: number): Promise<Answer[]> =>
    Promise.all(times(count, (at) => pick(gateways, at).call(key)))
  // One after the other, so that each process has heard of the other.
  for (let at = 0; at < 20; at++) await decided(() => pick(gateways, at).call(key))
  redis.freeze()
  await storeLost(gateways)
  const without = await send(200)
  // The limit is used up, but neither can know that of the other.
  const { '200': shares = 0, ...counts } = tally(without)
  expect(counts).toEqual({ '503 service_unavailable': 200 - shares })
  // Tokens in hand may lie where nobody needs them.
  expect(shares).toBeLessThanOrEqual(80)
  expect(shares).toBeGreaterThan(70)
  const refused = without.filter(({ status }) => status === 503)
  for (const { headers } of refused)
    expect(Number(headers.get('retry-after'))).toBeGreaterThanOrEqual(1)
  expect(refused.every(tellsNothing)).toBe(true)
  expect(admitted()).toBe(20 + shares)
  // A refusal without the store may be unjust, so it is no strike.
  expect(await pick(gateways, 0).metric('tollgate_strikes_total')).toBe(0)
  redis.thaw()
  // Until every process has stated what it admitted, the first to be back cannot know.
  await expectChargedOnce()
  // For a second each goes on within its share, so that all have been heard.
  for (const gateway of gateways)
    await eventually('quota headers again', async () => tellsQuota(await gateway.call(key)))
  const after = times(30, (at) => decided(() => pick(gateways, at).call(key)))
  const answers = await Promise.all(after)
  expect(tally(answers)).toMatchObject({ '429 rate_limit_exceeded': expect.any(Number) as number })
  expect(answers.every(tellsQuota)).toBe(true)
  await eventually('the whole limit', async () => {
    await Promise.all(gateways.map((gateway) => gateway.call(key)))
    return admitted() === 100
  })
  await expectChargedOnce()
})

describe('a Redis that is slow', () => {
  const slow = async (limit: number) => {
    const redis = await startRedisServer()
    const link = await startSlowLink(redis.port)
    const options = { processes: 2, port: link.port, more: 'timeout: 110ms' }
    return { link, ...(await scene(redis, 'local', limit, options)) }
  }

  it('within store.timeout: keeps the limit exactly, with true headers', async () => {
    const { link, admitted, gateways } = await slow(100)
    // The first ones while it is quick, so that each process has heard of the other.
    for (let at = 0; at < 4; at++) await decided(() => pick(gateways, at).call(key))
    link.delayMs = 40
    const answers: Answer[] = []
    // A few at a time: a machine that is busy with hundreds would make the calls slower still.
    for (let round = 0; round < 37; round++)
      answers.push(...(await Promise.all(times(8, (at) => pick(gateways, at).call(key)))))
    const { '200': served = 0 } = tally(answers)
    expect(4 + served).toBeLessThanOrEqual(100)
    expect(admitted()).toBe(4 + served)
    // A refusal that others could undo by giving tokens back is asked again a little later.
    await eventually('the whole limit', async () => {
      await Promise.all(gateways.map((gateway) => gateway.call(key)))
      return admitted() === 100
    })
    expect(answers.filter(tellsQuota).length).toBeGreaterThan(answers.length / 4)
  })

  it('beyond it: decides in time without it, and goes back to it as soon as it is quick', async () => {
    const { link, gateways } = await slow(1_000_000)
    const load = startLoad(gateways, { key })
    await eventually('answers with the store', () => load.answers.filter(tellsQuota).length > 40)
    const whole = load.since()
    link.delayMs = 400
    await eventually('an answer without the store', () => whole().some(tellsNothing))
    await storeLost(gateways)
    await sleep(300)
    const without = load.since()
    await sleep(300)
    expect(tally(without())).toEqual({ '200': without().length })
    link.delayMs = 0
    await expectRecovery(load)
    expectDecidedInTime(whole(), load.undecidedMs)
    await load.stop()
  })
})

it('a Redis that is not there does not keep a gateway from starting; readiness tells, and it comes back by itself', async () => {
  const [redis, backend] = await Promise.all([startRedisServer(), startRawBackend()])
  await redis.kill()
  const started = async (mode: OutageMode) => {
    const file = configFile(backend.url, {
      store: `store: { redis: "${redis.url}", prefix: at-start-${mode}, onOutage: ${mode} }`,
      clients: clientsBlock([{ id: 'acme', keys: [key], perMinute: 100 }]),
    })
    // One that needs its store is a process, as it must not end.
    const start = mode === 'closed' ? gatewayProcess : gatewayHere
    return { mode, gateway: await start(file, { waitForStore: false }) }
  }
  const all = await Promise.all((['local', 'open', 'closed'] as const).map(started))
  for (const { mode, gateway } of all) {
    const status = mode === 'closed' ? 503 : 200
    const { reason, ...told } = await gateway.check('store')
    expect([told.status, reason]).toEqual([
      status,
      expect.stringContaining(`); onOutage is ${mode}`),
    ])
    const without = await gateway.call(key)
    expect([without.status, tellsNothing(without)]).toEqual([status, true])
    expect(await gateway.metric('tollgate_store_up')).toBe(0)
  }
  await redis.restart()
  for (const { gateway } of all) {
    const ask = () => gateway.call(key)
    await eventually('the store in use', async () => tellsQuota(await ask()))
    expect(await gateway.check('store')).toMatchObject({ status: 200, reason: 'available' })
  }
  const charged = () =>
    all.map(({ mode }) => quotaInRedis(redis, 'acme', `at-start-${mode}`).dayUsed)
  await eventually(
    'charges',
    () => charged().reduce((sum, used) => sum + used, 0) === backend.requests.length,
  )
})
