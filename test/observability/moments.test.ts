import { expect, it } from 'vitest'
import { Moments } from '../../src/observability/moments.ts'

it('gives moments of one millisecond an order, and begins anew with the next one', () => {
  const clock = [5, 5, 5, 6, 5]
  const moments = new Moments(() => clock.shift() ?? 7)
  expect([1, 2, 3, 4, 5].map(() => moments.next())).toEqual([5, 5.001, 5.002, 6, 5])
  const flood = Array.from({ length: 2_000 }, () => moments.next())
  expect(flood.every((atMs) => Math.floor(atMs) === 7)).toBe(true)
  expect(flood).toEqual([...flood].toSorted((one, other) => one - other))
})
