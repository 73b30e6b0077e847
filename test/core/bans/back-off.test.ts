import { describe, expect, it } from 'vitest'
import { expectNeverBanned, play, recordSchedules } from './back-off.ts'

describe('eight loops that back off from one second', async () => {
  const recorded = await recordSchedules()

  it('wait as is said of them', () => {
    const [first, second] = ['p-retry', 'wait_exponential'].map((name) => recorded.get(name)?.[0])
    expect(first?.slice(0, 6)).toEqual([1000, 2000, 4000, 8000, 16000, 32000])
    expect(second?.slice(0, 5)).toEqual([1000, 2000, 4000, 8000, 16000])
  })

  it.each([...recorded])('as %s does are never banned: a sample', (_, schedules) => {
    const wide = { perMinute: [0, 1, 60], spacingMs: [0, 1_300], phaseMs: 11_700, latencyMs: [4] }
    expectNeverBanned(schedules, wide)
  })
})

it('eight loops that come to two requests a second are banned within a minute', () => {
  const steady = Array.from({ length: 5_000 }, () => 4_000)
  expect(play([steady], { perMinute: 1, spacingMs: 500 })).toBeLessThan(60_000)
})
