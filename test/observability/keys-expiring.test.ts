import { afterEach, expect, it, vi } from 'vitest'
import { keysExpiringFamily } from '../../src/observability/keys-expiring.ts'

afterEach(() => vi.useRealTimers())

it('counts keys that end within 30 days once for each configuration and hour', () => {
  vi.useFakeTimers({ now: Date.UTC(2030, 0, 1, 0, 30) })
  const asked: string[] = []
  const clients = (name: string) => ({
    countEnding: (fromMs: number, beforeMs: number) =>
      asked.push(`${name} ${(beforeMs - fromMs) / 86_400_000}`),
  })
  let current: ReturnType<typeof clients> | undefined
  const family = keysExpiringFamily(() => current)
  expect(family.read()).toBe(0)
  current = clients('one')
  expect([family.read(), family.read()]).toEqual([1, 1])
  current = clients('two')
  expect(family.read()).toBe(2)
  vi.advanceTimersByTime(30 * 60_000)
  expect([family.read(), family.read()]).toEqual([3, 3])
  expect(asked).toEqual(['one 30', 'two 30', 'two 30'])
})
