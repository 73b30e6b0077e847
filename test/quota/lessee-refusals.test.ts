/** Refusals over several processes: never early, next to free, and over as soon as tokens are handed back. In virtual time, and on a real Redis. */
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Limits } from '../../src/config/config.ts'
import { Lessee } from '../../src/quota/lessee/lessee.ts'
import type { Admission, Authority, QuotaDecision } from '../../src/quota/protocol.ts'
import { redisWorld, virtualWorld, type World } from './lessee-worlds.ts'

const CLIENT = 'acme'

describe.each([
  { where: 'in virtual time', open: virtualWorld, perMinute: 120, everyMs: 150, earlyAtMost: 0 },
  // A starved machine may take longer to hand tokens back than a request waits for them; in virtual time none is.
  { where: 'on a real Redis', open: redisWorld, perMinute: 60, everyMs: 50, earlyAtMost: 10 },
])('refusals $where', ({ open, perMinute, everyMs, earlyAtMost }) => {
  let world: World
  let calls = 0
  beforeEach(async () => {
    world = await open()
    calls = 0
  })
  afterEach(() => world.close())

  /** A lessee that says and hears nothing any more once it is dead. */
  const boot = async (name: number) => {
    const authority = await world.authority()
    const member = { isDead: false, lessee: undefined as unknown as Lessee }
    const link: Authority = {
      take: (request) => {
        if (member.isDead) throw new Error('dead')
        calls += 1
        return authority.take(request)
      },
      onNotice: (listener) =>
        authority.onNotice?.((...notice) => {
          if (!member.isDead) listener(...notice)
        }),
      close: () => authority.close(),
    }
    const { clock, timers } = world
    const processId = `p${name}`
    member.lessee = new Lessee({ authority: link, processId, clock, timers, outage: 'closed' })
    return member
  }
  const bootAll = (count: number) =>
    Promise.all(Array.from({ length: count }, (_, name) => boot(name)))
  type Member = Awaited<ReturnType<typeof boot>>

  /** So many requests at once. */
  const burst = ({ lessee }: Member, count: number, of: { client?: string; limits: Limits }) =>
    Array.from({ length: count }, async () => lessee.take(of.client ?? CLIENT, of.limits))
  /** Their decisions, once time has passed. */
  const decided = async (asked: Promise<QuotaDecision>[], ms = 100): Promise<QuotaDecision[]> => {
    await world.pass(ms)
    return Promise.all(asked)
  }
  const refusedOf = (decisions: readonly QuotaDecision[]): number =>
    decisions.filter(({ kind }) => kind === 'refused').length

  it('come to none when six processes are offered exactly the limit in bursts', async () => {
    const members = await bootAll(6)
    const limits = { perMinute, perDay: 100_000 }
    let random = 4711
    const below = (end: number): number => (random = (random * 16_807) % 2_147_483_647) % end
    const left = new Map(Array.from({ length: 8 }, (_, n) => [`client-${n}`, limits.perMinute]))
    let refused = 0
    while ([...left.values()].some((count) => count > 0)) {
      const asked: Promise<QuotaDecision>[] = []
      for (const client of left.keys())
        for (const member of members) {
          const size = Math.min(left.get(client) ?? 0, below(2) * below(9))
          left.set(client, (left.get(client) ?? 0) - size)
          asked.push(...burst(member, size, { client, limits }))
        }
      refused += refusedOf(await decided(asked, everyMs + below(3 * everyMs)))
    }
    expect(refused).toBeLessThanOrEqual(earlyAtMost)
  })

  // Of real time it would take half a minute.
  if (open === virtualWorld)
    it('cost next to no calls, also when tokens were lost with a process', async () => {
      const everybody = await bootAll(3)
      const living = everybody.slice(1)
      const limits = { perMinute: 300, perDay: 100_000 }
      const round = (members: readonly Member[]) =>
        decided(
          members.flatMap((member) => burst(member, 5, { limits })),
          100,
        )
      for (let n = 0; n < 15; n++) await round(everybody)
      for (const member of everybody) member.isDead = !living.includes(member)
      let last: QuotaDecision[] = []
      while (refusedOf(last) < 10) last = await round(living)
      calls = 0
      let refused = 0
      for (let n = 0; n < 100; n++) refused += refusedOf(await round(living))
      expect(refused).toBe(1000)
      expect(calls).toBeGreaterThan(0)
      expect(calls / refused).toBeLessThanOrEqual(0.02)
    })

  it('end within a second when the tokens of others are handed back', async () => {
    const [first, second] = (await bootAll(2)) as [Member, Member]
    const limits = { perMinute: 60, perDay: 100_000 }
    // Both know the client.
    await decided(burst(second, 1, { limits }))
    const admitted = await decided(burst(first, 59, { limits }))
    expect(refusedOf(admitted)).toBe(0)
    expect(refusedOf(await decided(burst(second, 20, { limits })))).toBe(20)
    for (const admission of admitted) first.lessee.refund(CLIENT, admission as Admission)
    await world.pass(1000)
    expect(refusedOf(await decided(burst(second, 59, { limits })))).toBe(0)
    expect(refusedOf(await decided(burst(second, 1, { limits })))).toBe(1)
  })
})
