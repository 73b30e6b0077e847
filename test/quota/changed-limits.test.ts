/** Limits that change while tokens are leased: the new ones act on the next request, in every process, also on what is in hand. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Limits, OutageMode } from '../../src/config/config.ts'
import { Lessee } from '../../src/quota/lessee/lessee.ts'
import type { QuotaDecision } from '../../src/quota/protocol.ts'
import { controlledMemoryAuthority } from '../support/controlled-authority.ts'
import { atOnce, createNetwork, createTestLessee, createTimeline } from './lessee-harness.ts'
import { ipcWorld, redisWorld, virtualWorld, type World } from './lessee-worlds.ts'

const of = (perMinute: number, perDay = 100_000): Limits => ({ perMinute, perDay })

interface Case {
  readonly title: string
  readonly before: Limits
  /** So many requests of each process are admitted; all hold tokens besides. */
  readonly used: readonly [number, number, number]
  readonly after: Limits
  /** Requests of the last process after the others have the new limits, and before it has them, too. */
  readonly late?: number
  /** So many more of all processes are admitted, once all have the new limits where they are lower. */
  readonly more: number
}

const cases: readonly Case[] = [
  { title: 'below what is used', before: of(60), used: [0, 12, 0], after: of(5), more: 0 },
  { title: 'to what is used', before: of(60), used: [1, 4, 0], after: of(5), more: 0 },
  { title: 'above what is used', before: of(60), used: [1, 2, 0], after: of(5), more: 2 },
  { title: 'of the day, below', before: of(60, 999), used: [0, 0, 12], after: of(4, 5), more: 0 },
  { title: 'of the day, above', before: of(60, 999), used: [2, 1, 0], after: of(5, 5), more: 2 },
  { title: 'to one with leases', before: of(600), used: [0, 40, 0], after: of(48), more: 8 },
  { title: 'host by host', before: of(60), used: [1, 1, 1], after: of(5), late: 20, more: 0 },
  { title: 'up', before: of(48), used: [5, 3, 2], after: of(50), more: 40 },
  { title: 'up when used up', before: of(5), used: [2, 2, 1], after: of(60), more: 55 },
  { title: 'up host by host', before: of(5), used: [2, 1, 1], after: of(20), late: 9, more: 16 },
]

