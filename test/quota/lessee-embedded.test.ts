import { beforeEach, describe, expect, it } from 'vitest'
import type { MemoryAuthority } from '../../src/quota/authorities/memory.ts'
import { createMemoryAuthority } from '../../src/quota/authorities/memory.ts'
import type { Lessee } from '../../src/quota/lessee/lessee.ts'
import type { TakeRequest } from '../../src/quota/protocol.ts'
import {
  admitted,
  atOnce,
  createTestLessee,
  createTimeline,
  refused,
  type Timeline,
} from './lessee-harness.ts'

const limits = { perMinute: 3, perDay: 5 }
const MINUTE_END_S = Date.UTC(2100, 6, 1, 8, 31) / 1000
const DAY_END_S = Date.UTC(2100, 6, 2) / 1000

describe('a lessee of the embedded authority', () => {
  let timeline: Timeline
  let authority: MemoryAuthority
  let calls: TakeRequest[]
  let lessee: Lessee
  const take = (client = 'acme', own = limits) => atOnce(lessee.take(client, own))

  beforeEach(() => {
    timeline = createTimeline()
    const real = createMemoryAuthority({ clock: timeline.clock })
    calls = []
    authority = {
      ...real,
      get size() {
        return real.size
      },
      take: (request) => {
        calls.push(request)
        return real.take(request)
      },
    }
    lessee = createTestLessee(authority, timeline)
  })

  it('admits exactly the limit, tells a remaining that falls by one, and then refuses', () => {
    for (const remaining of [2, 1, 0]) {
      expect(admitted(take()).view).toEqual({
        minute: { limit: 3, remaining, resetAtSeconds: MINUTE_END_S, resetAfterSeconds: 51 },
        day: {
          limit: 5,
          remaining: remaining + 2,
          resetAtSeconds: DAY_END_S,
          resetAfterSeconds: DAY_END_S - MINUTE_END_S + 51,
        },
      })
    }
    expect(refused(take())).toMatchObject({
      window: 'minute',
      limit: 3,
      retryAfterSeconds: 51,
      degraded: false,
      view: { minute: { remaining: 0 }, day: { remaining: 2 } },
    })
  })

  it('answers a flood of refusals from memory', () => {
    for (let n = 0; n < 4; n++) take()
    const before = calls.length
    for (let n = 0; n < 1000; n++) refused(take())
    expect(calls.length).toBe(before)
  })

  it('opens again with the next minute, and holds the day against both', async () => {
    for (let n = 0; n < 3; n++) admitted(take())
    refused(take())
    await timeline.pass(60_000)
    for (let n = 0; n < 2; n++) admitted(take())
    expect(refused(take())).toMatchObject({
      window: 'day',
      limit: 5,
      retryAfterSeconds: DAY_END_S - MINUTE_END_S - 10 + 1,
      view: { minute: { remaining: 1 }, day: { remaining: 0 } },
    })
    timeline.leap((DAY_END_S - MINUTE_END_S) * 1000)
    expect(admitted(take()).view).toMatchObject({ minute: { remaining: 2 }, day: { remaining: 4 } })
  })

  it('names the day when both windows are used up, as its wait is the longer one', () => {
    const tight = { perMinute: 2, perDay: 2 }
    for (let n = 0; n < 2; n++) admitted(take('acme', tight))
    expect(refused(take('acme', tight))).toMatchObject({ window: 'day' })
  })

  it.each([59_995, 59_999, 59_999.6])(
    'still refuses %s ms into a window, and no more at its end',
    async (refusedMs) => {
      timeline = createTimeline(MINUTE_END_S * 1000 - 60_000 + 0.4)
      lessee = createTestLessee(createMemoryAuthority({ clock: timeline.clock }), timeline)
      for (let n = 0; n < 3; n++) admitted(take())
      refused(take())
      await timeline.pass(refusedMs - 0.4)
      expect(refused(take())).toMatchObject({ degraded: false, retryAfterSeconds: 1 })
      timeline.time.ms = MINUTE_END_S * 1000
      admitted(take())
    },
  )

  it('never refuses a client twice by one window if it waits for Retry-After', async () => {
    for (let offsetMs = 0; offsetMs < 120_000; offsetMs += 7919.37) {
      timeline = createTimeline(Date.UTC(2100, 6, 1, 8, 30) + offsetMs)
      lessee = createTestLessee(createMemoryAuthority({ clock: timeline.clock }), timeline)
      const single = { perMinute: 1, perDay: 100 }
      admitted(take('acme', single))
      await timeline.pass(offsetMs / 50)
      const decision = take('acme', single)
      if (decision.kind !== 'refused') continue
      expect(decision.retryAfterSeconds).toBeLessThanOrEqual(61)
      await timeline.pass(decision.retryAfterSeconds * 1000)
      admitted(take('acme', single))
    }
  })

  it('lets a raised limit act at once, in spite of a remembered refusal', () => {
    for (let n = 0; n < 3; n++) take()
    refused(take())
    expect(admitted(take('acme', { perMinute: 5, perDay: 5 })).view?.minute).toMatchObject({
      limit: 5,
      remaining: 1,
    })
    refused(take())
  })

  it('lets a lowered limit act at once and says that nothing remains', () => {
    take()
    take()
    expect(refused(take('acme', { perMinute: 1, perDay: 5 })).view?.minute).toMatchObject({
      limit: 1,
      remaining: 0,
    })
  })

  it('keeps clients apart', () => {
    for (let n = 0; n < 3; n++) admitted(take('acme'))
    refused(take('acme'))
    admitted(take('other'))
  })

  it('shows where a client stands without charging', () => {
    take()
    for (let n = 0; n < 5; n++) {
      expect(lessee.peek('acme', limits)).toMatchObject({
        minute: { remaining: 2 },
        day: { remaining: 4 },
      })
    }
    expect(lessee.peek('never seen', limits)).toMatchObject({
      minute: { limit: 3, remaining: 3, resetAtSeconds: MINUTE_END_S },
    })
    expect(admitted(take('never seen')).view?.minute.remaining).toBe(2)
  })

  it('hands a charge back at once, also after a refusal', () => {
    const first = admitted(take())
    take()
    take()
    refused(take())
    lessee.refund('acme', first)
    expect(calls.at(-1)).toMatchObject({
      need: 0,
      minute: { used: 2, held: 2 },
      day: { used: 2, held: 2 },
    })
    expect(lessee.peek('acme', limits)).toMatchObject({ minute: { remaining: 1 } })
    expect(admitted(take()).view?.minute.remaining).toBe(0)
    refused(take())
  })

  it('hands back only to the windows that still run', async () => {
    const first = admitted(take())
    await timeline.pass(60_000)
    take()
    lessee.refund('acme', first)
    expect(lessee.peek('acme', limits)).toMatchObject({
      minute: { remaining: 2 },
      day: { remaining: 4 },
    })
    timeline.leap(86_400_000)
    take()
    lessee.refund('acme', first)
    expect(lessee.peek('acme', limits)).toMatchObject({
      minute: { remaining: 2 },
      day: { remaining: 4 },
    })
  })

  it('forgets clients that are idle for an hour, and their counts stay', async () => {
    for (let n = 0; n < 2; n++) take()
    const { sequence, process } = calls.at(-1) ?? {}
    await timeline.pass(3_700_000)
    for (let n = 0; n < 3; n++) admitted(take())
    expect(calls.at(-1)).toMatchObject({ process, since: sequence })
    expect(refused(take())).toMatchObject({ window: 'day' })
  })

  it('remembers a bounded number of clients without losing a count', () => {
    lessee = createTestLessee(authority, timeline, { maxClients: 10 })
    const used = new Map<string, number>()
    for (let n = 0; n < 2000; n++) {
      const client = `client-${(n * 7919) % 100}`
      if (take(client).kind === 'admitted') used.set(client, (used.get(client) ?? 0) + 1)
    }
    expect([...used.values()]).toEqual(Array.from({ length: 100 }, () => 3))
    expect(new Set(calls.map((call) => call.since)).size).toBeGreaterThan(100)
    expect(new Set(calls.map((call) => call.process)).size).toBe(1)
  })
})
