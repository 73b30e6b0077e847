import { afterEach, describe, expect, it, vi } from 'vitest'
import { createBackend } from '../../src/backends/backend.ts'
import { createBalancer, type Outcome } from '../../src/backends/balancer.ts'

const unreachable: Outcome = {
  kind: 'unreachable',
  cause: 'ECONNREFUSED',
  phase: 'connecting',
  bodyTouched: false,
  reusedConnection: false,
  answerBegun: false,
}

/** Of backends named by a letter each. */
function balancer(letters: string) {
  const named = new Map(
    letters.split('').map((letter) => [letter, createBackend(`http://${letter}`)]),
  )
  const get = (letter: string) => named.get(letter) ?? createBackend('http://none')
  const { pick, report } = createBalancer([...named.values()])
  return {
    get,
    next: (avoid?: string) => pick(avoid === undefined ? undefined : get(avoid)).host,
    take: (count: number) => Array.from({ length: count }, () => pick().host).join(''),
    report: (letter: string, outcome: Outcome) => report(get(letter), outcome),
  }
}

describe('the balancer', () => {
  afterEach(() => void vi.useRealTimers())

  it('takes backends in turn', () => {
    expect(balancer('abc').take(7)).toBe('abcabca')
  })

  it('takes another than the one to avoid, where there is another', () => {
    const { next } = balancer('ab')
    expect([next('a'), next('b'), next('a')]).toEqual(['b', 'a', 'b'])
    expect(balancer('a').next('a')).toBe('a')
  })

  it.each<[string, Outcome, boolean]>([
    ['that could not be connected to', unreachable, true],
    ['that was not connected in time', { ...unreachable, kind: 'connect_timeout' }, true],
    [
      'whose connections were all in use',
      { ...unreachable, kind: 'connect_timeout', phase: 'waiting' },
      false,
    ],
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
    const { take, report, get } = balancer('abc')
    report('b', outcome)
    expect(take(6)).toBe(rests ? 'acacac' : 'abcabc')
    expect(get('b').fault).toBe(rests ? 'ECONNREFUSED' : undefined)
  })

  it('lets a backend rest for a second', () => {
    vi.useFakeTimers()
    const { take, report } = balancer('abc')
    report('b', unreachable)
    expect(take(4)).toBe('acac')
    vi.advanceTimersByTime(999)
    expect(take(3)).not.toContain('b')
    vi.advanceTimersByTime(2)
    expect(take(3)).toContain('b')
  })

  it('uses resting backends when all of them rest', () => {
    const { take, report, next } = balancer('ab')
    report('a', unreachable)
    report('b', unreachable)
    expect(take(2)).toMatch(/^[ab]{2}$/)
    expect(next('a')).toBe('b')
  })

  it('knows a backend as well again once it has answered, and only then', () => {
    const { report, get } = balancer('ab')
    report('a', unreachable)
    report('a', 'abandoned')
    expect(get('a').fault).toBe('ECONNREFUSED')
    report('a', 200)
    expect(get('a').fault).toBeUndefined()
  })

  it('cannot have none', () => {
    expect(() => createBalancer([])).toThrow('at least one backend')
  })
})
