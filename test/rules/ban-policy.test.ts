import { assert, integer, nat, property, record } from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  formatBan,
  isBanEarned,
  isBanned,
  isForgotten,
  isSameWindow,
  isStrike,
  mergeBans,
  nextBan,
  parseBan,
  strikesUntilBan,
  type BanRecord,
} from '../../src/rules/ban-policy.ts'

const minute = 60_000
const hour = 60 * minute
const policy = {
  strikes: 60,
  withinMs: minute,
  graceMs: 1000,
  durationMs: minute,
  growth: 2,
  maxDurationMs: 24 * hour,
  forgetAfterMs: 24 * hour,
}

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

describe('isStrike', () => {
  it('begins after the grace period, not with its last millisecond', () => {
    const at = (nowMs: number) => isStrike({ nowMs, firstRefusedAtMs: 5000, graceMs: 1000 })
    expect([at(5000), at(6000), at(6001)]).toEqual([false, false, true])
  })
})

describe('strikesUntilBan', () => {
  it.each([
    // strikes, within, after ms, so many ban
    [60, minute, 0, 60],
    [60, minute, 999, 60],
    [60, minute, 1000, 60],
    [60, minute, 2000, 61],
    [60, minute, 30_000, 75],
    [60, minute, 60_000, 90],
    [60, minute, 61_000, 90],
    [5, 10_000, 3999, 5],
    [5, 10_000, 4000, 6],
    [1, minute, 59_999, 1],
  ])('of %d within %d ms are, after %d ms, %d', (strikes, withinMs, forMs, expected) => {
    expect(strikesUntilBan(forMs, { strikes, withinMs })).toBe(expected)
  })

  /** Strikes at these seconds, each so many times: the second at which they ban. */
  const bannedAt = (seconds: readonly number[], times = 1): number | undefined =>
    seconds.find((second, at) =>
      isBanEarned({ total: (at + 1) * times, forMs: (second - (seconds[0] ?? 0)) * 1000 }, policy),
    )
  const pace = (perSecond: number, seconds: number): number[] =>
    Array.from({ length: perSecond * seconds }, (_, at) => at / perSecond)

  it.each([
    ['eight loops that back off', [0, 1, 3, 7, 15, 31], 8, undefined],
    ['and begin anew at 15 s', [0, 1, 3, 7, 15, 16, 18, 22, 30, 46], 8, undefined],
    ['and begin anew at 31 s', [0, 1, 3, 7, 15, 32, 34, 38, 46], 8, undefined],
    ['a request a second', pace(1, 60), 1, undefined],
    ['two requests a second', pace(2, 60), 1, 39],
    ['ten requests a second', pace(10, 60), 1, 6.2],
    ['a flood', [0], 60, 0],
  ])('ban %s at the right time', (_, seconds, times, expected) => {
    expect(bannedAt(seconds, times)).toBe(expected)
  })
})

describe('isSameWindow', () => {
  it('takes rounded ends for one window and neighbouring minutes for two', () => {
    expect(isSameWindow(60_000, 61_500)).toBe(true)
    expect(isSameWindow(60_000, 120_000)).toBe(false)
  })
})

describe('mergeBans', () => {
  const ban = record({
    startedMs: nat(1000),
    lastsMs: nat(200),
    count: integer({ min: 1, max: 5 }),
  }).map(({ startedMs, lastsMs, count }) => ({ startedMs, untilMs: startedMs + lastsMs, count }))

  it('does not depend on which of the two is known first, and a repeat changes nothing', () => {
    assert(
      property(ban, ban, (one, other) => {
        const merged = mergeBans(one, other, 10_000)
        expect(mergeBans(other, one, 10_000)).toEqual(merged)
        expect(mergeBans(merged, one, 10_000)).toEqual(merged)
        expect(merged.untilMs).toBe(Math.max(one.untilMs, other.untilMs))
        expect(merged.count).toBe(Math.max(one.count, other.count))
      }),
    )
  })

  it('lets a forgotten ban not raise the count of a new one', () => {
    const old = { startedMs: 0, untilMs: 100, count: 5 }
    const fresh = { startedMs: 200, untilMs: 300, count: 1 }
    expect(mergeBans(old, fresh, 100)).toEqual(fresh)
    expect(mergeBans(old, fresh, 101).count).toBe(5)
  })
})

describe('parseBan', () => {
  it('reads what formatBan writes', () => {
    const ban = { untilMs: 1_790_000_000_000, count: 3, startedMs: 1_789_999_000_000 }
    expect(parseBan(formatBan(ban))).toEqual(ban)
  })

  it.each([
    '',
    'nonsense',
    'null',
    '[]',
    '7',
    '{}',
    '{"untilMs":"9","count":1,"startedMs":0}',
    '{"untilMs":9,"count":0,"startedMs":0}',
    '{"untilMs":9,"count":1.5,"startedMs":0}',
    '{"untilMs":1e300,"count":1,"startedMs":0}',
    '{"untilMs":9,"count":1,"startedMs":-1}',
    '{"untilMs":9,"count":1,"startedMs":10}',
  ])('takes %s for no ban', (text) => {
    expect(parseBan(text)).toBeUndefined()
  })
})
