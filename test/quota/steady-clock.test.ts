import { describe, expect, it } from 'vitest'
import { createMemoryAuthority } from '../../src/quota/authorities/memory.ts'
import { Lessee } from '../../src/quota/lessee/lessee.ts'
import { createSteadyClock } from '../../src/rules/steady-clock.ts'
import { START_MS } from '../support/controlled-authority.ts'
import { createTimeline } from './lessee-harness.ts'

describe('the clock of leases', () => {
  it.each([
    ['time passes', [[1000, 1000]], 1000],
    ['the machine is suspended for an hour', [[0, 3_600_000]], 3_600_000],
    [
      'the Unix clock is set back and forward again',
      [
        [5, -9_999_995],
        [5, 10_000_005],
      ],
      10_000_010,
    ],
    [
      'the Unix clock is slewed by little',
      [
        [1000, 1003],
        [1000, 1000],
      ],
      2000,
    ],
  ])('when %s', (_, steps, passedMs) => {
    const time = { monotonicMs: 7.25, epochMs: START_MS }
    const nowMs = createSteadyClock({
      monotonicMs: () => time.monotonicMs,
      epochMs: () => time.epochMs,
    })
    const beganMs = nowMs()
    let lastMs = beganMs
    for (const [monotonicMs = 0, epochMs = 0] of steps) {
      time.monotonicMs += monotonicMs
      time.epochMs += epochMs
      expect(nowMs()).toBeGreaterThanOrEqual(lastMs)
      lastMs = nowMs()
    }
    expect(lastMs - beganMs).toBe(passedMs)
  })

  it('ends a lease whose minute passed while the machine was suspended', async () => {
    const timeline = createTimeline()
    let suspendedMs = 0
    const epochMs = (): number => timeline.time.ms
    const nowMs = createSteadyClock({ monotonicMs: () => timeline.time.ms - suspendedMs, epochMs })
    const memory = createMemoryAuthority({ clock: { epochMs } })
    const lessee = new Lessee({
      authority: { take: async (request) => memory.take(request), close: () => memory.close() },
      processId: 'p',
      clock: { nowMs, epochMs },
      timers: timeline.timers,
      outage: 'local',
    })
    const limits = { perMinute: 600, perDay: 60_000 }
    for (let n = 0; n < 60; n++) {
      await lessee.take('acme', limits)
      await timeline.pass(50)
    }
    expect(lessee.take('acme', limits)).not.toBeInstanceOf(Promise)
    timeline.time.ms += 60_000
    suspendedMs += 60_000
    expect(await lessee.take('acme', limits)).toMatchObject({
      kind: 'admitted',
      minuteIndex: Math.floor(timeline.time.ms / 60_000),
    })
  })
})
