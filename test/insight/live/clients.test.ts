/** Who asks most, who is nearest the limits, and who is refused, with time as an argument. */
import { describe, expect, it } from 'vitest'
import { RecentRefusals, SeenClients } from '../../../src/insight/live/seen-clients.ts'
import type { SeenQuery } from '../../../src/insight/live/seen-clients.ts'
import { DeprecatedCallers } from '../../../src/insight/live/deprecated-callers.ts'
import { TopClients } from '../../../src/insight/live/top.ts'
import { row } from './rows.ts'

describe('the top list', () => {
  it.each<['requests' | 'refusals' | 'latency', string[]]>([
    ['requests', ['busy', 'refused', 'slow']],
    ['refusals', ['refused']],
    ['latency', ['slow', 'busy']],
  ])('is ordered by %s', (by, clients) => {
    const top = new TopClients()
    top.add(100, [
      row('slow', { totalMsSum: 900, totalMsMax: 900 }),
      row('busy', { requests: 3, answered: 3, totalMsSum: 6 }),
    ])
    top.add(101, [row('refused', { requests: 2, answered: 0, refusedDay: 2 })])
    top.add(101, [row('busy', { requests: 4, answered: 4, totalMsSum: 8, totalMsMax: 5 })])
    const list = top.top(by, 10_000)
    expect(list).toMatchObject({ by, error: 0, windowMs: 2_000 })
    expect(list.clients.map(({ client }) => client)).toEqual(clients)
    const busy = list.clients.find(({ client }) => client === 'busy')
    if (busy !== undefined) expect(busy).toMatchObject({ requests: 7, meanMs: 2, maxMs: 5 })
    const refused = list.clients.find(({ client }) => client === 'refused')
    if (refused !== undefined)
      expect(refused).toMatchObject({ refused: { day: 2, minute: 0 }, meanMs: null, maxMs: null })
  })

  it('is of whole slices, of no less time than was asked for', () => {
    const top = new TopClients()
    for (let at = 0; at < 1_000; at++) top.add(at, [row('a')])
    for (const [windowMs, told] of [
      [10_000, 10_000],
      [12_000, 15_000],
      [900_000, 900_000],
    ] as const) {
      const { clients, ...list } = top.top('requests', windowMs)
      expect(list.windowMs).toBe(told)
      expect(clients[0]?.requests).toBe(told / 1_000)
    }
  })

  it('forgets what it counted by a clock that was put back', () => {
    const top = new TopClients()
    const requests = () => top.top('requests', 10_000).clients[0]?.requests
    for (const at of [5_000, 4_999]) top.add(at, [row('a')])
    expect(requests()).toBe(2)
    for (let at = 1_000; at < 1_020; at++) top.add(at, [row('a')])
    expect(requests()).toBe(10)
    const refusals = new RecentRefusals()
    for (let at = 5_000; at < 5_300; at++) refusals.add(at, row('a', { refusedDay: 1 }))
    expect(refusals.isNow(1_000)).toBe(false)
    refusals.add(1_000, row('a', { refusedDay: 3 }))
    expect(refusals).toMatchObject({ since: 1_000, last: 1_000 })
    expect(refusals.count(1_001)).toBe(3)
  })

  it('lets nobody go of a few thousand in a second, which would be to sort again and again', () => {
    const top = new TopClients()
    const rows = Array.from({ length: 5_000 }, (_, number) => row(`c-${number}`))
    top.add(0, rows)
    expect(top.top('requests', 10_000).error).toBe(0)
    const callers = new DeprecatedCallers()
    for (let number = 0; number < 5_000; number++) callers.called('a', `c-${number}`, '', 0)
    expect(callers.busiest()).toMatchObject({ calls: { length: 5_000 }, others: 0 })
    expect(callers.take()).toMatchObject({ calls: { length: 1_000 }, others: 4_000 })
  })

  it('counts nobody too high, and nobody lower than by the error that it tells', () => {
    const top = new TopClients()
    const counts = new Map<string, number>()
    for (let at = 0; at < 5; at++) {
      const rows = Array.from({ length: 3_000 }, (_, number) => {
        const client = number < 20 ? `busy-${number}` : `c-${at}-${number}`
        const requests = number < 20 ? 100 + number : 1 + (number % 3)
        counts.set(client, (counts.get(client) ?? 0) + requests)
        return row(client, { requests })
      })
      top.add(at, [row('steady'), ...rows.toReversed()])
    }
    const { clients, error } = top.top('requests', 10_000)
    expect(error).toBeGreaterThan(0)
    expect(error).toBeLessThan(100)
    expect(clients.slice(0, 20).map(({ client }) => client)).toContain('busy-0')
    const steady = clients.find(({ client }) => client === 'steady')
    expect((steady?.requests ?? 0) + error).toBeGreaterThanOrEqual(5)
    for (const { client, requests } of clients.filter((one) => one !== steady)) {
      expect(requests).toBeLessThanOrEqual(counts.get(client) ?? 0)
      expect(requests + error).toBeGreaterThanOrEqual(counts.get(client) ?? 0)
    }
  })
})

/** All are there. */
const asSeen = (_: string, plan: string) => plan
const query = (more: Partial<SeenQuery> = {}): SeenQuery => ({ sort: 'nearest', limit: 3, ...more })
const use = (used: number, limit = 100) => ({
  minuteUsed: used,
  minuteLimit: limit,
  dayUsed: used,
  dayLimit: 1000,
})

