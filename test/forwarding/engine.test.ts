import { describe, expect, it } from 'vitest'
import { retirementMs } from '../../src/forwarding/engine.ts'

describe('the age at which a connection retires', () => {
  it('is up to a tenth below the configured, and not the same for those opened together', () => {
    const timeouts = { connectMs: 1, responseMs: 1, idleMs: 1 }
    const options = { connections: 1, connectionUses: 1, connectionAgeMs: 1_000, timeouts }
    const ages = Array.from({ length: 1_000 }, () => retirementMs(5_000, options) - 5_000)
    expect(Math.min(...ages)).toBeGreaterThanOrEqual(900)
    expect(Math.max(...ages)).toBeLessThanOrEqual(1_000)
    expect(Math.max(...ages) - Math.min(...ages)).toBeGreaterThan(50)
  })
})
