import { describe, expect, it } from 'vitest'
import { CheckBudget, type Sender } from '../../../src/core/credentials/check-budget.ts'

const [one, other] = ['192.0.2.1', '192.0.2.2']
const app = { address: one, clientId: 'app' }
const nobody = { address: one, clientId: 'nobody' }

/** Sends a false signature; whether it was checked. */
function sendFalse(budget: CheckBudget, nowMs: number, sender: Sender = nobody): boolean {
  if (!budget.hasRoom(sender, nowMs)) return false
  budget.began(sender, nowMs)
  budget.ended(sender, false)
  return true
}

function prove(budget: CheckBudget, nowMs: number, sender: Sender = app): void {
  budget.began(sender, nowMs)
  budget.ended(sender, true)
}

/** Sends one each ms; how many were checked. */
const flood = (budget: CheckBudget, fromMs: number, forMs: number): number =>
  Array.from({ length: forMs }, (_, ms) => sendFalse(budget, fromMs + ms)).filter(Boolean).length

describe('the budget of signature checks', () => {
  it('gives an address 100 false signatures a second, and 100 at once', () => {
    const budget = new CheckBudget()
    expect(flood(budget, 0, 10_000)).toBe(100 + 999)
    // Nothing for a while.
    expect(flood(budget, 30_000, 50)).toBe(50)
  })

  it('is one for each address', () => {
    const budget = new CheckBudget()
    flood(budget, 0, 999)
    expect(budget.hasRoom(nobody, 999)).toBe(false)
    expect(budget.hasRoom({ ...nobody, address: other }, 999)).toBe(true)
  })

  it('counts those that are being checked, and takes back what was good or not checked after all', () => {
    const budget = new CheckBudget()
    for (let nth = 0; nth < 100; nth++) budget.began(nobody, 0)
    expect(budget.hasRoom(nobody, 0)).toBe(false)
    budget.ended({ ...nobody, clientId: 'somebody' }, true)
    budget.ended(nobody, undefined)
    expect([1, 2, 3].map(() => sendFalse(budget, 0))).toEqual([true, true, false])
  })

  it('has room for a client that has proven a token behind the same address, until a false one names it', () => {
    const budget = new CheckBudget()
    prove(budget, 0)
    flood(budget, 0, 999)
    expect(budget.hasRoom(app, 999)).toBe(true)
    sendFalse(budget, 999, app)
    expect(budget.hasRoom(app, 999)).toBe(false)
  })

  it('forgets the oldest of 10,000 addresses, and of as many clients', () => {
    const budget = new CheckBudget()
    prove(budget, 0)
    flood(budget, 0, 999)
    for (let nth = 0; nth < 9_998; nth++) {
      prove(budget, 999, { address: other, clientId: `${nth}` })
      sendFalse(budget, 999, { address: `198.51.100.${nth}`, clientId: '' })
    }
    expect([budget.hasRoom(nobody, 999), budget.hasRoom(app, 999)]).toEqual([false, true])
    sendFalse(budget, 999, { address: 'last', clientId: '' })
    expect(budget.hasRoom(nobody, 999)).toBe(true)
    flood(budget, 999, 999)
    expect(budget.hasRoom(app, 1_998)).toBe(true)
    for (const clientId of ['a', 'b']) prove(budget, 1_998, { address: other, clientId })
    expect(budget.hasRoom(app, 1_998)).toBe(false)
  })
})
