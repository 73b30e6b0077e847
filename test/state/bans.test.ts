import { describe, expect, it } from 'vitest'
import { parseBan } from '../../src/state/bans.ts'

describe('parseBan', () => {
  it.each([
    '',
    'nonsense',
    'null',
    '[]',
    '7',
    '{}',
    '{"untilMs":"9","count":1,"startedMs":0}',
    '{"untilMs":9,"count":0,"startedMs":0}',
    '{"untilMs":9,"count":1.5,"startedMs":0}',
    '{"untilMs":1e300,"count":1,"startedMs":0}',
    '{"untilMs":9,"count":1,"startedMs":-1}',
    '{"untilMs":9,"count":1,"startedMs":10}',
    '{"untilMs":9,"count":1,"startedMs":0,"epochMs":-1}',
    '{"untilMs":9,"count":1,"startedMs":0,"by":"somebody"}',
    '{"untilMs":9,"count":1,"startedMs":0,"reason":7}',
    `{"untilMs":9,"count":1,"startedMs":0,"reason":"${'x'.repeat(201)}"}`,
  ])('takes %s for no ban', (text) => {
    expect(parseBan(text)).toBeUndefined()
  })
})
