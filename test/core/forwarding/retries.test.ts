import { describe, expect, it } from 'vitest'
import { Retries } from '../../../src/core/forwarding/retries.ts'
import { unreachable } from '../../support/balancer.ts'

describe('the retry budget', () => {
  const start = (budget: number, connections = 128) =>
    new Retries({ retry: { attempts: 1, budget }, connections, urls: ['http://a', 'http://b'] })
  /** How many of so many retries are allowed at each moment. */
  const spend = (retries: Retries, atSeconds: number, clientId = 'acme'): number => {
    let allowed = 0
    for (let wanted = 0; wanted < 1_000; wanted++)
      if (retries.allows({ method: 'GET', clientId }, unreachable, 0, atSeconds * 1000)) allowed++
    return allowed
  }

  it.each<[string, number, number, number]>([
    // share, requests, allowed in the same second
    ['a share of the requests', 0.1, 500, 50],
    ['another share', 0.5, 100, 50],
    ['no more at once than one backend can leave behind', 1, 10_000, 128],
    ['none where the share is nothing', 0, 10_000, 0],
  ])('is %s', (_, share, requests, allowed) => {
    const retries = start(share)
    spend(retries, 100)
    for (let request = 0; request < requests; request++) retries.begun()
    expect(spend(retries, 100)).toBe(allowed)
  })

  it('has enough for a lone request', () => {
    expect(spend(start(0.1, 1), 0)).toBe(10)
    const retries = start(0.01)
    spend(retries, 100)
    expect([100.1, 101.1, 1_000].map((at) => spend(retries, at))).toEqual([1, 10, 128])
  })

  it('is not used up by one client whose repeats fail as well: it has one a second, and others theirs', () => {
    const retries = start(0.1)
    const vain = { ...unreachable, kind: 'response_timeout', phase: 'sent' } as const
    expect(retries.allows({ method: 'GET', clientId: 'x' }, vain, 1, 100_000)).toBe(false)
    expect([100, 100.9, 101, 101.9, 102].map((at) => spend(retries, at, 'x'))).toEqual([
      0, 0, 1, 0, 1,
    ])
    expect(spend(retries, 102, 'y')).toBe(128 - 1)
    // After a time without any it is as anybody.
    expect(spend(retries, 200, 'x')).toBe(128)
  })

  it('is no less for a client whose repeat could not be connected', () => {
    const retries = start(0.1)
    expect(retries.allows({ method: 'GET', clientId: 'x' }, unreachable, 1, 100_000)).toBe(false)
    expect(spend(retries, 100, 'x')).toBe(128)
  })
})
