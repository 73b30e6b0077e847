/** Limits that are only tried, simulated: they would refuse just what they refuse where they are live, and what is live does not feel them. */
import { expect, it } from 'vitest'
import type { Limits, OutageMode } from '../../src/config/config.ts'
import { PLAN, playShadow, shadowSchedule, type Kind } from './shadow-world.ts'

const tight: Limits = { perMinute: 40, perDay: 60 }
const wide: Limits = { perMinute: 100_000, perDay: 1_000_000 }
const tighter: Limits = { perMinute: 25, perDay: 40 }
const modes: readonly OutageMode[] = ['local', 'open', 'closed']
const SCHEDULES = 10
const PER_SECOND = 4

const countOf = (words: readonly (string | undefined)[], word: string): number =>
  words.filter((one) => one === word).length

it.each<Kind>(['embedded', 'workers', 'hosts'])(
  'of the kind %s',
  async (kind) => {
    const seen = { minute: 0, day: 0, admitted: 0, unavailable: 0 }
    for (let seed = 1; seed <= SCHEDULES; seed++) {
      const schedule = shadowSchedule(seed, kind, PER_SECOND)
      const live = seed % 2 === 0 ? wide : tighter
      const mode = modes[(seed >> 1) % 3] ?? 'local'
      const without = await playShadow(schedule, { live, mode, network: 'live' })
      const beside = await playShadow(schedule, { live, mode, tried: tight, network: 'live' })
      const { refunded } = without
      const judge = { live: tight, mode: 'closed', network: 'tried', refunded } as const
      const alone = await playShadow(schedule, judge)
      expect(beside.decisions.live, `live, seed ${seed}`).toEqual(without.decisions.live)
      expect(beside.decisions.tried, `tried, seed ${seed}`).toEqual(alone.decisions.live)
      const { requests, degraded, refusedMinute, refusedDay } = beside.counts.plan(PLAN, 0)
      const words = alone.decisions.live
      for (const word of ['minute', 'day', 'admitted', 'unavailable'] as const)
        seen[word] += countOf(words, word)
      expect([refusedMinute, refusedDay, degraded]).toEqual(
        ['minute', 'day', 'unavailable'].map((word) => countOf(words, word)),
      )
      expect(requests).toBeGreaterThan(200)
    }
    for (const word of ['minute', 'day', 'admitted'] as const)
      expect(seen[word]).toBeGreaterThan(50)
    expect(seen.unavailable > 0).toBe(kind !== 'embedded')
  },
  60_000,
)
