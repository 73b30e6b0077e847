import { describe, expect, it } from 'vitest'
import { StoreClock } from '../../src/state/store-clock.ts'

const HOUR_MS = 3_600_000
/** The true Unix time when a process begins. */
const BEGAN_MS = 1_790_000_000_000

/** A process that began a minute ago by its monotonic clock; its Unix clock is ahead by so much. */
function begin(aheadMs = 0) {
  let nowMs = 60_000
  let epochAheadMs = aheadMs
  const clock = new StoreClock({
    nowMs: () => nowMs,
    epochMs: () => BEGAN_MS + nowMs - 60_000 + epochAheadMs,
  })
  return {
    clock,
    pass: (ms: number) => void (nowMs += ms),
    step: (ms: number) => void (epochAheadMs += ms),
  }
}

describe('the clock of the store, at a process', () => {
  it('is that of the machine until the store has said its time', () => {
    const { clock, pass } = begin(HOUR_MS)
    pass(10)
    expect(clock.nowMs()).toBe(BEGAN_MS + HOUR_MS + 10)
    expect(clock.at(BEGAN_MS + 5.002)).toBe(BEGAN_MS + 5)
  })

  it.each([HOUR_MS, 0, -HOUR_MS])('goes by the store alone then, %d ms off as it may be', (ms) => {
    const { clock, pass, step } = begin(ms)
    clock.set(BEGAN_MS + 0.4, 0)
    pass(5_000)
    step(-3 * HOUR_MS)
    expect(clock.nowMs()).toBe(BEGAN_MS + 5_000)
    expect(clock.at(BEGAN_MS + 5_000 + ms - 3 * HOUR_MS - 20)).toBe(BEGAN_MS + 4_980)
  })

  it.each([
    // The store said its time so long before the end of a call that took so long.
    ['a reply that was late changes nothing', 9_000, 10_000, 0],
    ['nor one that took its time on the way there', 0, 10_000, 0],
    ['one that shows that it is behind sets it forward', -500, 0, 500],
    [
      'one that shows that it is ahead sets it back, by no more than is certain',
      2_000,
      700,
      -1_300,
    ],
    ['a clock of the store that was set back is followed', HOUR_MS, 0, -HOUR_MS],
  ])('%s', (_, agoMs, tookMs, changeMs) => {
    const { clock, pass } = begin()
    clock.set(BEGAN_MS, 0)
    pass(60_000)
    const before = clock.nowMs()
    clock.set(before - agoMs, tookMs)
    expect(clock.nowMs() - before).toBe(changeMs)
  })
})
