import { array, assert, constantFrom, integer, nat, property, record } from 'fast-check'
import { describe, expect, it } from 'vitest'
import { endsAtSeconds, imposedBan, isBanEarned } from '../../../src/core/rules/ban-policy.ts'
import { isBanned, isForgotten, isLift, isSameWindow } from '../../../src/core/rules/ban-policy.ts'
import { liftOf, mergeBans, nextBan } from '../../../src/core/rules/ban-policy.ts'
import type { BanRecord } from '../../../src/state/bans.ts'
import { banPolicy } from '../../support/strike-counter.ts'

const minute = 60_000
const hour = 60 * minute
const policy = { ...banPolicy, strikes: 60 }

describe('nextBan', () => {
  it('doubles from ban to ban and stops at the longest duration', () => {
    let ban: BanRecord | undefined
    let nowMs = 1_000_000
    const minutes: number[] = []
    for (let i = 0; i < 13; i++) {
      ban = nextBan(ban, nowMs, policy)
      minutes.push((ban.untilMs - nowMs) / minute)
      expect(ban).toMatchObject({ count: i + 1, startedMs: nowMs })
      nowMs = ban.untilMs
    }
    expect(minutes).toEqual([1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1440, 1440])
  })

  it('begins anew once forgetAfter has passed since the end of the last ban, not since its start', () => {
    const long = { ...policy, durationMs: 20 * hour, forgetAfterMs: 10 * hour }
    const first = nextBan(undefined, 0, long)
    expect(nextBan(first, 30 * hour - 1, long).count).toBe(2)
    expect(nextBan(first, 30 * hour, long).count).toBe(1)
  })

  it('stays finite however high the count is', () => {
    const previous = { untilMs: 10, count: 1_000_000, startedMs: 0 }
    expect(nextBan(previous, 10, policy).untilMs).toBe(10 + 24 * hour)
  })

  it('never lasts longer than maxDuration, even the first time', () => {
    expect(nextBan(undefined, 0, { ...policy, maxDurationMs: 5 }).untilMs).toBe(5)
  })

  it('ends on a whole millisecond with a growth that is not whole', () => {
    const ban = nextBan({ untilMs: 0, count: 1, startedMs: 0 }, 7, { ...policy, growth: 1.0001 })
    expect(ban.untilMs).toBe(7 + 60_006)
  })
})

describe('isBanned and isForgotten', () => {
  it('hold to the millisecond', () => {
    const ban = { untilMs: 100, count: 1, startedMs: 0 }
    expect([isBanned(ban, 99), isBanned(ban, 100)]).toEqual([true, false])
    expect([isForgotten(ban, 149, 50), isForgotten(ban, 150, 50)]).toEqual([false, true])
  })
})

describe('isBanEarned', () => {
  it('begins with the strike that the setting names', () => {
    const earned = [0, 4, 5, 6].map((total) => isBanEarned(total, { strikes: 5 }))
    expect(earned).toEqual([false, false, true, true])
  })
})

describe('endsAtSeconds', () => {
  it('is the first whole second in which the ban does not hold', () => {
    expect([10_000, 10_001, 10_999].map((untilMs) => endsAtSeconds({ untilMs }))).toEqual([
      10, 11, 11,
    ])
  })
})

describe('isSameWindow', () => {
  it('takes rounded ends for one window and neighbouring minutes for two', () => {
    expect(isSameWindow(60_000, 61_500)).toBe(true)
    expect(isSameWindow(60_000, 120_000)).toBe(false)
  })
})

describe('mergeBans', () => {
  it('lets a forgotten ban not raise the count of a new one', () => {
    const old = { startedMs: 0, untilMs: 100, count: 5 }
    const fresh = { startedMs: 200, untilMs: 300, count: 1 }
    expect(mergeBans(old, fresh, 100)).toEqual(fresh)
    expect(mergeBans(old, fresh, 101)).toMatchObject({ untilMs: 300, count: 5 })
    const longer = { ...old, untilMs: 400 }
    expect(mergeBans(fresh, longer, 101)).toMatchObject({ untilMs: 400, count: 5 })
  })
})

