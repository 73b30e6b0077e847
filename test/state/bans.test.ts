import { describe, expect, it } from 'vitest'
import { formatBan, parseBan } from '../../src/state/bans.ts'
import type { BanRecord } from '../../src/state/bans.ts'

describe('parseBan', () => {
  it('reads what formatBan writes', () => {
    const ban = { untilMs: 1_790_000_000_000, count: 3, startedMs: 1_789_999_000_000 }
    expect(parseBan(formatBan(ban))).toEqual(ban)
    const imposed = { ...ban, count: 0, epochMs: 5, by: 'operator', reason: 'a "b"' } as const
    expect(parseBan(formatBan(imposed))).toEqual(imposed)
  })

  it('keeps the form of a ban that no operator had a part in', () => {
    const stored = '{"untilMs":9,"count":1,"startedMs":0}'
    expect(formatBan(parseBan(stored) as BanRecord)).toBe(stored)
  })

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
