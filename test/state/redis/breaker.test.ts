import { setImmediate as turn } from 'node:timers/promises'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { StoreBreaker } from '../../../src/state/redis/breaker.ts'

beforeEach(() => void vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] }))
afterEach(() => void vi.useRealTimers())

it('a store that was late is asked by one call at a time: the others wait for its answer, or fail with it', async () => {
  const breaker = new StoreBreaker(
    () => Promise.resolve(),
    () => {},
  )
  breaker.probe()
  await turn()
  const underway: (() => void)[] = []
  const send = () => new Promise<void>((answer) => underway.push(answer))
  const told: string[] = []
  const call = (name: string): void =>
    void breaker.call(send, 100).then(
      () => told.push(`${name} answered`),
      () => told.push(`${name} late`),
    )
  const later = async (ms = 0): Promise<number> => {
    vi.advanceTimersByTime(ms)
    for (let turns = 0; turns < 3; turns++) await turn()
    return underway.length
  }
  for (const name of ['a', 'b']) call(name)
  expect([await later(), await later(100), told]).toEqual([2, 2, ['a late', 'b late']])
  for (const name of ['c', 'd']) call(name)
  expect([await later(), await later(100)]).toEqual([3, 3])
  expect(told.slice(2)).toEqual(['c late', 'd late'])
  for (const name of ['e', 'f', 'g']) call(name)
  expect(await later()).toBe(4)
  underway[3]?.()
  expect([await later(), told.slice(4)]).toEqual([6, ['e answered']])
  for (const answer of underway.slice(4)) answer()
  await later()
  expect(told.slice(5)).toEqual(['f answered', 'g answered'])
  breaker.close()
})