describe('acts of operators', () => {
  const at = (nowMs: number) => ({ nowMs, forgetAfterMs: hour })
  const forMs = 10 * minute
  const strikes = nextBan(undefined, 1_000, policy)

  it('impose a ban of any length, without growth for the next one', () => {
    const longer = imposedBan(strikes, { forMs, reason: 'scraping' }, at(2_000))
    expect(longer).toEqual({
      untilMs: 2_000 + forMs,
      count: 1,
      startedMs: 2_000,
      epochMs: 2_000,
      by: 'operator',
      reason: 'scraping',
    })
    expect(nextBan(longer, longer.untilMs, policy).count).toBe(2)
    const first = imposedBan(undefined, { forMs, reason: undefined }, at(2_000))
    expect(nextBan(first, first.untilMs, policy)).toMatchObject({ count: 1, epochMs: 2_000 })
  })

  it('shorten a ban and lengthen it, whoever made it', () => {
    const shorter = imposedBan(strikes, { forMs: 1, reason: undefined }, at(2_000))
    const longer = imposedBan(shorter, { forMs, reason: undefined }, at(2_000))
    expect(mergeBans(strikes, shorter, hour)).toBe(shorter)
    expect(mergeBans(longer, mergeBans(strikes, shorter, hour), hour)).toBe(longer)
    // Two within one millisecond.
    expect([shorter.epochMs, longer.epochMs]).toEqual([2_000, 2_001])
  })

  it('lift a ban for every clock at once, with its growth, and what knows nothing of it does not bring it back', () => {
    const known = { ...strikes, count: 7 }
    const lift = liftOf(known, 5_000)
    expect([isLift(lift), isBanned(lift, 4_000), isLift(known)]).toEqual([true, false, false])
    const unaware = nextBan(known, 5_500, policy)
    expect(mergeBans(unaware, lift, hour)).toBe(lift)
    const aware = nextBan(lift, 5_500, policy)
    expect(aware.count).toBe(1)
    expect(mergeBans(lift, aware, hour)).toMatchObject({ untilMs: aware.untilMs, count: 1 })
  })

  it('are above all that is known, by a clock that is behind, too', () => {
    expect(liftOf({ ...strikes, epochMs: 9_000 }, 5_000).epochMs).toBe(9_001)
  })

  it('are told to latecomers for a day, and have no say in what comes later', () => {
    const lift = liftOf(strikes, 5_000)
    expect(isForgotten(lift, 5_000 + 24 * hour - 1, 1_000)).toBe(false)
    const later = nextBan(undefined, 5_000 + 24 * hour, policy)
    expect(mergeBans(lift, later, 1_000)).toBe(later)
  })

  /** What happens to one key, each step known to whoever makes the next or not. */
  const step = record({
    kind: constantFrom('strikes', 'impose', 'lift'),
    knows: nat(9),
    afterMs: nat(90_000),
    forMs: integer({ min: 1_000, max: 3_600_000 }),
  })
  it('end in the same for all, in whatever order they hear of them and how often, and the last one that knew of all before it holds', () => {
    assert(
      property(array(step, { minLength: 1, maxLength: 8 }), nat(), (steps, seed) => {
        const made: BanRecord[] = []
        const all = (bans: readonly BanRecord[]): BanRecord | undefined =>
          bans.reduce<BanRecord | undefined>(
            (one, other) => (one ? mergeBans(one, other, 1_000 * hour) : other),
            undefined,
          )
        let nowMs = 1_000_000
        for (const { kind, knows, afterMs, forMs: lastsMs } of steps) {
          nowMs += afterMs
          const known = all(made.slice(0, knows))
          if (kind === 'strikes') made.push(nextBan(known, nowMs, policy))
          else if (kind === 'impose')
            made.push(imposedBan(known, { forMs: lastsMs, reason: undefined }, at(nowMs)))
          else if (known) made.push(liftOf(known, nowMs))
        }
        const merged = all(made)
        if (merged === undefined) return
        const turned = made.map((_, index) => made[(index + (seed % made.length)) % made.length])
        const twice = [...turned.toReversed(), ...made].filter((ban) => ban !== undefined)
        expect(all(twice)).toEqual(merged)
        // In two groups, as two processes that then hear of each other.
        const [some, others] = [made.filter((_, index) => (seed >> index) & 1), made]
        expect(all([all(others), ...some].filter((ban) => ban !== undefined))).toEqual(merged)
        const lift = liftOf(merged, nowMs)
        expect(all([...twice, lift, ...twice])).toBe(lift)
      }),
    )
  })
})
