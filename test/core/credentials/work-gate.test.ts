/** What a gate lets run, who waits and who has no place, is shown by the signatures that a verifier checks. */
import { expect, it } from 'vitest'
import { createWorkGate } from '../../../src/core/credentials/work-gate.ts'

it('a work gate gives the place back when the work fails', async () => {
  const gate = createWorkGate({ running: 1, waiting: 0 })
  await expect(gate('a', () => Promise.reject(new Error('no')))).rejects.toThrow('no')
  expect(await gate('a', () => Promise.resolve('yes'))).toBe('yes')
})
