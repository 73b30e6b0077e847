import { afterEach, describe, expect, it, vi } from 'vitest'
import type { Balancer, Waiter } from '../../../src/core/backends/balancer.ts'
import type { Outcome } from '../../../src/core/backends/backend.ts'
import { balancerOf, eject, unreachable } from '../../support/balancer.ts'

const silent = { ...unreachable, kind: 'response_timeout', phase: 'sent' } as const
const broken = { ...silent, kind: 'broken' } as const

/** Of backends named by a letter each. */
function start(letters: string, options: Parameters<typeof balancerOf>[1] = {}) {
  const told: string[] = []
  const balancer = balancerOf(
    letters.split('').map((letter) => `http://${letter}`),
    options,
    {
      backendDown: ({ backend, cause, forMs }) =>
        told.push(`${backend} down, ${cause}, ${forMs === undefined ? 'kept' : Math.round(forMs)}`),
      backendUp: ({ backend }) => told.push(`${backend} up`),
      backendSurplus: ({ backend }) => told.push(`${backend} surplus`),
    },
  )
  const get = (letter: string) => {
    const found = balancer.backends.find(({ host }) => host === letter)
    if (found === undefined) throw new Error(`no ${letter}`)
    return found
  }
  const take = (avoid?: string, method = 'GET', clientId = 'acme') =>
    balancer.take({
      job: { clientId, method },
      avoid: avoid === undefined ? undefined : get(avoid),
    })?.host ?? '-'
  const report = (letter: string, outcome: Outcome = 200, clientId = 'acme') =>
    balancer.report(get(letter), outcome, { job: { clientId }, startedMs: performance.now() })
  return {
    balancer,
    get,
    take,
    report,
    told,
    /** So many requests to it fail. */
    fail: (letter: string, times: number, outcome: Outcome = silent, clientId?: string) => {
      for (let time = 0; time < times; time++) {
        get(letter).inUse++
        report(letter, outcome, clientId)
      }
    },
    /** One after the other: each is answered before the next. */
    inTurn: (count: number) =>
      Array.from({ length: count }, () => {
        const letter = take()
        report(letter, 'abandoned')
        return letter
      }).join(''),
    /** A client asks until it gets none; answers how many it has got. */
    takeAll: (clientId: string, atMost = Infinity) => {
      let count = 0
      while (count < atMost && take(undefined, 'GET', clientId) !== '-') count++
      return count
    },
    /** All at once. */
    atOnce: (count: number) => Array.from({ length: count }, () => take()).join(''),
  }
}

