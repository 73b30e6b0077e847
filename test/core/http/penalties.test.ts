/** For how long an address gets HTTP/2 late, and how late. */
import { afterEach, expect, test, vi } from 'vitest'
import { Penalties } from '../../../src/core/http/penalties.ts'

afterEach(() => void vi.useRealTimers())

test('five ends within ten seconds cost ten seconds, those of one address alone', () => {
  const penalties = new Penalties()
  const at = (...times: number[]) => times.forEach((nowMs) => penalties.add('a', nowMs))
  at(0, 1_000, 2_000, 3_000)
  expect(penalties.holds('a', 3_000)).toBe(false)
  at(9_999)
  const held = [9_999, 19_998, 19_999].map((nowMs) => penalties.holds('a', nowMs))
  expect(held).toEqual([true, true, false])
  expect(penalties.holds('b', 9_999)).toBe(false)
  at(20_000, 21_000, 22_000, 23_000)
  expect(penalties.holds('a', 23_000)).toBe(false)
  at(24_000)
  expect(penalties.holds('a', 24_000)).toBe(true)
})

test('ten thousand addresses are remembered, the latest', () => {
  const penalties = new Penalties()
  for (let address = 0; address < 10_001; address++)
    for (let end = 0; end < 5; end++) penalties.add(String(address), 0)
  const held = [0, 1, 10_000].map((address) => penalties.holds(String(address), 1))
  expect(held).toEqual([false, true, true])
})

test('a proxy that speaks for others has no record', () => {
  const penalties = new Penalties()
  for (let end = 0; end < 5; end++) penalties.add('a', 0)
  expect(penalties.holds(undefined, 1)).toBe(false)
})

test('what begins late begins after 300 ms, 50 a second of one address, in the order in which they came', () => {
  vi.useFakeTimers()
  const penalties = new Penalties()
  const begun: string[] = []
  const add = (addressKey: string, name: string) =>
    penalties.beginInTurn(addressKey, () => begun.push(name))
  const leave = ['a1', 'a2', 'a3', 'a4'].map((name) => add('a', name))[1]
  add('b', 'b1')
  vi.advanceTimersByTime(299)
  expect(begun).toEqual([])
  leave?.()
  vi.advanceTimersByTime(1)
  expect(begun).toEqual(['a1', 'b1'])
  vi.advanceTimersByTime(20)
  expect(begun).toEqual(['a1', 'b1', 'a3'])
  for (let more = 0; more < 200; more++) add('a', 'more')
  vi.advanceTimersByTime(1_000)
  expect(begun.filter((name) => name === 'more').length).toBeLessThanOrEqual(50)
  expect(begun.length).toBeGreaterThan(30)
  vi.advanceTimersByTime(10_000)
  expect(begun).toHaveLength(204)
  // Nothing goes on where nobody waits, and the next one does not wait for those before.
  expect(vi.getTimerCount()).toBe(0)
  add('a', 'last')
  vi.advanceTimersByTime(320)
  expect(begun.at(-1)).toBe('last')
})
