import { expect, it } from 'vitest'
import { faultKinds } from './events.ts'
import { planFaults } from './schedule.ts'

const MINUTE_MS = 60_000

it('the same seed plans the same faults, another one others', () => {
  expect(planFaults(7, MINUTE_MS)).toEqual(planFaults(7, MINUTE_MS))
  expect(planFaults(7, MINUTE_MS)).not.toEqual(planFaults(8, MINUTE_MS))
})

it('in every plan each kind comes once before any comes again, one after the other in its line', () => {
  for (let seed = 0; seed < 200; seed++)
    for (const line of planFaults(seed, 5 * MINUTE_MS)) {
      const first = line.filter(({ mustCome }) => mustCome).map(({ kind }) => kind)
      expect(new Set(first).size).toBe(first.length)
      expect(line.slice(0, first.length).every(({ mustCome }) => mustCome)).toBe(true)
      for (const [at, { atMs }] of line.entries()) {
        const before = line[at - 1]
        if (before !== undefined) expect(atMs).toBeGreaterThan(before.atMs + before.forMs)
      }
    }
  const kinds = planFaults(1, MINUTE_MS).flatMap((line) => line.map(({ kind }) => kind))
  expect(new Set(kinds)).toEqual(new Set(Object.values(faultKinds).flat()))
})
