import { beforeEach, describe, expect, it } from 'vitest'
import { createEmbeddedAuthority } from '../../../src/state/memory/authority.ts'
import type { Lessee } from '../../../src/core/quota/lessee.ts'
import type { TakeRequest } from '../../../src/state/quota.ts'
import { admitted, atOnce, createTestLessee, createTimeline, refused } from './lessee-harness.ts'
import type { Timeline } from './lessee-harness.ts'

const limits = { perMinute: 3, perDay: 5 }
const MINUTE_END_S = Date.UTC(2100, 6, 1, 8, 31) / 1000
const DAY_END_S = Date.UTC(2100, 6, 2) / 1000

describe('a lessee of the embedded authority', () => {
  let timeline: Timeline
  let calls: TakeRequest[]
  let lessee: Lessee
  const take = (own = limits) => atOnce(lessee.take('acme', own))

  beforeEach(() => {
    timeline = createTimeline()
    const authority = createEmbeddedAuthority({ clock: timeline.clock })
    calls = []
    const noted = (request: TakeRequest) => {
      calls.push(request)
      return authority.take(request)
    }
    lessee = createTestLessee({ ...authority, take: noted }, timeline)
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

  it('knows where a client stands, although its first answer waited for the disk', async () => {
    const authority = createEmbeddedAuthority({ clock: timeline.clock })
    const late = { ...authority, take: async (request: TakeRequest) => authority.take(request) }
    const other = createTestLessee(late, timeline)
    expect(other.known('acme', limits)).toBeUndefined()
    await timeline.pass(1)
    expect(other.known('acme', limits)).toMatchObject({ minute: { remaining: 3 } })
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
    for (let n = 0; n < 2; n++) admitted(take(tight))
    expect(refused(take(tight))).toMatchObject({ window: 'day' })
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

  it('asks once for many requests, and gives back what a client that is idle has not spent', async () => {
    const ample = { perMinute: 1_000, perDay: 10_000 }
    for (let n = 0; n < 200; n++) {
      expect(admitted(take(ample)).view?.minute.remaining).toBe(999 - n)
      await timeline.pass(20)
    }
    expect(calls.length).toBeLessThan(100)
    await timeline.pass(10_000)
    expect(calls.at(-1)).toMatchObject({ need: 0, day: { used: 200, held: 200 } })
    await lessee.drain()
  })
})