describe.each([
  { where: 'in virtual time', open: virtualWorld },
  { where: 'on a real Redis', open: redisWorld },
  { where: 'of workers', open: ipcWorld },
])('limits $where that change', ({ open }) => {
  let world: World
  let lessees: Lessee[]
  let calls = 0
  beforeAll(async () => {
    world = await open()
    const { clock, timers } = world
    const boot = async (processId: string): Promise<Lessee> => {
      const authority = await world.authority()
      const take: typeof authority.take = (request) => {
        calls += 1
        return authority.take(request)
      }
      const counted = { ...authority, take }
      return new Lessee({ authority: counted, processId, clock, timers, outage: 'closed' })
    }
    lessees = await Promise.all(['a', 'b', 'c'].map(boot))
    // Every process meets every client; a second later it may lease.
    for (const { title, before } of cases) for (const one of lessees) await hold(one, title, before)
    await world.pass(1100)
  }, 30_000)
  afterAll(() => world.close())

  const ask = async (lessee: Lessee, client: string, limits: Limits): Promise<QuotaDecision> => {
    const decided: QuotaDecision[] = []
    void Promise.resolve(lessee.take(client, limits)).then((decision) => decided.push(decision))
    for (;;) {
      await world.pass(2)
      const [decision] = decided
      if (decision !== undefined) return decision
    }
  }
  /** A request whose charge is handed back, so that the process holds a token. */
  const hold = async (lessee: Lessee, client: string, limits: Limits): Promise<void> => {
    const decision = await ask(lessee, client, limits)
    if (decision.kind === 'admitted') lessee.refund(client, decision)
  }
  const expectTrue = (decision: QuotaDecision, { perMinute, perDay }: Limits): void => {
    const view = decision.kind === 'unavailable' ? undefined : decision.view
    expect(view).toMatchObject({ minute: { limit: perMinute }, day: { limit: perDay } })
    for (const { limit, remaining } of view ? [view.minute, view.day] : []) {
      expect(remaining).toBeGreaterThanOrEqual(0)
      expect(remaining).toBeLessThanOrEqual(limit)
    }
  }

  it.each(cases)('$title act at once', async ({ title, before, used, after, late = 0, more }) => {
    for (const [at, lessee] of lessees.entries())
      for (let n = 0; n < (used[at] ?? 0); n++)
        expect((await ask(lessee, title, before)).kind).toBe('admitted')
    for (const lessee of lessees) await hold(lessee, title, before)
    const isRaised = after.perMinute > before.perMinute
    let admitted = 0
    const next = async (lessee: Lessee | undefined, limits = after): Promise<boolean> => {
      if (lessee === undefined) throw new Error('there are three')
      const decision = await ask(lessee, title, limits)
      expectTrue(decision, limits)
      admitted += decision.kind === 'admitted' ? 1 : 0
      return decision.kind === 'admitted'
    }
    for (const lessee of late > 0 ? lessees.slice(0, 2) : []) await next(lessee)
    for (let n = 0; n < late; n++) await next(lessees[2], before)
    if (late > 0 && !isRaised) admitted = 0
    if (isRaised)
      for (const lessee of lessees) {
        calls = 0
        expect(await next(lessee)).toBe(true)
        expect(calls).toBeLessThanOrEqual(1)
      }
    // What others hold comes back soon, on a machine that is busy, too.
    const endMs = performance.now() + 5000
    const isAwaited = (): boolean => admitted < more && performance.now() < endMs
    for (let n = 0; isAwaited(); n++) await next(lessees[n % 3])
    for (let n = 0; n < 12; n++) expect(await next(lessees[n % 3])).toBe(false)
    expect(admitted).toBe(more)
  })
})

describe('limits that change while the authority is away', () => {
  it.each<{ mode: OutageMode; before: Limits; others: number; after: Limits; sum: number }>([
    { mode: 'local', before: of(60), others: 0, after: of(5), sum: 4 },
    { mode: 'local', before: of(60), others: 12, after: of(20), sum: 7 },
    { mode: 'local', before: of(60), others: 12, after: of(5), sum: 0 },
    { mode: 'local', before: of(60, 999), others: 12, after: of(20, 14), sum: 1 },
    { mode: 'local', before: of(5), others: 5, after: of(21), sum: 16 },
    { mode: 'closed', before: of(60), others: 0, after: of(5), sum: 0 },
    { mode: 'open', before: of(60), others: 0, after: of(5), sum: 80 },
  ])(
    '$mode: from $before.perMinute to $after.perMinute with $others used by others, $sum in all',
    async ({ mode, before, others, after, sum }) => {
      const timeline = createTimeline()
      const authority = controlledMemoryAuthority(timeline.time)
      const networks = [1, 2, 3].map(() => createNetwork(authority, timeline))
      const [leaver, ...lessees] = networks.map((network, at) =>
        createTestLessee(network, timeline, { processId: `p${at}`, outage: mode }),
      )
      await timeline.pass(2500)
      for (let n = 0; n < others; n++) await leaver?.take('acme', before)
      await leaver?.drain()
      await timeline.pass(8000)
      // What each hands back looks taken to the others until the authority hears of it with the next call.
      for (const lessee of [...lessees, ...lessees, ...lessees]) {
        const decision = await lessee.take('acme', before)
        if (decision.kind === 'admitted') lessee.refund('acme', decision)
        await timeline.pass(1)
      }
      for (const network of networks) network.state = 'away'
      let admitted = 0
      for (const lessee of lessees)
        for (let n = 0; n < 40; n++)
          admitted += atOnce(lessee.take('acme', after)).kind === 'admitted' ? 1 : 0
      expect(admitted).toBe(sum)
    },
  )
})
