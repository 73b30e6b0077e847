import { describe, expect, it } from 'vitest'
import { afterLook, NO_LOAD, type Load } from '../../../src/core/rules/overload.ts'

const LIMIT_MS = 200
const calm = (looks: number) => Array<number>(looks).fill(1)
const forty = (lateMs: number) => Array<number>(40).fill(lateMs)
const after = (latenessesMs: readonly number[], arrivals = { keyed: 100, others: 0 }): Load =>
  latenessesMs.reduce((load, lateMs) => afterLook(load, { lateMs, ...arrivals }, LIMIT_MS), NO_LOAD)

describe('overload', () => {
  it.each([
    ['of no lateness', calm(20), 'nothing'],
    ['of two late looks', [900, 900], 'nothing'],
    ['of one pause, however long, in the middle of calm', [1, 1, 60_000, 60_000, 1], 'nothing'],
    ['at the limit', [200, 200, 200], 'nothing'],
    ['beyond it', [201, 300, 250], 'anonymous'],
    ['beyond it, with looks in time between', [250, 1, 1, 250, 1, 1, 250], 'anonymous'],
    ['beyond it, but seldom', [250, ...calm(4), 250, ...calm(4), 250], 'nothing'],
    ['at twice the limit', [400, 500, 600], 'anonymous'],
    ['beyond that', [401, 500, 600], 'everything'],
    ['beyond that, where less was refused before', [250, 250, 250, 500, 500, 500], 'everything'],
    ['while it goes on', forty(500), 'everything'],
  ] as const)('%s refuses what is due', (_, latenesses, shed) => {
    expect(after(latenesses).shed).toBe(shed)
  })

  it.each([
    ['not before half a second of calm', calm(9), 'everything'],
    ['by one step after it', calm(10), 'anonymous'],
    ['and by the next after another', calm(20), 'nothing'],
    ['and stays there', calm(100), 'nothing'],
    ['not while looks in between are late', [...calm(9), 300, ...calm(9)], 'everything'],
    ['by one step while less than half of twice the limit', forty(150), 'anonymous'],
    ['not at all while the lag stays between', forty(300), 'everything'],
  ] as const)('takes back what is refused %s', (_, latenesses, shed) => {
    expect(after([500, 500, 500, ...latenesses]).shed).toBe(shed)
  })

  it.each([
    ['their own load', { keyed: 784, others: 100 }, 'everything'],
    ['that of requests without one, or of handshakes', { keyed: 783, others: 100 }, 'anonymous'],
    ['that of nobody who is counted', { keyed: 0, others: 0 }, 'everything'],
    ['a few others', { keyed: 0, others: 2 }, 'everything'],
  ] as const)('refuses who has a valid credential or not for %s', (_, arrivals, shed) => {
    expect(after([500, 500, 500, 500], arrivals).shed).toBe(shed)
  })

  it('refuses them no more once the load is that of others', () => {
    const look = { lateMs: 500, keyed: 10, others: 100 }
    expect(afterLook(after([500, 500, 500]), look, LIMIT_MS).shed).toBe('anonymous')
  })

  it('tells the lateness that came time and again', () => {
    expect(after([70, 900, 80, 90, 1, 1]).lagMs).toBe(80)
  })
})
