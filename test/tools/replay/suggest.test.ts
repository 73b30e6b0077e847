import { describe, expect, it } from 'vitest'
import { remarks } from '../../../src/cli/replay.ts'
import type { Config, Limits } from '../../../src/config/config.ts'
import { Demand, suggest } from '../../../src/tools/replay/suggest.ts'
import type { ReplayedClient, ReplayReport } from '../../../src/tools/replay/report.ts'

const DAY = Date.parse('2026-11-02T00:00:00Z')
const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

/** In no order: plans are tried from the smallest on. */
const plans: Record<string, Limits | undefined> = {
  pro: { perMinute: 30, perDay: 200 },
  free: { perMinute: 10, perDay: 50 },
  custom: undefined,
  business: { perMinute: 100, perDay: 1_000 },
}
const config = {
  plans: new Map(Object.entries(plans).map(([name, limits]) => [name, { name, limits }])),
} as unknown as Config

/** Of one client: how many at which time. */
type Requests = readonly (readonly [requests: number, atMs: number])[]
type Asking = Readonly<Record<string, { readonly plan: string; readonly requests: Requests }>>

function asked(asking: Asking, share: number, demand = new Demand()) {
  const all = Object.values(asking).flatMap(({ requests }, client) =>
    requests.flatMap(([many, atMs]) => Array.from({ length: many }, () => ({ client, atMs }))),
  )
  for (const { client, atMs } of all.toSorted((one, other) => one.atMs - other.atMs))
    demand.add(client, atMs)
  const clients = Object.entries(asking).map(([client, { plan, requests }]) => {
    const most = (windowMs: number): number => {
      const sums = Map.groupBy(requests, ([, atMs]) => Math.floor(atMs / windowMs))
      return Math.max(0, ...[...sums.values()].map((own) => own.reduce((sum, [n]) => sum + n, 0)))
    }
    const sum = requests.reduce((all, [many]) => all + many, 0)
    return { client, plan, requests: sum, peak: { minute: most(MINUTE_MS), day: most(DAY_MS) } }
  })
  return suggest({ config, demand, clients: clients as unknown as ReplayedClient[], share })
}

/** Refused of one client, as the two windows are defined. */
function refusedOf(requests: Requests, { perMinute, perDay }: Limits): number {
  const used = new Map<string, number>()
  let refused = 0
  for (const [many, atMs] of requests)
    for (let nth = 0; nth < many; nth++) {
      const minute = `m${Math.floor(atMs / MINUTE_MS)}`
      const day = `d${Math.floor(atMs / DAY_MS)}`
      if ((used.get(minute) ?? 0) >= perMinute || (used.get(day) ?? 0) >= perDay) refused += 1
      else for (const key of [minute, day]) used.set(key, (used.get(key) ?? 0) + 1)
    }
  return refused
}

describe('the smallest plan that would not have limited a client', () => {
  const full = Array.from({ length: 5 }, (_, nth) => [10, DAY + nth * MINUTE_MS] as const)
  const atEdge = (many: number, nth: number) => [many, DAY + 59_999 + nth] as const
  it.each<[string, Requests, string | null]>([
    ['at its limits of minute and day', full, 'free'],
    ['one above its minute', [[11, DAY]], 'pro'],
    ['one above its day', [...full, [1, DAY + 5 * MINUTE_MS]], 'pro'],
    ['as much in two minutes that are neighbours', [10, 10].map(atEdge), 'free'],
    ['as much in two days that are neighbours', [...full, [10, DAY + DAY_MS]], 'free'],
    ['300 in a minute, more than an entry holds', [[300, DAY]], null],
    ['100 in a minute', [[100, DAY]], 'business'],
    ['no requests', [], 'free'],
  ])('%s', (_what, requests, plan) => {
    expect(asked({ one: { plan: 'custom', requests } }, 0.01).planOf).toEqual([plan])
  })
})

