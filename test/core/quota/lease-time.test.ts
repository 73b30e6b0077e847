import { describe, expect, it } from 'vitest'
import { LeaseWindow } from '../../../src/core/quota/lease-window.ts'
import { createSteadyClock } from '../../../src/core/rules/steady-clock.ts'
import { MINUTE_MS, windows } from '../../../src/config/time.ts'
import { START_MS } from '../../support/controlled-authority.ts'

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
    const nowMs = createSteadyClock(
      () => time.monotonicMs,
      () => time.epochMs,
    )
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
})

it('a refusal in memory ends with its window, as the authority told last', () => {
  const minute = new LeaseWindow(windows[0])
  const index = Math.floor(START_MS / MINUTE_MS)
  const told = (leftMs: number): void => {
    const window = { index, held: 0, taken: 10, used: 10, resetMs: 0 }
    const nowMs = (index + 1) * MINUTE_MS - leftMs
    const at = { limit: 10, fresh: 0, sentMs: 0, receivedMs: 0 }
    minute.apply({ status: 'short', nowMs, minute: window, day: window, notice: undefined }, at)
  }
  told(30_000)
  minute.refuseUntil(minute.spendUntilMs, 10)
  expect(minute.isRefused(10, 29_000, 0)).toBe(true)
  // The authority's clock was set forward.
  told(28_000)
  expect(minute.isRefused(10, 27_000, 0)).toBe(true)
  expect(minute.isRefused(10, 29_000, 0)).toBe(false)
})
