import { beforeEach, describe, expect, it } from 'vitest'
import { ConnectionLife, Rests } from '../../../src/core/forwarding/connection-life.ts'
import { engineOptions } from '../../support/balancer.ts'

let surpluses = 0
beforeEach(() => void (surpluses = 0))

/** A connection at whose times a test gives it a request after the other. */
function start(rests = restsOf()) {
  let nowMs = 0
  const life = new ConnectionLife(rests, nowMs)
  return {
    life,
    /** Each answer takes so long, and the next request goes out at once; answers what the connection is to rest last. */
    carry: (times: number, answerMs: number) => {
      let restMs = 0
      for (let nth = 0; nth < times && restMs === 0; nth++) {
        life.start(nowMs)
        nowMs += answerMs
        life.answer(nowMs)
        restMs = life.end(nowMs)
      }
      return restMs
    },
    wait: (ms: number) => (nowMs += ms),
    /** It carries nothing for so long because it is to; answers whether it may go on. */
    rest: (ms: number) => life.rested((nowMs += ms)),
  }
}

const restsOf = (): Rests => new Rests(engineOptions, () => void surpluses++)

describe('a connection that is never idle', () => {
  it.each([
    [1, 5],
    [2, 5],
    [20, 20],
    [50, 50],
  ])('and whose answers take %i ms rests for %i ms twice a second', (answerMs, restMs) => {
    const { carry, rest } = start()
    for (let half = 0; half < 3; half++) {
      const times = Math.ceil(500 / answerMs)
      expect(carry(times - 1, answerMs)).toBe(0)
      expect([carry(1, answerMs), rest(restMs)]).toEqual([restMs, true])
    }
  })

  it('rests as long as its slowest answer took since it rested last', () => {
    const { carry, rest } = start()
    carry(1, 40)
    expect([carry(1_000, 2), rest(40)]).toEqual([40, true])
    expect(carry(1_000, 2)).toBe(5)
  })

  it('and is too slow for that is closed when it has rested, sixteen a second of one backend', () => {
    const rests = restsOf()
    const goOn = Array.from({ length: 20 }, () => {
      const connection = start(rests)
      expect(connection.carry(20, 51)).toBe(5)
      return [connection.rest(5), connection] as const
    })
    expect(goOn.map(([mayGoOn]) => mayGoOn)).toEqual([
      ...Array(16).fill(false),
      ...Array(4).fill(true),
    ])
    // One that goes on rests for a moment every now and then, not behind each answer.
    expect(goOn[19]?.[1].carry(49, 2)).toBe(0)
    expect(goOn[19]?.[1].carry(1, 2)).toBe(5)
  })
})

describe('a connection', () => {
  it('that is idle for that long now and then never has to rest', () => {
    const { carry, wait } = start()
    for (let nth = 0; nth < 500; nth++) {
      expect(carry(1, 10)).toBe(0)
      wait(nth % 40 === 0 ? 10 : 0)
    }
  })

  it('rests behind an answer that is quicker than all of the second before, once', () => {
    const { carry, rest } = start()
    for (let half = 0; half < 3; half++) expect([carry(200, 3), rest(5)]).toEqual([5, true])
    expect(carry(10, 3)).toBe(0)
    expect([carry(1, 2), rest(5)]).toEqual([5, true])
    expect(carry(10, 2)).toBe(0)
  })

  it('rests when another of its backend brought too much; not again for that within half a second', () => {
    const rests = restsOf()
    const { carry, rest } = start(rests)
    carry(1, 2)
    rests.surplus(3)
    expect([carry(1, 2), rest(5)]).toEqual([5, true])
    rests.surplus(490)
    expect(carry(240, 2)).toBe(0)
    expect(surpluses).toBe(2)
  })

  it('retires at up to a tenth below the configured age, and not with those opened together', () => {
    const rests = restsOf()
    const ages = Array.from({ length: 1_000 }, () => new ConnectionLife(rests, 0).retiresMs / 1_000)
    expect(Math.min(...ages)).toBeGreaterThanOrEqual(540)
    expect(Math.max(...ages)).toBeLessThanOrEqual(600)
    expect(Math.max(...ages) - Math.min(...ages)).toBeGreaterThan(30)
  })
})