describe('limits under which a share of the requests is refused', () => {
  let seed = 7
  const random = (below: number): number => {
    seed = (seed * 1_103_515_245 + 12_345) % 2_147_483_648
    return Math.floor((seed / 2_147_483_648) * below)
  }
  const asking: Asking = Object.fromEntries(
    Array.from({ length: 40 }, (_, nth) => {
      const size = 1 + random(60)
      const minutes = Array.from({ length: 30 + random(40) }, () => DAY + random(2_880) * MINUTE_MS)
      const requests = minutes.toSorted((one, other) => one - other)
      const plan = nth % 2 === 0 ? 'pro' : 'business'
      return [`client-${nth}`, { plan, requests: requests.map((atMs) => [1 + random(size), atMs]) }]
    }),
  )
  const refusedIn = (plan: string, limits: Limits): number =>
    Object.values(asking)
      .filter((each) => each.plan === plan)
      .reduce((sum, { requests }) => sum + refusedOf(requests, limits), 0)

  it.each([0, 0.01, 0.2])(
    'keep the proportion, refuse that share and no more, and 2% lower ones refuse more: %s',
    (share) => {
      for (const plan of ['pro', 'business']) {
        const found = asked(asking, share).plans.find((each) => each.plan === plan)
        const { atShare: at, limits, requests = 0 } = found ?? {}
        if (!at || !limits) throw new Error('no limits were found')
        expect(at.perMinute).toBe(
          Math.max(1, Math.round((at.perDay * limits.perMinute) / limits.perDay)),
        )
        expect(at.refused).toBe(refusedIn(plan, at))
        expect(at.share).toBe(at.refused / requests)
        expect(at.share).toBeLessThanOrEqual(share)
        const perDay = Math.floor(at.perDay * 0.98)
        const perMinute = Math.round((perDay * limits.perMinute) / limits.perDay)
        expect(refusedIn(plan, { perMinute, perDay })).toBeGreaterThan(share * requests)
      }
    },
  )

  it('agree with the smallest plans: none of it refuses anything, and the next smaller one does', () => {
    const { planOf } = asked(asking, 0.01)
    const order = ['free', 'pro', 'business']
    Object.values(asking).forEach(({ requests }, client) => {
      const fits = order.find((plan) => {
        const limits = plans[plan]
        return limits !== undefined && refusedOf(requests, limits) === 0
      })
      expect(planOf[client]).toBe(fits ?? null)
    })
    expect(new Set(planOf).size).toBeGreaterThan(2)
  })

  it('are none for a plan whose clients state their own; peaks are told of each', () => {
    const requests = (most: number): Requests => [
      [most, DAY],
      [1, DAY + MINUTE_MS],
    ]
    const own = Array.from({ length: 100 }, (_, nth) => {
      return { plan: 'custom', requests: requests(nth + 1) }
    })
    const peaks = { minute: { p50: 50, p95: 95, p99: 99 }, day: { p50: 51, p95: 96, p99: 100 } }
    const told = { plan: 'custom', limits: null, clients: 100, requests: 5_150 }
    expect(asked(Object.fromEntries(own.entries()), 0.01).plans).toEqual([
      { ...told, peaks, atShare: null },
    ])
  })

  it('are of what fits into memory, whose end is told', () => {
    const each = (nth: number) => [nth < 15 ? 1 : 90, DAY + nth * MINUTE_MS] as const
    const requests = Array.from({ length: 20 }, (_, nth) => each(nth))
    const many: Asking = { one: { plan: 'pro', requests } }
    const { until, planOf } = asked(many, 0.01, new Demand(15))
    expect([until, planOf]).toEqual(['2026-11-02T00:15:00.000Z', ['free']])
    expect(asked(many, 0.01)).toMatchObject({ until: null, planOf: ['business'] })
  })

  it('count the share of what was tried, and suggest nothing to who came later', () => {
    const first = Array.from({ length: 15 }, (_, nth) => [1, DAY + nth * MINUTE_MS] as const)
    const found = asked(
      {
        early: { plan: 'pro', requests: [...first, [450, DAY + 15 * MINUTE_MS]] },
        late: { plan: 'pro', requests: [[1, DAY + 16 * MINUTE_MS]] },
      },
      0.1,
      new Demand(15),
    )
    expect(found.planOf).toEqual(['free', null])
    expect(found.plans[0]?.atShare).toMatchObject({ perDay: 14, refused: 1, share: 1 / 15 })
  })

  it('are said in a pipe, too, to be of a part of the log', () => {
    const report = {
      unknownClients: { requests: 0, names: [] },
      read: { firstUnreadable: null, late: 0, notesDropped: 0, cutOff: [] },
      suggestions: { until: '2026-11-02T00:15:00.000Z' },
    }
    expect([...remarks(report as unknown as ReplayReport)]).toEqual([
      'suggestions: of the log up to 2026-11-02T00:15:00.000Z, more was too much to keep; none of who came later',
    ])
  })
})