describe('clients', () => {
  it('stand where the latest answer saw them, until their window is over', () => {
    const clients = new SeenClients()
    clients.add(59, [row('a', { ...use(90), lastUsedMs: 59_000 })])
    expect(clients.get('a', 59)).toMatchObject({ minute: { used: 90, limit: 100 } })
    expect(clients.get('a', 60)).toMatchObject({ minute: { used: 0, limit: 100 } })
    expect(clients.get('a', 86_400)).toMatchObject({ day: { used: 0, limit: 1000 } })
    expect([59, 60].map((at) => clients.countAbove(0.09, at, asSeen).size)).toEqual([1, 0])
    expect(clients.get('b', 59)).toBe(undefined)
    expect(clients.lastUsedMs('a-1')).toBe(59_000)
    expect(clients.lastUsedMs('b-1')).toBe(undefined)
    clients.add(61, [row('a', use(5)), row('a', use(9))])
    clients.add(62, [row('a', use(7))])
    expect(clients.get('a', 62)?.minute).toEqual({ used: 7, limit: 100 })
    clients.forgetUse('a', ['minute'])
    expect(clients.get('a', 62)).toMatchObject({ minute: null, day: { used: 7 } })
  })

  it.each<[string, Partial<SeenQuery>, string[]]>([
    ['nearest, by the window that is', {}, ['c', 'd', 'e']],
    ['used', { sort: 'used' }, ['e', 'd', 'b']],
    ['refused', { sort: 'refused', limit: 1 }, ['a']],
    ['of one plan', { plan: 'free' }, ['d']],
    ['found by part of an id', { q: 'b' }, ['b']],
  ])('come by pages: %s', (_, more, ids) => {
    const clients = new SeenClients()
    clients.add(10, [row('a', { ...use(1), refusedMinute: 3 }), row('b', use(20))])
    clients.add(10, [row('c', { minuteUsed: 9, dayUsed: NaN, dayLimit: NaN })])
    clients.add(10, [row('d', { ...use(30), plan: 'free' }), row('e', { ...use(5), dayUsed: 250 })])
    expect(clients.page(query(more), 11, asSeen).clients).toEqual(ids)
  })

  it('are refused now while it goes on, with the window and since when', () => {
    const clients = new SeenClients()
    for (let at = 100; at < 110; at++) clients.add(at, [row('a', { refusedMinute: 2 })])
    clients.add(112, [row('b', { refusedDay: 5 }), row('b', { refusedDay: 1, key: 'b-2' })])
    const now = () =>
      clients.refusedNow(112, asSeen).map(({ client, refusals }) => {
        const { by, since } = refusals
        return { client, by, since, perSecond: refusals.perSecond(112) }
      })
    expect(now()).toMatchObject([
      { client: 'a', by: 'minute', since: 100, perSecond: 1.6 },
      { client: 'b', by: 'day', since: 112, perSecond: 0.6 },
    ])
    clients.add(120, [row('a', { refusedDay: 1 })])
    expect(clients.refusedNow(120, asSeen)[1]?.refusals).toMatchObject({ by: 'day', since: 120 })
    expect(clients.refusedNow(131, asSeen)).toEqual([])
  })

  it('are refused since the first of their keys was, by what lasts longest, as often as in ten seconds', () => {
    const refusals = new RecentRefusals()
    const [banned, spent] = [row('a', { refusedBan: 3 }), row('a', { refusedMinute: 2 })]
    for (let at = 100; at < 120; at++)
      for (const one of at % 2 ? [banned, spent] : [spent, banned]) refusals.add(at, one)
    expect([refusals.by, refusals.since, refusals.perSecond(120)]).toEqual(['ban', 100, 5])
    refusals.add(120, spent)
    expect([refusals.by, refusals.since]).toEqual(['minute', 100])
    const once = new RecentRefusals()
    once.add(200, row('a', { refusedDay: 1 }))
    expect([200, 205, 210, 211].map((now) => once.perSecond(now))).toEqual([0.1, 0.1, 0.1, 0])
  })

  it('are remembered for their refusals of five minutes', () => {
    const clients = new SeenClients()
    for (let at = 0; at < 600; at++) clients.add(at, [row('a', { refusedBan: 1 })])
    const lately = (now: number) => clients.get('a', now)?.refusedLately ?? NaN
    expect(lately(599)).toBeGreaterThan(285)
    expect(lately(599)).toBeLessThanOrEqual(300)
    expect(lately(700)).toBeGreaterThan(0)
    expect(lately(905)).toBe(0)
    clients.add(1_000, [row('a', { refusedBan: 1 })])
    expect(lately(1_301)).toBe(0)
  })

  it('are the 100,000 seen last, and a page of them costs one pass', () => {
    const clients = new SeenClients()
    const rows = Array.from({ length: 100_010 }, (_, at) => row(`c-${at}`, use(at % 97)))
    clients.add(10, rows)
    expect(clients.get('c-9', 10)).toBe(undefined)
    expect(clients.get('c-10', 10)).toBeDefined()
    const { clients: page } = clients.page(query({ limit: 50 }), 11, asSeen)
    expect(page).toHaveLength(50)
    expect(page.every((id) => Number(id.slice(2)) % 97 === 96)).toBe(true)
    expect(clients.countAbove(0.95, 11, asSeen)).toEqual(new Map([['pro', 1_031]]))
  })
})
