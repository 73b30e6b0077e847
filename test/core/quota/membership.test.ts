/** Shares of a limit, from what processes tell each other through an authority. */
import * as fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Membership } from '../../../src/core/quota/membership.ts'
import { createMemoryAuthority } from '../../../src/state/memory/authority.ts'
import { createTimeline } from './lessee-harness.ts'

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