/** What becomes of those who wait, in this order. */
function waiters(balancer: Balancer) {
  const told: string[] = []
  const wait = (name: string, longestMs = 60_000, method = 'GET') => {
    const place: Waiter = {
      job: { clientId: name.slice(0, 1), method, responseTimeoutMs: longestMs },
      deadlineMs: undefined,
      onPermit: ({ host }) => told.push(`${name}: ${host}`),
      onOverdue: () => told.push(`${name}: overdue`),
    }
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
    expect(['a', 'b', 'a', 'a', 'a'].map((avoid) => take(avoid)).join('')).toBe('baba-')
  })

  it.each<[string, Outcome, boolean]>([
    ['that could not be connected to', unreachable, true],
    ['that was not connected in time', { ...unreachable, kind: 'connect_timeout' }, true],
    ['that broke its answer', broken, true],
    ['that did not answer in time', silent, true],
    ['that answered 502', 502, false],
    ['that answered 503', 503, false],
    ['that answered 504', 504, false],
    ['that had closed an idle connection', { ...broken, reusedConnection: true }, false],
    ['that was sent nothing', { ...unreachable, kind: 'broken' }, false],
    ['whose client left', { ...unreachable, kind: 'client_gone' }, false],
    ['whose client sent too much', { ...silent, kind: 'body_too_large' }, false],
    ['that nobody waits for', 'abandoned', false],
    ['that answered 200', 200, false],
    ['that answered 500', 500, false],
    ['that answered 501', 501, false],
  ])('and a backend %s: rests %#', (_, outcome, rests) => {
    const { inTurn, fail } = start('abc')
    fail('b', 1, outcome)
    expect(inTurn(6)).toBe(rests ? 'acacac' : 'abcabc')
  })

  it('tries a backend that rests with one request a second, rather one that may be repeated', () => {
    vi.useFakeTimers()
    const { take, report, inTurn, fail } = start('abc')
    fail('b', 1)
    vi.advanceTimersByTime(999)
    expect(inTurn(3)).toBe('aca')
    vi.advanceTimersByTime(1)
    const posts = Array.from({ length: 4 }, () => take(undefined, 'POST'))
    expect([posts.join(''), take(), take(), take()]).toEqual(['caca', 'b', 'c', 'a'])
    vi.advanceTimersByTime(1_000)
    expect(take()).toBe('b')
    report('b')
    vi.advanceTimersByTime(1_999)
    report('b', silent)
    vi.advanceTimersByTime(2_000)
    expect(take(undefined, 'POST')).toBe('b')
  })

  it('leaves out one that fails, for a while that grows', () => {
    vi.useFakeTimers()
    const { inTurn, take, report, fail, told } = start('abc')
    fail('b', 5)
    vi.advanceTimersByTime(9_999)
    expect(inTurn(4)).toBe('acac')
    vi.advanceTimersByTime(1)
    expect(take()).toBe('b')
    report('b', silent)
    vi.advanceTimersByTime(19_999)
    expect(inTurn(4)).toBe('caca')
    vi.advanceTimersByTime(1)
    expect(take()).toBe('b')
    report('b', 200)
    expect(inTurn(3)).toBe('cab')
    expect(told).toEqual(['http://b down, ECONNREFUSED, 10000', 'http://b up'])
  })

  it.each([502, 503, 504])('leaves out one that answers %i time and again, too', (status) => {
    const { inTurn, fail, told } = start('abc')
    fail('b', 4, status)
    expect([inTurn(3), told]).toEqual(['abc', []])
    fail('b', 5, status)
    expect([inTurn(4), told]).toEqual(['acac', [`http://b down, answers ${status}, 10000`]])
  })

  it('leaves out none that fails one client while another is at work, wherever that one is served', () => {
    vi.useFakeTimers()
    const { get, report, fail, balancer } = start('ab')
    const left = () =>
      balancer.backends
        .filter(({ standing }) => standing.isOut(performance.now()))
        .map(({ host }) => host)
        .join('')
    const serve = (letter: string, clientId: string) => {
      get(letter).inUse++
      report(letter, 200, clientId)
    }
    serve('a', 'y')
    vi.advanceTimersByTime(5_000)
    fail('b', 50, 503, 'x')
    expect(left()).toBe('')
    fail('b', 1, silent, 'y')
    expect(left()).toBe('b')
    // It comes back; the other one was served too long ago.
    vi.advanceTimersByTime(10_001)
    expect(left()).toBe('')
    serve('b', 'x')
    serve('a', 'y')
    vi.advanceTimersByTime(10_001)
    fail('b', 5, 503, 'x')
    expect(left()).toBe('b')
  })

  it.each([
    ['one client of several fails', '-x', false],
    ['the same client fails again', '-x -x', false],
    ['a second client fails', '-x -y', true],
    ['it answered between the two', '-x 200z -y', false],
    ['a second client has too few bad answers', '503x 503y', false],
    ['two clients have many', '503x 503x 503x 503x 503y', true],
  ])('spares a backend that has just served another for a second when %s: %s', (_, all, rests) => {
    vi.useFakeTimers()
    const { inTurn, get, report } = start('abc')
    // What it answers each client, or that it is silent.
    for (const one of `200z ${all}`.split(' ')) {
      get('b').inUse++
      report('b', one.startsWith('-') ? silent : Number.parseInt(one), one.at(-1))
      vi.advanceTimersByTime(1)
    }
    expect(inTurn(6)).toBe(rests ? 'acacac' : 'abcabc')
  })

  it('tries a backend that rests with a client that has not failed there, as long as one is there', () => {
    vi.useFakeTimers()
    const { get, take, report, fail } = start('ab')
    get('a').inUse++
    report('a', 200, 'y')
    fail('b', 1, silent, 'x')
    vi.advanceTimersByTime(1_999)
    expect(take(undefined, 'GET', 'x')).toBe('a')
    expect(take(undefined, 'GET', 'y')).toBe('b')
    report('b', silent, 'y')
    vi.advanceTimersByTime(2_000)
    expect(take(undefined, 'GET', 'x')).toBe('b')
  })

  it('leaves out no more than may be, and tries the others that fail once a second', () => {
    vi.useFakeTimers()
    const { inTurn, fail, told } = start('abc')
    fail('a', 5)
    fail('b', 5)
    expect(told.map((line) => line.slice(-5))).toEqual(['10000', ' kept'])
    expect(inTurn(4)).toBe('cccc')
    vi.advanceTimersByTime(1_000)
    expect(inTurn(4)).toBe('bccc')
  })

  it('tries all when all fail', () => {
    // At 0, where a clock stands still.
    vi.useFakeTimers()
    const { inTurn, fail, atOnce } = start('ab', { eject: { ...eject, atMost: 1 } })
    fail('a', 5)
    fail('b', 5)
    expect([inTurn(4), atOnce(2)]).toEqual(['abab', 'ab'])
  })

  it('has no choice with one backend', () => {
    const { inTurn, fail } = start('a')
    fail('a', 20)
    expect(inTurn(3)).toBe('aaa')
  })
})

