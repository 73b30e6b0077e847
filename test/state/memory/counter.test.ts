import { array, assert, nat, property } from 'fast-check'
import { describe, expect, it } from 'vitest'
import { createMemoryCounter, STEPS } from '../../../src/state/memory/counter.ts'

describe('the counter of one process', () => {
  it.each([
    ['adds up what came within the time', [0, 400, 999], [1, 2, 3]],
    ['lets go of each addition when its time is over', [0, 600, 1001, 1602], [1, 2, 2, 2]],
    ['begins anew after a clock that was set back by more', [5000, 4000, 3999], [1, 1, 2]],
    ['goes on after one that was set back by less', [5000, 4001], [1, 2]],
  ])('%s', (_, timesMs, totals) => {
    const counter = createMemoryCounter(1000)
    expect(timesMs.map((nowMs) => counter.add('a', 1, nowMs).total)).toEqual(totals)
  })

  it('says since when, counts each key apart, and forgets what it is told to', () => {
    const counter = createMemoryCounter(1000)
    counter.add('a', 2, 0)
    expect(counter.add('b', 1, 300)).toEqual({ total: 1, forMs: 0 })
    expect(counter.add('a', 1, 300)).toEqual({ total: 3, forMs: 300 })
    expect(counter.add('a', 1, 1100)).toEqual({ total: 2, forMs: 800 })
    counter.reset('a')
    expect(counter.add('a', 1, 1100)).toEqual({ total: 1, forMs: 0 })
    counter.useTime(100)
    expect(counter.add('a', 1, 1150)).toEqual({ total: 2, forMs: 50 })
    expect(counter.add('a', 1, 1250)).toEqual({ total: 2, forMs: 100 })
  })

  it('counts as many as there were within the time, and never more than within a thousandth above', () => {
    const withinMs = 5_000
    assert(
      property(array(nat(700), { minLength: 1, maxLength: 60 }), (gapsMs) => {
        const counter = createMemoryCounter(withinMs)
        const timesMs: number[] = []
        let nowMs = 1_790_000_000_000
        for (const gapMs of gapsMs) {
          timesMs.push((nowMs += gapMs))
          const { total, forMs } = counter.add('a', 1, nowMs)
          const within = (ms: number) => timesMs.filter((atMs) => nowMs - atMs < ms).length
          expect(total).toBeGreaterThanOrEqual(within(withinMs))
          expect(total).toBeLessThanOrEqual(within(withinMs + withinMs / STEPS))
          expect(forMs).toBeLessThanOrEqual(withinMs)
        }
      }),
    )
  })
})
