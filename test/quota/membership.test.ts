/** Shares of a limit, from what processes tell each other through an authority, and what they admit by them without it. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Lessee } from '../../src/quota/lessee/lessee.ts'
import { Membership } from '../../src/quota/lessee/membership.ts'
import { createMemoryAuthority } from '../../src/quota/authorities/memory.ts'
import { controlledMemoryAuthority } from '../support/controlled-authority.ts'
import { atOnce, createNetwork, createTestLessee, createTimeline } from './lessee-harness.ts'

/** Longer than it takes until all know of a process, or of its end. */
const CALM_MS = 8_000
const clients = ['acme', 'a', 'client-1', 'client-2', 'Zoo']
const limits = [1, 2, 3, 5, 6, 7, 60, 100, 1000]

function createWorld() {
  const timeline = createTimeline()
  const clock = { epochMs: () => timeline.time.ms }
  let memory = createMemoryAuthority({ clock })
  let started = 0
  const living: Membership[] = []
  const names = new Map<Membership, string>()
  const killed = new Set<string>()
  const start = (): void => {
    const processId = `process-${started++}`
    const member = new Membership({
      authority: {
        take: memory.take,
        beat: (beat) => {
          if (killed.has(beat.process)) throw new Error('dead')
          return memory.beat(beat)
        },
        close: memory.close,
      },
      timers: timeline.timers,
      processId,
      processes: 1,
      number: 1,
    })
    names.set(member, processId)
    living.push(member)
  }
  const sums = (): number[][] =>
    clients.map((client) =>
      limits.map((limit) => living.reduce((sum, one) => sum + one.shareOf(client)(limit), 0)),
    )
  return {
    timeline,
    living,
    start,
    sums,
    /** The authority forgets everybody. */
    flush: () => void (memory = createMemoryAuthority({ clock })),
    /** It ends: by itself, or without a word. */
    end: (at: number, isKilled: boolean): void => {
      const [member] = living.splice(at % living.length, 1)
      if (member === undefined) return
      if (isKilled) killed.add(names.get(member) ?? '')
      member.leave()
    },
  }
}

describe('the shares of processes that share a limit', () => {
  const events = fc.array(
    fc.record({
      what: fc.constantFrom('start', 'start', 'leave', 'kill', 'flush', 'nothing'),
      which: fc.nat({ max: 5 }),
      thenMs: fc.oneof(fc.integer({ min: 0, max: 1_500 }), fc.integer({ min: 0, max: 9_000 })),
    }),
    { maxLength: 12 },
  )

  it('never sum to more than the limit, whoever comes and goes, and to exactly the limit after a calm', async () => {
    await fc.assert(
      fc.asyncProperty(events, async (drawn) => {
        const world = createWorld()
        world.start()
        const expectAtMost = (): void => {
          for (const sums of world.sums())
            for (const [at, sum] of sums.entries()) expect(sum).toBeLessThanOrEqual(limits[at] ?? 0)
        }
        await world.timeline.pass(10)
        for (const { what, which, thenMs } of drawn) {
          if (what === 'start' && world.living.length < 6) world.start()
          if (what === 'leave' && world.living.length > 1) world.end(which, false)
          if (what === 'kill' && world.living.length > 1) world.end(which, true)
          // Of who starts in the second before a flush or after it nobody hears in time.
          if (what === 'flush') {
            await world.timeline.pass(1_100)
            world.flush()
          }
          // Before its first answer a process knows of nobody.
          await world.timeline.pass(1)
          expectAtMost()
          await world.timeline.pass(what === 'flush' ? thenMs + 1_100 : thenMs)
          expectAtMost()
        }
        await world.timeline.pass(CALM_MS)
        expect(world.sums()).toEqual(clients.map(() => limits))
      }),
      { numRuns: 60 },
    )
  })

  it('give what does not divide to each process in its turn', async () => {
    const world = createWorld()
    for (let at = 0; at < 6; at++) world.start()
    await world.timeline.pass(CALM_MS)
    const wins = world.living.map(
      (member) =>
        Array.from({ length: 600 }, (_, at) => member.shareOf(`client-${at}`)(1)).filter(
          (share) => share === 1,
        ).length,
    )
    expect(wins.reduce((sum, count) => sum + count)).toBe(600)
    for (const count of wins) expect(count).toBeGreaterThan(50)
  })
})

describe('what processes admit without the store, in mode local', () => {
  const scene = async (processes: number) => {
    const timeline = createTimeline()
    const authority = controlledMemoryAuthority(timeline.time)
    const networks = Array.from({ length: processes }, () => createNetwork(authority, timeline))
    const lessees = networks.map((network, at) =>
      createTestLessee(network, timeline, { processId: `p${at}` }),
    )
    await timeline.pass(CALM_MS)
    return { timeline, networks, lessees }
  }
  const own = (perMinute: number) => ({ perMinute, perDay: 10 * perMinute })
  /** Asks each of them for more than the limit; how they answered in all. */
  const askAll = async (lessees: readonly Lessee[], client: string, perMinute: number) => {
    const kinds = { admitted: 0, refused: 0, unavailable: 0 }
    for (const lessee of lessees)
      for (let at = 0; at < perMinute + 2; at++)
        kinds[(await lessee.take(client, own(perMinute))).kind]++
    return kinds
  }

  it.each(limits)(
    'is exactly the limit of %i where all six lose it, minute after minute',
    async (limit) => {
      const { timeline, networks, lessees } = await scene(6)
      for (const network of networks) network.state = 'away'
      for (let minute = 0; minute < 2; minute++) {
        for (const client of clients) {
          const { admitted, refused } = await askAll(lessees, client, limit)
          expect(admitted, client).toBe(limit)
          // Nobody is told that the quota is used up who may have some elsewhere.
          expect(refused > 0, client).toBe(limit === 1)
        }
        timeline.time.ms += 60_000
      }
    },
  )

  it.each([1, 2, 5])(
    'is at most the shares of those that lose it beyond the limit (%i of 6)',
    async (lost) => {
      for (const limit of limits) {
        const { networks, lessees } = await scene(6)
        for (const network of networks.slice(0, lost)) network.state = 'away'
        const { admitted } = await askAll(lessees, 'acme', limit)
        expect(admitted).toBeGreaterThanOrEqual(limit)
        expect(admitted).toBeLessThanOrEqual(limit + Math.ceil(limit / 6) * lost)
      }
    },
  )

  it('is never more than the limit where each has heard what the others took', async () => {
    for (const limit of limits) {
      const { networks, lessees } = await scene(3)
      let admitted = 0
      const ask = async (at: number): Promise<void> => {
        const { kind } = (await lessees[at]?.take('acme', own(limit))) ?? {}
        admitted += kind === 'admitted' ? 1 : 0
      }
      // The first takes most of it, then each hears of it.
      for (let at = 0; at < limit * 0.7; at++) await ask(0)
      for (const at of [1, 2]) await ask(at)
      for (const network of networks) network.state = 'away'
      admitted += (await askAll(lessees, 'acme', limit)).admitted
      expect(admitted).toBeLessThanOrEqual(limit)
    }
  })

  it('is all of it for a process that lives alone, which then refuses for good', async () => {
    const { networks, lessees } = await scene(1)
    for (const network of networks) network.state = 'away'
    const [alone] = lessees
    if (alone === undefined) throw new Error('one lessee')
    const ask = () => atOnce(alone.take('acme', own(5)))
    for (let at = 0; at < 5; at++) expect(ask()).toMatchObject({ kind: 'admitted' })
    expect(ask()).toMatchObject({
      kind: 'refused',
      degraded: true,
      window: 'minute',
    })
  })
})