describe('a backend that sends what nobody asked for', () => {
  it('is counted each time, and named again when it has not done so for a minute', () => {
    vi.useFakeTimers()
    const { balancer, get, told } = start('ab')
    for (let nth = 0; nth < 3; nth++) {
      balancer.surplus(get('b'))
      vi.advanceTimersByTime(59_999)
    }
    expect(told).toEqual(['http://b surplus'])
    vi.advanceTimersByTime(1)
    balancer.surplus(get('b'))
    expect(told).toHaveLength(2)
    expect(balancer.backends.map(({ surplus }) => surplus.connections)).toEqual([0, 4])
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

  it('are not taken by who has left the line, which keeps none from its client', () => {
    const { balancer, take, report } = start('a', { connections: 1 })
    const { told, wait } = waiters(balancer)
    take()
    const gone = wait('x1')
    wait('x2')
    for (let left = 0; left < 2; left++) balancer.leave(gone.place)
    expect(balancer.waiting).toBe(1)
    report('a')
    expect(told).toEqual(['x2: a'])
    report('a', 200, 'x')
    expect(take(undefined, 'GET', 'x')).toBe('a')
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

  it('go to no later request of who waits, be it the better one to try a doubtful backend with', () => {
    vi.useFakeTimers()
    const { balancer, take, fail } = start('ab', { connections: 1 })
    const { told, wait } = waiters(balancer)
    fail('b', 1)
    expect(take(undefined, 'GET', 'z')).toBe('a')
    wait('x1', 60_000, 'POST')
    vi.advanceTimersByTime(1_100)
    expect(['x', 'y'].map((client) => take(undefined, 'GET', client))).toEqual(['-', 'b'])
    expect(told).toEqual([])
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

  it('of one that fails go to nobody while others are there, be they all in use', () => {
    vi.useFakeTimers()
    const { balancer, take, report, fail } = start('ab', { connections: 1 })
    const { told, wait } = waiters(balancer)
    expect([take(), take()]).toEqual(['a', 'b'])
    wait('x1')
    wait('y1')
    fail('b', 4)
    report('b', silent)
    expect([told, balancer.waiting]).toEqual([[], 2])
    report('a')
    expect(told).toEqual(['x1: a'])
    // When its time is over one request tries it.
    vi.advanceTimersByTime(10_100)
    expect(told).toEqual(['x1: a', 'y1: b'])
    report('a')
    report('b')
  })

  it.each([
    [1, 1],
    [4, 4],
    [8, 7],
    [16, 14],
    [128, 112],
  ])('of %i leave one client %i: the last eighth is for those who hold few', (connections, got) => {
    const { takeAll } = start('a', { connections })
    expect(takeAll('x')).toBe(got)
    expect(takeAll('y') > 0).toBe(connections > got)
  })

  it('are found by who holds none, however many others hold theirs', () => {
    const { takeAll, report } = start('a', { connections: 128 })
    const greedy = Array.from({ length: 12 }, (_, nth) => takeAll(`greedy${nth}`, 32))
    expect(greedy).toEqual([32, 32, 32, 16, 4, 3, 2, 2, 1, 1, 1, 1])
    expect([takeAll('newcomer'), takeAll('another')]).toEqual([1, 0])
    // What comes back goes to the next who holds none.
    report('a', 200, 'greedy0')
    expect([takeAll('greedy1'), takeAll('newcomer'), takeAll('another')]).toEqual([0, 0, 1])
  })

  it('go past those who wait and hold too many, to who holds few', () => {
    const { balancer, takeAll, report, get } = start('a', { connections: 16 })
    const { told, wait } = waiters(balancer)
    expect([takeAll('x'), takeAll('y')]).toEqual([14, 1])
    for (const name of ['x1', 'x2', 'y1']) wait(name)
    expect(takeAll('z')).toBe(1)
    for (const name of ['z1', 'w1']) wait(name)
    // Nobody overtakes his own request that waits.
    expect([takeAll('x'), takeAll('y'), takeAll('z')]).toEqual([0, 0, 0])
    report('a', 200, 'x')
    expect(told).toEqual(['w1: a'])
    for (let nth = 0; nth < 4; nth++) report('a', 200, 'x')
    expect(told).toEqual(['w1: a', 'x1: a', 'y1: a'])
    report('a', 200, 'x')
    expect(told.slice(3)).toEqual(['z1: a'])
    report('a', 200, 'x')
    expect([told.slice(4), balancer.waiting, get('a').inUse]).toEqual([['x2: a'], 0, 14])
  })

  it('are counted over all backends, and each has its own last eighth', () => {
    const { takeAll } = start('ab', { connections: 16 })
    expect([takeAll('x'), takeAll('y')]).toEqual([28, 1])
    expect([takeAll('z'), takeAll('w'), takeAll('v'), takeAll('u')]).toEqual([1, 1, 1, 0])
  })

  it('are kept by a tunnel that was opened, until it gives them back', () => {
    const { balancer, take, get } = start('a', { connections: 1 })
    take()
    balancer.note(get('a'), 101, { job: { clientId: 'acme' }, startedMs: 0 })
    expect([get('a').outcomes['1xx'], take()]).toEqual([1, '-'])
    balancer.giveBack(get('a'), 'acme')
    expect(take()).toBe('a')
  })
})
