import { describe, expect, it } from 'vitest'
import { createMemoryCounter } from '../../src/counters/memory-counter.ts'

describe('the counter of one process', () => {
  it.each([
    ['adds up for its lifetime', [0, 400, 999], [1, 2, 3]],
    ['begins anew when that is over', [0, 1000, 1001], [1, 1, 2]],
    [
      'begins anew after a clock that was set back by more than that',
      [5000, 4000, 3999],
      [1, 1, 2],
    ],
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
    counter.reset('a')
    expect(counter.add('a', 1, 300)).toEqual({ total: 1, forMs: 0 })
    counter.useLifetime(100)
    expect(counter.add('b', 1, 500)).toEqual({ total: 2, forMs: 200 })
    expect(counter.add('c', 1, 500).total + counter.add('c', 1, 600).total).toBe(2)
  })
})
