import { afterEach, describe, expect, it, vi } from 'vitest'
import type { Balancer, BalancerOptions, Outcome } from '../../src/backends/balancer.ts'
import { Place } from '../../src/backends/line.ts'
import { balancerOf } from '../support/balancer.ts'

const unreachable: Outcome = {
  kind: 'unreachable',
  cause: 'ECONNREFUSED',
  phase: 'connecting',
  bodyTouched: false,
  reusedConnection: false,
  answerBegun: false,
}

/** Of backends named by a letter each. */
function start(letters: string, options: Partial<BalancerOptions> = {}) {
  const balancer = balancerOf(
    letters.split('').map((letter) => `http://${letter}`),
    options,
  )
  const get = (letter: string) => {
    const found = balancer.backends.find(({ host }) => host === letter)
    if (found === undefined) throw new Error(`no ${letter}`)
    return found
  }
  const take = (avoid?: string) =>
    balancer.take(avoid === undefined ? undefined : get(avoid))?.host ?? '-'
  const report = (letter: string, outcome: Outcome = 200) => balancer.report(get(letter), outcome)
  return {
    balancer,
    get,
    take,
    report,
    /** One after the other: each is answered before the next. */
    inTurn: (count: number) =>
      Array.from({ length: count }, () => {
        const letter = take()
        report(letter, 'abandoned')
        return letter
      }).join(''),
    /** All at once. */
    atOnce: (count: number) => Array.from({ length: count }, () => take()).join(''),
  }
}

/** What becomes of those who wait, in this order. */
function waiters(balancer: Balancer) {
  const told: string[] = []
  const wait = (name: string, longestMs = 60_000) => {
    const place = new Place(
      {
        clientId: name.slice(0, 1),
        onPermit: ({ host }) => told.push(`${name}: ${host}`),
        onOverdue: () => told.push(`${name}: overdue`),
      },
      longestMs,
    )
    return { place, isIn: balancer.wait(place) }
  }
  return { told, wait }
}

afterEach(() => void vi.useRealTimers())

describe('the choice of a backend', () => {
  it.each(['least-requests', 'round-robin'] as const)(
    'goes round where nothing is under way (%s)',
    (balance) => {
      expect(start('abc', { balance }).inTurn(7)).toBe('abcabca')
    },
  )

  it('falls on the one with the fewest requests under way', () => {
    const { atOnce, report, take } = start('abc')
    expect(atOnce(6)).toBe('abcabc')
    report('b')
    report('b')
    report('c')
    expect([take(), take(), take(), take()]).toEqual(['b', 'c', 'b', 'c'])
  })

  it('goes round all the same, where it is to', () => {
    const { atOnce, report } = start('abc', { balance: 'round-robin' })
    expect(atOnce(4)).toBe('abca')
    report('a')
    report('a')
    expect(atOnce(3)).toBe('bca')
  })

  it('falls on another than the one to avoid, where there is another with a free permit', () => {
    const { take } = start('ab', { connections: 2 })
    expect(['a', 'b', 'a', 'a', 'a'].map(take).join('')).toBe('baba-')
  })

  it.each<[string, Outcome, boolean]>([
    ['that could not be connected to', unreachable, true],
    ['that was not connected in time', { ...unreachable, kind: 'connect_timeout' }, true],
    ['that broke its answer', { ...unreachable, kind: 'broken', phase: 'sent' }, false],
    [
      'that did not answer in time',
      { ...unreachable, kind: 'response_timeout', phase: 'sent' },
      false,
    ],
    ['whose client left', { ...unreachable, kind: 'client_gone' }, false],
    ['that nobody waits for', 'abandoned', false],
    ['that answered', 200, false],
    ['that answered 503', 503, false],
  ])('and a backend %s: rests %#', (_, outcome, rests) => {
    const { inTurn, take, report, get } = start('abc')
    expect([take(), take()]).toEqual(['a', 'b'])
    report('a')
    report('b', outcome)
    expect(inTurn(6)).toBe(rests ? 'cacaca' : 'cabcab')
    expect(get('b').fault).toBe(rests ? 'ECONNREFUSED' : undefined)
  })

  it('knows a backend as well again once it has answered, and only then', () => {
    const { take, report, get } = start('a')
    take()
    report('a', unreachable)
    take()
    report('a', 'abandoned')
    expect(get('a').fault).toBe('ECONNREFUSED')
    take()
    report('a', 200)
    expect(get('a').fault).toBeUndefined()
  })

  it('cannot be made among none', () => {
    expect(() => start('')).toThrow('at least one backend')
  })
})

