import { expect, it } from 'vitest'
import { createMemoryAuthority } from '../../src/quota/authorities/memory.ts'
import { LeaseWindow } from '../../src/quota/lessee/lease-window.ts'
import { DAY_MS, MINUTE_MS } from '../../src/rules/time.ts'
import { START_MS } from '../support/controlled-authority.ts'

it('tokens in hand are not spent under a limit that others, under a higher one, have used up since', () => {
  const time = { ms: START_MS }
  const authority = createMemoryAuthority({ clock: { epochMs: () => time.ms } })
  const processIn = (name: string, perMinute: number) => {
    const [minute, day] = [new LeaseWindow('minute', MINUTE_MS), new LeaseWindow('day', DAY_MS)]
    const limits = { perMinute, perDay: 1000 }
    let sequence = 0
    const asks = (need: number, want: number): void => {
      const stated = { minute: minute.statement(false, 0), day: day.statement(false, 0) }
      const call = {
        client: 'client',
        process: name,
        sequence: ++sequence,
        since: 0,
        heard: undefined,
      }
      const reply = authority.take({ ...call, limits, ...stated, need, want })
      const at = { fresh: 0, sentMs: time.ms, receivedMs: time.ms }
      minute.apply(reply, { ...at, limit: limits.perMinute })
      day.apply(reply, { ...at, limit: limits.perDay })
    }
    return { minute, asks }
  }
  const one = processIn('one', 10)
  one.asks(1, 1)
  time.ms += 1100
  one.asks(0, 5)
  expect(one.minute.canSpend(10, time.ms)).toBe(true)
  processIn('other', 40).asks(20, 20)
  one.asks(0, 0)
  expect(one.minute.held - one.minute.used).toBeGreaterThan(0)
  expect(one.minute.canSpend(10, time.ms)).toBe(false)
  expect(one.minute.canSpend(40, time.ms)).toBe(true)
})

it('a refusal in memory ends with its window, as the authority told last', () => {
  const minute = new LeaseWindow('minute', MINUTE_MS)
  const index = Math.floor(START_MS / MINUTE_MS)
  const told = (leftMs: number): void => {
    const window = { index, held: 0, taken: 10, used: 10, resetMs: 0 }
    const nowMs = (index + 1) * MINUTE_MS - leftMs
    const at = { limit: 10, fresh: 0, sentMs: 0, receivedMs: 0 }
    minute.apply({ status: 'short', nowMs, minute: window, day: window, notice: undefined }, at)
  }
  told(30_000)
  minute.refuseUntil(minute.spendUntilMs, 10)
  expect(minute.isRefused(10, 29_000, 0)).toBe(true)
  // The authority's clock was set forward.
  told(28_000)
  expect(minute.isRefused(10, 27_000, 0)).toBe(true)
  expect(minute.isRefused(10, 29_000, 0)).toBe(false)
})

it('what a notice said during a call counts, also where the reply is older', () => {
  const minute = new LeaseWindow('minute', MINUTE_MS)
  const index = Math.floor(START_MS / MINUTE_MS)
  const answered = (taken: number): void => {
    const window = { index, held: 10, taken, used: 10, resetMs: 0 }
    const at = { limit: 100, fresh: 0, sentMs: 0, receivedMs: 0 }
    minute.apply(
      { status: 'granted', nowMs: START_MS, minute: window, day: window, notice: undefined },
      at,
    )
  }
  minute.statement(false, 0)
  // Of a minute in which the authority has not answered yet.
  minute.note({ index, taken: 50, held: 0 }, false)
  answered(40)
  const left = (): number => minute.remaining(100, 0)
  const before = left()
  minute.note({ index, taken: 45, held: 0 }, false)
  expect(left()).toBe(before)
  // Of an own call: all but the 20 that this process held then is of others.
  minute.note({ index, taken: 70, held: 20 }, true)
  expect(left()).toBe(before - 10)
  minute.note({ index: index + 1, taken: 90, held: 0 }, false)
  expect(left()).toBe(before - 10)
  // The next reply is newer, and says what was returned since.
  minute.statement(false, 0)
  answered(40)
  expect(left()).toBe(before + 10)
})
