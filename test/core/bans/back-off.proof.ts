import { expect, it } from 'vitest'
import { expectNeverBanned, recordSchedules } from './back-off.ts'

it('eight loops that back off from one second are never banned', async () => {
  const recorded = await recordSchedules()
  expect(recorded.size).toBe(6)
  for (const schedules of recorded.values())
    expectNeverBanned(schedules, {
      perMinute: [0, 1, 5, 20, 60, 300],
      spacingMs: [0, 250, 1_300, 7_700],
      phaseMs: 2_900,
      latencyMs: [4, 60],
    })
})
