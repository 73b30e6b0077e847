/** For how long an address gets no new connections. */
import { expect, test } from 'vitest'
import { Penalties } from '../../src/listeners/penalties.ts'

test('five ends within ten seconds cost ten seconds, those of one address alone', () => {
  const penalties = new Penalties()
  const at = (...times: number[]) => times.forEach((nowMs) => penalties.add('a', nowMs))
  at(0, 1_000, 2_000, 3_000)
  expect(penalties.holds('a', 3_000)).toBe(false)
  at(9_999)
  expect([9_999, 19_998, 19_999].map((nowMs) => penalties.holds('a', nowMs))).toEqual([
    true,
    true,
    false,
  ])
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
  expect([0, 1, 10_000].map((address) => penalties.holds(String(address), 1))).toEqual([
    false,
    true,
    true,
  ])
})
