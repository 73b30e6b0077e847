import { describe, expect, it } from 'vitest'
import { RetryBudget } from '../../src/forwarding/retries.ts'

describe('the retry budget', () => {
  /** How many of so many retries are allowed at each moment. */
  const spend = (budget: RetryBudget, atSeconds: number, wanted = 1_000): number => {
    let allowed = 0
    for (let retry = 0; retry < wanted; retry++) if (budget.spend(atSeconds * 1000)) allowed++
    return allowed
  }
  const earn = (budget: RetryBudget, requests: number): void => {
    for (let request = 0; request < requests; request++) budget.earn()
  }

  it.each<[string, number, number, number]>([
    // share, most, requests, allowed in the same second
    ['a share of the requests', 0.1, 500, 50],
    ['another share', 0.5, 100, 50],
    ['no more at once than may be', 1, 10_000, 128],
    ['none where the share is nothing', 0, 10_000, 0],
  ])('is %s', (_, share, requests, allowed) => {
    const budget = new RetryBudget(share, 128)
    spend(budget, 100)
    earn(budget, requests)
    expect(spend(budget, 100)).toBe(allowed)
  })

  it('has enough for a lone request, and for what a backend leaves behind that dies', () => {
    expect(spend(new RetryBudget(0.1, 128), 0)).toBe(128)
    expect(spend(new RetryBudget(0.1, 1), 0)).toBe(10)
    const budget = new RetryBudget(0.01, 128)
    spend(budget, 100)
    expect([spend(budget, 100.1), spend(budget, 101.1), spend(budget, 1_000)]).toEqual([1, 10, 128])
  })
})
