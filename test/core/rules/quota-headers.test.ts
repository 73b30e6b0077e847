import { describe, expect, it } from 'vitest'
import {
  anonymousHeaders,
  banHeaders,
  isSameStanding,
  policyHeader,
  quotaHeaders,
  refusedHeaders,
} from '../../../src/core/rules/quota-headers.ts'
import type { QuotaView } from '../../../src/core/quota/decision.ts'
import { fields, words } from '../../support/words.ts'

const limits = { perMinute: 60, perDay: 1000 }
const policy = policyHeader(limits)

const view = (minuteLeft: number, dayLeft: number, resetAtSeconds = 5000): QuotaView => ({
  minute: { limit: 60, remaining: minuteLeft, resetAtSeconds: 660, resetAfterSeconds: 42 },
  day: { limit: 1000, remaining: dayLeft, resetAtSeconds, resetAfterSeconds: 4242 },
})

/** The first three values, and the RateLimit field. */
const names = `X-RateLimit-Limit X-RateLimit-Remaining X-RateLimit-Reset RateLimit-Policy RateLimit`
function told(headers: string[]): string[] {
  expect(headers.filter((_, at) => at % 2 === 0)).toEqual(words(names))
  const values = headers.filter((_, at) => at % 2 === 1)
  return [...values.slice(0, 3), values[4] ?? '']
}

describe('quota headers', () => {
  it.each([
    [0, 0, 5000, ['1000', '0', '5000']],
    [10, 10, 5000, ['1000', '10', '5000']],
    [10, 9, 5000, ['1000', '9', '5000']],
    [9, 10, 5000, ['60', '9', '660']],
    // The last minute of the day.
    [10, 10, 660, ['1000', '10', '660']],
    [10, 10, 659, ['60', '10', '660']],
  ])('with %d and %d left, the day ending at %d, speak of %j', (minute, day, dayEnd, expected) => {
    expect(told(quotaHeaders(view(minute, day, dayEnd), policy))).toEqual([
      ...expected,
      `"minute";r=${minute};t=42, "day";r=${day};t=4242`,
    ])
  })

  it('of a refusal speak of the window that refuses, with nothing left', () => {
    const minute = refusedHeaders(view(3, 200), 'minute', policy)
    expect(told(minute)).toEqual(['60', '0', '660', '"minute";r=0;t=42, "day";r=200;t=4242'])
    const day = refusedHeaders(view(0, 1), 'day', policy)
    expect(told(day)).toEqual(['1000', '0', '5000', '"minute";r=0;t=42, "day";r=0;t=4242'])
    expect(day).toContain(policy)
    expect([view(0, 1), view(0, 2)].map((one) => isSameStanding(one, view(0, 1)))).toEqual([
      true,
      false,
    ])
  })

  it('of a caller without a credential speak of one window', () => {
    const headers = anonymousHeaders(view(7, 0).minute, true)
    expect(told(headers)).toEqual(['60', '7', '660', '"minute";r=7;t=42'])
    expect(headers).toContain('"minute";q=60;w=60')
  })

  it('of a ban speak of its end, and tell what the windows hold', () => {
    const headers = banHeaders({ limits, policy }, 11, view(12, 940))
    expect(told(headers)).toEqual(['60', '0', '11', '"minute";r=12;t=42, "day";r=940;t=4242'])
    expect(headers).toContain(policy)
  })

  it.each<[string, QuotaView, string[], number?]>([
    ['the minute', view(0, 940), ['60', '0', '660']],
    ['the day', view(0, 0), ['1000', '0', '5000']],
    ['the ban', view(12, 940), ['60', '0', '11']],
    ['the ban, though the minute is used up', view(0, 940), ['60', '0', '661'], 661],
    ['the ban, though the day is used up', view(0, 0, 660), ['60', '0', '661'], 661],
  ])('of a ban speak of what ends last: %s', (_, standing, first, endsAtSeconds = 11) => {
    const headers = banHeaders({ limits, policy }, endsAtSeconds, standing)
    expect(told(headers).slice(0, 3)).toEqual(first)
  })

  it('of a ban leave RateLimit out where the windows are not known', () => {
    const headers = banHeaders({ limits, policy }, 10, undefined)
    const first = 'X-RateLimit-Limit: 60 | X-RateLimit-Remaining: 0 | X-RateLimit-Reset: 10'
    expect(headers).toEqual([...fields(first), 'RateLimit-Policy', policy])
  })
})