describe('permits', () => {
  it('are so many of each backend, and come back with the report', () => {
    const { atOnce, take, report } = start('ab', { connections: 2 })
    expect(atOnce(5)).toBe('abab-')
    report('b', 'abandoned')
    expect([take(), take()]).toEqual(['b', '-'])
  })

  it('go to those who wait, the clients by turns', () => {
    const { balancer, take, report } = start('a', { connections: 1 })
    const { told, wait } = waiters(balancer)
    take()
    for (const name of ['x1', 'x2', 'x3', 'y1', 'z1', 'y2']) expect(wait(name).isIn).toBe(true)
    expect([balancer.waiting, told]).toEqual([6, []])
    for (let served = 0; served < 6; served++) report('a')
    expect(told).toEqual(['x1: a', 'y1: a', 'z1: a', 'x2: a', 'y2: a', 'x3: a'])
    report('a')
    expect([balancer.waiting, balancer.backends[0]?.inUse]).toEqual([0, 0])
  })

  it('are not taken by who has left the line', () => {
    const { balancer, take, report } = start('a', { connections: 1 })
    const { told, wait } = waiters(balancer)
    take()
    const gone = wait('x1')
    wait('y1')
    balancer.leave(gone.place)
    report('a')
    expect(told).toEqual(['y1: a'])
  })

  it('go to nobody who comes later than those who wait', () => {
    const { balancer, take, report } = start('a', { connections: 1 })
    const { told, wait } = waiters(balancer)
    take()
    wait('x1')
    expect(take()).toBe('-')
    report('a')
    expect([told, take()]).toEqual([['x1: a'], '-'])
  })

  it('are waited for by no more than may', () => {
    const { balancer, take } = start('a', { connections: 1, breaker: { waiting: 2 } })
    const { wait } = waiters(balancer)
    take()
    const first = wait('x1')
    expect([first.isIn, wait('x2').isIn, wait('y1').isIn]).toEqual([true, true, false])
    balancer.leave(first.place)
    expect(wait('y2').isIn).toBe(true)
  })

  it('are waited for until a deadline, one for all waits of a request', () => {
    vi.useFakeTimers()
    const { balancer, take, report } = start('a', { connections: 1 })
    const { told, wait } = waiters(balancer)
    take()
    const { place } = wait('x1', 1_000)
    wait('y1', 5_000)
    vi.advanceTimersByTime(700)
    report('a')
    expect(told).toEqual(['x1: a'])
    balancer.wait(place)
    vi.advanceTimersByTime(250)
    expect(told).toEqual(['x1: a'])
    vi.advanceTimersByTime(250)
    expect(told).toEqual(['x1: a', 'x1: overdue'])
    report('a')
    expect(told).toEqual(['x1: a', 'x1: overdue', 'y1: a'])
    report('a')
    vi.advanceTimersByTime(100)
    expect([balancer.waiting, vi.getTimerCount()]).toEqual([0, 0])
  })

  it('are kept by a tunnel that was opened, until it gives them back', () => {
    const { balancer, take, report, get } = start('a', { connections: 1 })
    take()
    report('a', unreachable)
    take()
    balancer.note(get('a'), 101)
    expect([get('a').fault, take()]).toEqual([undefined, '-'])
    balancer.giveBack(get('a'))
    expect(take()).toBe('a')
  })
})
