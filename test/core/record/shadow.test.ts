/** What is kept of limits that are only tried, and what is not judged. */
import { expect, it } from 'vitest'
import type { Limits } from '../../../src/config/config.ts'
import { createEmbeddedAuthority } from '../../../src/state/memory/authority.ts'
import { Lessee } from '../../../src/core/quota/lessee.ts'
import { createCaller } from '../../../src/core/rules/credentials.ts'
import { DAY_MS } from '../../../src/config/time.ts'
import { Shadow } from '../../../src/core/record/shadow.ts'
import { shadowId } from '../../../src/state/counters.ts'
import { refusedOf, ShadowCounts } from '../../../src/insight/live/shadow-counts.ts'
import { Tally, type TallyRow } from '../../../src/core/record/tally.ts'
import { row } from '../../insight/live/rows.ts'

const NOON_MS = Date.UTC(2030, 0, 1, 12)
const MIDNIGHT_MS = Date.UTC(2030, 0, 2)
const limits: Limits = { perMinute: 1, perDay: 2 }
const plansWith = (shadow: Limits | undefined) =>
  new Map([['pro', { name: 'pro', limits, concurrent: 1, shadow }]])

/** One judged request of a client in the second of atMs. */
const judged = (client: string, atMs: number, more: Partial<TallyRow> = {}): TallyRow =>
  row(client, { judged: 1, lastUsedMs: atMs + 7, ...more })
const refused = { shadowMinute: 1, liveDay: 1 }

/** As two processes tell of one second. */
function told(atMs: number, kept = new ShadowCounts(NOON_MS)): ShadowCounts {
  for (const clients of [['a', 'b'], ['b']])
    kept.add(
      [...clients.map((client) => judged(client, atMs, refused)), judged('c', atMs), row('d')],
      atMs,
    )
  return kept
}

it('is summed over processes, the worst client first', () => {
  const { worst, byPlan } = told(NOON_MS).refused(1)
  expect(byPlan).toEqual(new Map([['pro', 2]]))
  expect(worst).toMatchObject([
    { client: 'b', plan: 'pro', count: { judged: 2, shadowMinute: 2, liveDay: 2 } },
  ])
  expect(worst[0]?.count.firstMs).toBe(NOON_MS + 7)
  expect(told(NOON_MS).plan('pro')).toMatchObject({ judged: 5, shadowMinute: 3 })
})

it('begins anew with the day and with other limits, and what comes late of the day before is left out', () => {
  const kept = told(NOON_MS)
  kept.use(plansWith(limits), NOON_MS)
  kept.use(plansWith({ ...limits }), NOON_MS + 1)
  expect(kept.plan('pro').judged).toBe(5)
  kept.use(plansWith({ ...limits, perDay: 3 }), NOON_MS + 2)
  expect([kept.plan('pro').judged, kept.sinceMs]).toEqual([0, NOON_MS + 2])
  told(MIDNIGHT_MS, told(NOON_MS + 1_000, kept))
  expect(told(MIDNIGHT_MS - 1_000, kept).plan('pro').judged).toBe(5)
  kept.use(plansWith({ ...limits, perDay: 3 }), MIDNIGHT_MS + DAY_MS)
  expect([kept.plan('pro').judged, kept.sinceMs]).toEqual([0, MIDNIGHT_MS + DAY_MS])
})

it('knows 100,000 clients by name, and counts the others in their plan', () => {
  const kept = new ShadowCounts(NOON_MS)
  const clients = Array.from({ length: 100_001 }, (_, at) => `client-${at}`)
  const rows = clients.map((client) => judged(client, NOON_MS, refused))
  kept.add(rows, NOON_MS)
  expect(kept.plan('pro').judged).toBe(100_001)
  expect(kept.refused(1).byPlan).toEqual(new Map([['pro', 100_000]]))
})

it('is judged for no more requests at once than a thousand, hands back what is judged late, and counts nobody who can call', async () => {
  const authority = createEmbeddedAuthority({ clock: { epochMs: () => NOON_MS } })
  const waiting: (() => void)[] = []
  const asked = new Set<string>()
  const told = { minute: 0, day: 0, unjudged: 0 }
  const tally = new Tally()
  const counts = new ShadowCounts()
  const sum = () => {
    counts.add(tally.take(), Date.now())
    return counts.plan('pro')
  }
  const shadow = new Shadow({
    authority: {
      take: (request) => {
        asked.add(request.client)
        return new Promise((resolve) => waiting.push(() => resolve(authority.take(request))))
      },
    },
    openLessee: (own) =>
      new Lessee({
        ...own,
        processId: 'p',
        lease: 'off',
        clock: { nowMs: () => performance.now(), epochMs: () => NOON_MS },
      }),
    tally,
    refused: (_plan, by) => void (told[by] += 1),
  })
  expect(shadow.judgeFor(plansWith(undefined))).toBeUndefined()
  const judge = shadow.judgeFor(plansWith({ perMinute: 900, perDay: 900 }))
  const caller = (plan: string) =>
    createCaller({ id: 'acme', plan, limits, concurrent: 1 }, { id: 'k' }, false)
  const live = { kind: 'unavailable' } as const
  expect(judge?.(caller('free'), live)).toBeUndefined()
  const charges = Array.from({ length: 1_100 }, () => judge?.(caller('pro'), live))
  charges[0]?.refund()
  while (sum().judged < 1_100) {
    waiting.splice(0).forEach((answer) => answer())
    await new Promise((resolve) => setImmediate(resolve))
  }
  // One more than 900 were let in, since one was handed back before it was judged.
  expect([sum().unjudged, refusedOf(sum())]).toEqual([100, 99])
  // So many may be missing in the refusals, beside which they are counted.
  expect([told.minute + told.day, told.unjudged]).toEqual([99, 100])
  // Neither may be in the id of a client: a space, of a configuration and of a token alike.
  expect([...asked]).toEqual([shadowId('acme')])
  expect(shadowId('acme')).toMatch(/ /)
  const again = judge?.(caller('pro'), live)
  while (sum().judged < 1_101) {
    waiting.splice(0).forEach((answer) => answer())
    await new Promise((resolve) => setImmediate(resolve))
  }
  expect(again).toBeDefined()
  expect(refusedOf(sum())).toBe(100)
  await shadow.drain()
})
