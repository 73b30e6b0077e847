import { describe, expect, it } from 'vitest'
import { createWorkGate } from '../../src/credentials/work-gate.ts'

describe('a work gate', () => {
  it('runs so many at once, queues so many, and refuses the rest without running them', async () => {
    const gate = createWorkGate({ running: 2, waiting: 2 })
    const started: number[] = []
    const finish = Promise.withResolvers<void>()
    const results = [1, 2, 3, 4, 5].map((n) =>
      gate.run(async () => {
        started.push(n)
        await finish.promise
        return n
      }),
    )
    expect(await results[4]).toBeUndefined()
    expect(started).toEqual([1, 2])
    finish.resolve()
    expect(await Promise.all(results)).toEqual([1, 2, 3, 4, undefined])
    expect(started).toEqual([1, 2, 3, 4])
  })

  it('gives the place back when the work fails', async () => {
    const gate = createWorkGate({ running: 1, waiting: 0 })
    await expect(gate.run(() => Promise.reject(new Error('no')))).rejects.toThrow('no')
    expect(await gate.run(() => Promise.resolve('yes'))).toBe('yes')
  })
})
