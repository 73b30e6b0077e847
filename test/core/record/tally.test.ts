/** What one second of a key looks like, whatever happens to its requests. */
import { expect, it } from 'vitest'
import type { Admission } from '../../../src/core/quota/decision.ts'
import { createCaller } from '../../../src/core/rules/credentials.ts'
import { createMemoryUsageStore } from '../../../src/state/usage.ts'
import { Tally } from '../../../src/core/record/tally.ts'

const limits = { perMinute: 60, perDay: 100 }
const callerOf = (clientId: string, plan = 'free', keyId = `${clientId}-1`) =>
  createCaller({ id: clientId, plan, limits, concurrent: 8 }, { id: keyId }, true)
const acme = callerOf('acme')
const window = (limit: number, remaining: number) => ({
  limit,
  remaining,
  resetAtSeconds: 0,
  resetAfterSeconds: 1,
})
const view = { minute: window(60, 18), day: window(100, 0) }
const admission = (dayIndex: number): Admission => ({
  kind: 'admitted',
  view,
  degraded: false,
  charged: {
    minute: { index: dayIndex * 1_440, resetMs: 0 },
    day: { index: dayIndex, resetMs: 0 },
  },
})

it('counts by outcome, and times what was answered', () => {
  const tally = new Tally()
  const beforeMs = Date.now()
  for (let n = 0; n < 3; n++) tally.admitted(acme, admission(7))
  tally.refunded(acme, admission(7))
  tally.done(acme, 3, undefined)
  tally.done(acme, 5, undefined)
  tally.done(acme, 900, 'bad_gateway')
  tally.done(acme, undefined, undefined)
  for (const by of ['minute', 'day', 'day', 'ban', 'ban', 'ban'] as const) {
    tally.refused(acme, by, undefined, 7)
    tally.done(acme, 1, by === 'ban' ? 'api_key_banned' : 'rate_limit_exceeded')
  }
  const [row, ...others] = tally.take()
  expect(others).toEqual([])
  expect(row).toEqual({
    client: 'acme',
    key: 'acme-1',
    plan: 'free',
    dayIndex: 7,
    admitted: 2,
    refusedMinute: 1,
    refusedDay: 2,
    refusedBan: 3,
    refusedOther: 1,
    requests: 10,
    answered: 2,
    totalMsSum: 8,
    totalMsMax: 5,
    judged: 0,
    unjudged: 0,
    shadowMinute: 0,
    shadowDay: 0,
    liveMinute: 0,
    liveDay: 0,
    minuteUsed: 42,
    minuteLimit: 60,
    dayUsed: 100,
    dayLimit: 100,
    lastUsedMs: expect.any(Number),
  })
  expect(row?.lastUsedMs).toBeGreaterThanOrEqual(beforeMs)
  expect(tally.take()).toEqual([])
})

it('counts what shadow limits decide, beside what the live ones have', () => {
  const tally = new Tally()
  tally.judged(acme, 'admitted', 'day')
  tally.judged(acme, 'unjudged', undefined)
  for (const by of ['minute', 'day', 'day'] as const) tally.judged(acme, by, 'minute')
  expect(tally.take()).toMatchObject([
    { judged: 5, unjudged: 1, shadowMinute: 1, shadowDay: 2, liveMinute: 3, liveDay: 1 },
  ])
})

it('keeps days, clients and plans of one key apart, and charges of a second before', () => {
  const tally = new Tally()
  const moved = callerOf('acme', 'pro')
  const sold = callerOf('bolt', 'pro', 'acme-1')
  tally.admitted(acme, admission(7))
  tally.admitted(moved, admission(7))
  tally.admitted(sold, admission(8))
  tally.admitted(moved, admission(8))
  tally.refunded(acme, admission(7))
  tally.refunded(sold, admission(7))
  const sums = new Map<string, number>()
  for (const { client, plan, dayIndex, admitted } of tally.take()) {
    const name = `${client} ${plan} ${dayIndex}`
    sums.set(name, (sums.get(name) ?? 0) + admitted)
  }
  expect(Array.from(sums, ([name, admitted]) => `${name} ${admitted}`).sort()).toEqual([
    'acme free 7 0',
    'acme pro 7 1',
    'acme pro 8 1',
    'bolt pro 7 -1',
    'bolt pro 8 1',
  ])
})

it('gives the plan that a key had last after the others, and a day keeps them apart', async () => {
  const tally = new Tally()
  for (const plan of ['free', 'pro', 'business'])
    tally.admitted(callerOf('acme', plan), admission(7))
  const store = createMemoryUsageStore()
  await store.add({ process: 'first', sequence: 1, day: 7, rows: tally.take() })
  const plans = (await store.client('acme', 7, 7)).map(([, row]) => `${row.plan} ${row.admitted}`)
  expect(plans).toEqual(['free 1', 'pro 1', 'business 1'])
})

it('holds no more than 100,000 keys of a second, and says what it has left out', () => {
  const tally = new Tally()
  for (let at = 0; at < 100_010; at++) tally.admitted(callerOf(`client-${at}`), admission(7))
  tally.admitted(callerOf('client-0'), admission(7))
  // Their ends are of the same requests.
  tally.done(callerOf('client-100005'), 1, undefined)
  const rows = tally.take()
  expect(rows).toHaveLength(100_000)
  expect(rows[0]?.admitted).toBe(2)
  expect(tally.lost).toBe(10)
  tally.admitted(callerOf('client-100005'), admission(7))
  expect(tally.take()).toHaveLength(1)
})
