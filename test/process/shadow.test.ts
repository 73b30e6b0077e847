/** Limits that are only tried, judged by several gateways beside the live ones: to the last request, and nobody feels it. */
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import type { Shadow } from '../../src/admin/shadow/operations.ts'
import type { ClientsPage } from '../../src/admin/clients/operations.ts'
import { shadowId } from '../../src/state/counters.ts'
import { askAdmin } from '../support/admin-client.ts'
import { temporaryFolder } from '../support/processes.ts'
import {
  acquainted,
  clientsBlock,
  configFile,
  decided,
  eventually,
  gatewayHere,
  pick,
  quotaInRedis,
  startRawBackend,
  startRedisServer,
  storeOn,
  tally,
  times,
  type Gateway,
} from './gateways.ts'

const TRIED = 20
const LIVE = 5
const CALLS = 50
const [wide, narrow, late] = ['tg_wide_key', 'tg_narrow_key', 'tg_late_key']
const blocks = {
  plans: `plans:
  enterprise: { custom: true, concurrent: 10000, shadow: { perMinute: ${TRIED}, perDay: ${TRIED} } }`,
  // Both windows are as long as the day: no edge of a minute matters.
  clients: clientsBlock([
    { id: 'wide', keys: [wide], perMinute: 10_000 },
    { id: 'narrow', keys: [narrow], perMinute: LIVE, perDay: LIVE },
    { id: 'late', keys: [late], perMinute: LIVE },
  ]),
  bans: 'bans: { grace: 1m, strikes: 10000 }',
}

const shadowOf = async ({ adminOrigin }: Gateway) =>
  (await askAdmin(adminOrigin, 'GET /api/shadow')).body as unknown as Shadow

const total = (numbers: readonly number[]): number => numbers.reduce((sum, one) => sum + one, 0)
const metricOf = async (gateways: readonly Gateway[], name: string): Promise<number> =>
  total(await Promise.all(gateways.map((one) => one.metric(`${name}{`))))

/** Over all gateways, when every request that was decided is told of. */
async function judged(gateways: readonly Gateway[], client: string) {
  const decisions = await metricOf(gateways, 'tollgate_quota_decisions_total')
  let answers: Shadow[] = []
  await eventually('all is told', async () => {
    answers = await Promise.all(gateways.map(shadowOf))
    return total(answers.flatMap(({ plans }) => plans.map(({ requests }) => requests))) >= decisions
  })
  const rows = answers.flatMap(({ clients }) => clients.filter((row) => row.client === client))
  return {
    requests: total(rows.map(({ requests }) => requests)),
    degraded: total(rows.map(({ degraded }) => degraded)),
    refused: total(rows.map(({ refused }) => refused.minute + refused.day)),
    liveRefused: total(rows.map(({ liveRefused: { minute, day } }) => minute + day)),
  }
}

const callAll = (gateways: readonly Gateway[], key: string) =>
  Promise.all(times(CALLS, (at) => decided(() => pick(gateways, at).call(key))))

type Judged = Awaited<ReturnType<typeof judged>>

/** So many were let in. Whom a busy store does not answer in time asks again, and is judged again, if he can be. */
function expectAdmitted({ requests, refused, degraded }: Judged, admitted: number): void {
  const judgedAs = requests - refused - degraded
  expect(judgedAs).toBeLessThanOrEqual(admitted)
  expect(judgedAs).toBeGreaterThanOrEqual(admitted - degraded)
}

/** Returns how many of the wide client were let in. */
async function triedByAll(gateways: readonly Gateway[]): Promise<number> {
  const answers = await Promise.all([callAll(gateways, wide), callAll(gateways, narrow)])
  // What is tried refuses nobody, and saves nobody.
  expect(tally(answers[0])).toEqual({ '200': CALLS })
  expect(tally(answers[1])).toEqual({ '200': LIVE, '429 rate_limit_exceeded': CALLS - LIVE })
  const [ofWide, ofNarrow] = [await judged(gateways, 'wide'), await judged(gateways, 'narrow')]
  for (const one of [ofWide, ofNarrow]) expectAdmitted(one, TRIED)
  expect([ofWide.liveRefused, ofNarrow.liveRefused]).toEqual([0, CALLS - LIVE])
  const refusals = await metricOf(gateways, 'tollgate_shadow_refusals_total')
  expect(refusals).toBe(ofWide.refused + ofNarrow.refused)
  return ofWide.requests - ofWide.refused - ofWide.degraded
}

describe('limits that are only tried', () => {
  it('are counted exactly by two gateways on one Redis, and set back with the client', async () => {
    const [redis, backend] = await Promise.all([startRedisServer(), startRawBackend()])
    const store = storeOn(redis, 'onOutage: closed')
    const file = configFile(backend.url, { ...blocks, store })
    const first = await gatewayHere(file)
    const gateways = [first, await gatewayHere(file)]
    // What is tried is no further process with a share of what is live.
    await acquainted(redis, 2)
    const letIn = await triedByAll(gateways)
    expect(quotaInRedis(redis, shadowId('wide')).dayUsed).toBe(letIn)

    const reset = () =>
      askAdmin(first.adminOrigin, 'POST /api/clients/wide/reset', { window: 'both' })
    await eventually('the reset', async () => (await reset()).status === 200)
    expect(quotaInRedis(redis, shadowId('wide')).dayUsed).toBe(0)
    await callAll(gateways, wide)
    expectAdmitted(await judged(gateways, 'wide'), 2 * TRIED)

    await redis.kill()
    expect((await first.call(late)).status).toBe(503)
    await eventually('it says so', async () =>
      (await shadowOf(first)).plans.some(({ degraded }) => degraded > 0),
    )
  })

  it('are counted exactly over a restart too, and are in no view of what is live', async () => {
    const backend = await startRawBackend()
    const config = configFile(backend.url, {
      ...blocks,
      store: `store: { redis: "", file: "${join(temporaryFolder(), 'state.db')}" }`,
    })
    const before = await gatewayHere(config)
    await triedByAll([before])
    const { body } = await askAdmin(before.adminOrigin, 'GET /api/clients?sort=used')
    const { clients, total } = body as unknown as ClientsPage
    expect([total, clients.map(({ id }) => id)]).toEqual([3, ['wide', 'narrow', 'late']])
    const usage = await askAdmin(before.adminOrigin, 'GET /api/usage')
    expect(usage.body['clients']).toHaveLength(2)
    const hidden = `GET /api/clients/${encodeURIComponent(shadowId('wide'))}`
    expect((await askAdmin(before.adminOrigin, hidden)).status).toBe(404)
    await before.stop()

    const after = await gatewayHere(config)
    await callAll([after], wide)
    expectAdmitted(await judged([after], 'wide'), 0)
  })

  it('are handed back what no backend has seen', async () => {
    const backend = await startRawBackend()
    const gateway = await gatewayHere(configFile(backend.url, blocks))
    await backend.close()
    const answers = await callAll([gateway], wide)
    expect(answers.every(({ status }) => status >= 502)).toBe(true)
    // One after the other, so that none is counted before the one before it was handed back.
    for (const _ of times(TRIED + 5, String)) await gateway.call(wide)
    const { refused } = await judged([gateway], 'wide')
    expect(refused).toBeLessThanOrEqual(CALLS - TRIED)
  })
})
