import { afterEach, describe, expect, it, vi } from 'vitest'
import { createBackendRotation } from '../../src/backends/balancer.ts'

describe('backends in rotation', () => {
  afterEach(() => void vi.useRealTimers())

  const take = (rotation: { next(): string }, count: number): string =>
    Array.from({ length: count }, () => rotation.next()).join('')

  it('are taken in turn', () => {
    expect(take(createBackendRotation(['a', 'b', 'c']), 7)).toBe('abcabca')
  })

  it('are another than the one to avoid, where there is another', () => {
    const rotation = createBackendRotation(['a', 'b'])
    expect([rotation.next('a'), rotation.next('b'), rotation.next('a')]).toEqual(['b', 'a', 'b'])
    expect(createBackendRotation(['a']).next('a')).toBe('a')
  })

  it('rest for a second after a failure', () => {
    vi.useFakeTimers()
    const rotation = createBackendRotation(['a', 'b', 'c'])
    rotation.failed('b')
    expect(take(rotation, 4)).toBe('acac')
    vi.advanceTimersByTime(999)
    expect(take(rotation, 3)).not.toContain('b')
    vi.advanceTimersByTime(2)
    expect(take(rotation, 3)).toContain('b')
  })

  it('are used while resting when all of them are', () => {
    const rotation = createBackendRotation(['a', 'b'])
    rotation.failed('a')
    rotation.failed('b')
    expect(take(rotation, 2)).toMatch(/^[ab]{2}$/)
    expect(rotation.next('a')).toBe('b')
  })

  it('cannot be none', () => {
    expect(() => createBackendRotation([])).toThrow('at least one backend')
  })
})
