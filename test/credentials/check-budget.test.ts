import { describe, expect, it } from 'vitest'
import { CheckBudget } from '../../src/credentials/check-budget.ts'

const [one, other] = ['192.0.2.1', '192.0.2.2']
const app = { address: one, clientId: 'app' }
const nobody = { address: one, clientId: 'nobody' }

/** Sends a false signature each ms; how many were checked, each in 1 ms. */
function falseOnes(budget: CheckBudget, fromMs: number, forMs: number): number {
  let checked = 0
  for (let nowMs = fromMs; nowMs < fromMs + forMs; nowMs++) {
    if (!budget.hasRoom(nobody, nowMs)) continue
    budget.checked(nobody, false, 1, nowMs)
    checked++
  }
  return checked
}

describe('the budget of signature checks', () => {
  it('gives the false signatures of an address a tenth of one thread, and 100 ms at once', () => {
    const budget = new CheckBudget()
    expect(falseOnes(budget, 0, 10_000)).toBe(100 + 1_000)
    // Nothing for a while.
    expect(falseOnes(budget, 30_000, 10)).toBe(10)
  })

  it('is one for each address', () => {
    const budget = new CheckBudget()
    falseOnes(budget, 0, 1_000)
    expect(budget.hasRoom(nobody, 999)).toBe(false)
    expect(budget.hasRoom({ ...nobody, address: other }, 999)).toBe(true)
  })

  it('has room for a client that has proven a token behind the same address, until a false one names it', () => {
    const budget = new CheckBudget()
    budget.checked(app, true, 1, 0)
    falseOnes(budget, 0, 1_000)
    expect(budget.hasRoom(app, 999)).toBe(true)
    budget.checked(app, false, 1, 999)
    expect(budget.hasRoom(app, 999)).toBe(false)
  })

  it('forgets the oldest of 10,000 addresses, and of as many clients', () => {
    const budget = new CheckBudget()
    budget.checked(app, true, 1, 0)
    budget.checked(nobody, false, 1_000, 0)
    for (let nth = 0; nth < 9_999; nth++) {
      budget.checked({ address: other, clientId: `${nth}` }, true, 1, 0)
      budget.checked({ address: `198.51.100.${nth}`, clientId: '' }, false, 1, 0)
    }
    expect([budget.hasRoom(nobody, 0), budget.hasRoom(app, 0)]).toEqual([false, true])
    budget.checked({ address: other, clientId: 'last' }, true, 1, 0)
    expect(budget.hasRoom(app, 0)).toBe(false)
    budget.checked({ address: other, clientId: '' }, false, 1, 0)
    expect(budget.hasRoom(nobody, 0)).toBe(true)
  })
})
