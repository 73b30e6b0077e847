import { expect, it } from 'vitest'
import { ordinal } from '../../src/insight/explain/findings.ts'
import { count, tryText } from '../../src/insight/format.js'

it('writes whole numbers and their order as Intl does in English, without its data', () => {
  const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 })
  for (const number of [0, 0.4, 999.5, 1_000, 9_204.5, 123_456, -1_234_567, 2 ** 53, 1e20])
    expect(count(number)).toBe(whole.format(number))
  const ends = new Map(Object.entries({ one: 'st', two: 'nd', few: 'rd', other: 'th' }))
  const rules = new Intl.PluralRules('en', { type: 'ordinal' })
  for (let number = 1; number <= 1_124; number++)
    expect(ordinal(number)).toBe(`${whole.format(number)}${ends.get(rules.select(number))}`)
})

it('says when something is tried again, also where that is past', () => {
  expect([41_000, 0].map((atMs) => tryText(atMs, 0))).toEqual(['in 41 s', 'with the next request'])
})
