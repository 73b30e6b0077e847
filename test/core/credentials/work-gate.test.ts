import { describe, expect, it } from 'vitest'
import { createWorkGate } from '../../../src/core/credentials/work-gate.ts'

describe('a work gate', () => {
  it('runs so many at once, queues so many, and refuses the rest without running them', async () => {
    const gate = createWorkGate({ running: 2, waiting: 2 })
    const started: number[] = []
    const finish = Promise.withResolvers<void>()
    const results = [1, 2, 3, 4, 5].map((n) =>
      gate.run('a', async () => {
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

  it('lets addresses take turns, however many of one wait', async () => {
    const gate = createWorkGate({ running: 1, waiting: 10 })
    const started: string[] = []
    const addresses = ['a', 'a', 'a', 'a', 'b', 'b', 'c']
    await Promise.all(
      addresses.map((address) =>
        gate.run(address, () => {
          started.push(address)
          return Promise.resolve()
        }),
      ),
    )
    expect(started.join('')).toBe('aabcaba')
  })

  it('makes room for another address at the end of the longest line', async () => {
    const gate = createWorkGate({ running: 1, waiting: 3 })
    const run = (address: string) => gate.run(address, () => Promise.resolve(address))
    const addresses = ['a', 'a', 'a', 'a', 'b', 'c', 'd', 'a']
    expect(await Promise.all(addresses.map(run))).toEqual([
      'a',
      'a',
      undefined,
      undefined,
      'b',
      'c',
      undefined,
      undefined,
    ])
  })

  it('gives the place back when the work fails', async () => {
    const gate = createWorkGate({ running: 1, waiting: 0 })
    await expect(gate.run('a', () => Promise.reject(new Error('no')))).rejects.toThrow('no')
    expect(await gate.run('a', () => Promise.resolve('yes'))).toBe('yes')
  })
})
