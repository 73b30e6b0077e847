import { describe, expect, it } from 'vitest'
import { Fault, faultLines } from '../../../src/cli/terminal/fault.ts'

const whole = new Fault('unreachable', 'cannot reach it', {
  reason: 'connection refused',
  remedy: 'start it',
})

describe('a fault', () => {
  it.each([
    [whole, ['unreachable', 'cannot reach it', 'connection refused', 'start it']],
    [new Error('so'), ['failed', 'so', null, null]],
  ])('of %s is one line of JSON for a program', (error, [code, message, cause, remedy]) => {
    const [line, ...more] = faultLines(error, true)
    expect([JSON.parse(line ?? ''), more]).toEqual([
      { error: { code, message, cause, remedy } },
      [],
    ])
  })
})
