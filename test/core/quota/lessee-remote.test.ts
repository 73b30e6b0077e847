import { setImmediate as turn } from 'node:timers/promises'
import { beforeEach, describe, expect, it } from 'vitest'
import { StoreClock } from '../../../src/state/store-clock.ts'
import { controlledMemoryAuthority } from '../../support/controlled-authority.ts'
import { admitted, all, atOnce, behindNetwork, callOf, createNetwork } from './lessee-harness.ts'
import { createTestLessee, refused } from './lessee-harness.ts'

const limits = { perMinute: 10, perDay: 100 }

describe('a lessee of an authority behind a network', () => {
  let { timeline, authority, network } = behindNetwork()
  beforeEach(() => void ({ timeline, authority, network } = behindNetwork()))

  /** What the authority believes, asked by a process that holds nothing. */
  const truth = async (client = 'acme') => {
    const process = `observer-${timeline.time.ms}`
    const observed = { client, process, sequence: Date.now(), limits }
    const reply = await authority.take(callOf(observed))
    return { minute: reply.minute.taken, day: reply.day.taken, used: reply.minute.used }
  }

  /** Another process that lives, until all know each other. */
  const another = async (): Promise<void> => {
    for (let beat = 0; beat < 3; beat++) {
      await authority.beat?.({ process: 'other', isLast: false })
      await timeline.pass(1000)
    }
  }

  it('lets all who wait share the next call, and tells each its own remaining', async () => {
    const lessee = createTestLessee(network, timeline)
    network.delayMs = 10
    const decisions = Array.from({ length: 6 }, () => lessee.take('acme', limits))
    await timeline.pass(100)
    const views = (await all(decisions)).map((one) => admitted(one).view?.minute.remaining)
    expect(views).toEqual([9, 8, 7, 6, 5, 4])
    expect(network.calls.map((call) => call.need)).toEqual([1, 5])
    expect(network.mostInFlight).toBe(1)
  })

  it('decides requests of one client under different limits by their own, in a bounded number of calls', async () => {
    const small = { perMinute: 5, perDay: 100 }
    const large = { perMinute: 20, perDay: 100 }
    const lessee = createTestLessee(network, timeline)
    for (let n = 0; n < 5; n++) await lessee.take('acme', small)
    network.delayMs = 2
    const plans = Array.from({ length: 30 }, (_, n) => (n % 2 === 0 ? small : large))
    const decisions = all(plans.map((own) => lessee.take('acme', own)))
    await timeline.pass(100)
    const kinds = (await decisions).map(({ kind }) => kind)
    expect(kinds).toEqual(plans.map((own) => (own === small ? 'refused' : 'admitted')))
    expect(network.calls.length).toBeLessThan(12)
  })

  it('gives no token that is meant for one request to another under other limits', async () => {
    const small = { perMinute: 3, perDay: 50 }
    const large = { perMinute: 3, perDay: 100 }
    const lessee = createTestLessee(network, timeline, { lease: 'off' })
    network.delayMs = 10
    const decisions = all([small, small, large, small].map((own) => lessee.take('acme', own)))
    await timeline.pass(200)
    expect((await decisions).filter(({ kind }) => kind === 'admitted')).toHaveLength(3)
  })

  it('refuses those who queued behind a definite refusal without a further call', async () => {
    const lessee = createTestLessee(network, timeline)
    for (let n = 0; n < 10; n++) admitted(await lessee.take('acme', limits))
    network.delayMs = 10
    const before = network.calls.length
    const decisions = Array.from({ length: 50 }, () => lessee.take('acme', limits))
    await timeline.pass(100)
    for (const decision of decisions) refused(await decision)
    expect(network.calls.length).toBe(before + 1)
    refused(atOnce(lessee.take('acme', limits)))
  })

  it('lets as many wait on as charges were handed back meanwhile, and refuses the others at once', async () => {
    const lessee = createTestLessee(network, timeline)
    const spent = await all(Array.from({ length: 10 }, () => lessee.take('acme', limits)))
    network.delayMs = 40
    const waiting = Array.from({ length: 20 }, () => lessee.take('acme', limits))
    await timeline.pass(30)
    for (const decision of spent.slice(0, 2)) lessee.refund('acme', admitted(decision))
    await timeline.pass(10)
    // Those who wait are before whoever comes later.
    expect(refused(atOnce(lessee.take('acme', limits))).view?.minute.remaining).toBe(0)
    expect(network.calls.at(-1)).toMatchObject({ need: 2 })
    for (const late of await all(waiting.slice(2)))
      expect(refused(late).view).toMatchObject({ minute: { remaining: 0 }, day: { remaining: 90 } })
    await timeline.pass(40)
    for (const early of await all(waiting.slice(0, 2))) admitted(early)
    expect(await truth()).toEqual({ minute: 10, day: 10, used: 10 })
  })

  it('asks again soon when others hold tokens that are not spent', async () => {
    await authority.take(callOf({ limits }))
    timeline.time.ms += 2000
    const { minute, day } = await authority.take(callOf({ limits, sequence: 2, want: 5 }))
    expect(minute.held).toBe(5)
    const lessee = createTestLessee(network, timeline)
    for (let n = 0; n < 5; n++) admitted(await lessee.take('acme', limits))
    const short = lessee.take('acme', limits)
    await timeline.pass(10)
    expect(refused(await short).view?.minute.remaining).toBe(0)
    refused(atOnce(lessee.take('acme', limits)))
    const stated = {
      minute: { index: minute.index, used: 1, held: 1 },
      day: { index: day.index, used: 1, held: 1 },
    }
    await authority.take(callOf({ limits, sequence: 3, ...stated }))
    await timeline.pass(101)
    for (let n = 0; n < 4; n++) admitted(await lessee.take('acme', limits))
    refused(await lessee.take('acme', limits))
  })

  it.each([
    { replies: 'at once', delayMs: 0 },
    { replies: 'late', delayMs: 180 },
  ])('asks again behind the end of a window if replies come $replies', async ({ delayMs }) => {
    timeline.time.ms += 0.4
    const endMs = Math.ceil(timeline.time.ms / 60_000) * 60_000
    const other = createTestLessee(createNetwork(authority, timeline), timeline)
    const lessee = createTestLessee(network, timeline, { processId: 'q' })
    for (let n = 0; n < 10; n++) admitted(await other.take('acme', limits))
    refused(await other.take('acme', limits))
    network.delayMs = delayMs
    const slow = lessee.take('acme', limits)
    await timeline.pass(300)
    refused(await slow)
    const before = network.calls.length
    await timeline.pass(endMs - delayMs / 2 - 6 - timeline.time.ms)
    refused(atOnce(lessee.take('acme', limits)))
    expect(network.calls.length).toBe(before)
    network.delayMs = 0
    // Shortly before it, too, as clocks are not exact; who asks is answered, not kept waiting.
    await timeline.pass(endMs - 3 - timeline.time.ms)
    refused(await other.take('acme', limits))
    timeline.time.ms = endMs
    for (const one of [lessee, other]) admitted(await one.take('acme', limits))
    expect(network.calls.length).toBe(before + 1)
  })

  it('gives everything back when it drains', async () => {
    const lessee = createTestLessee(network, timeline)
    const clients = Array.from({ length: 200 }, (_, n) => `client-${n}`)
    for (const client of clients) lessee.refund(client, admitted(await lessee.take(client, limits)))
    network.delayMs = 10
    // A look is under way, and a request whose client has left waits for the call behind it.
    void lessee.peek('late', limits)
    const late = Promise.resolve(lessee.take('late', limits))
    void late.then((decision) => lessee.refund('late', admitted(decision)))
    const drained = lessee.drain()
    await timeline.pass(15)
    // What fails at first is tried again.
    for (const state of ['down', 'down', 'up'] as const) {
      await turn()
      network.state = state
      await timeline.pass(100)
    }
    await drained
    for (const client of [...clients, 'late'])
      expect(await truth(client)).toMatchObject({ minute: 0, day: 0 })
    expect(network.mostInFlight).toBeLessThanOrEqual(64)
  })

  it('ends a drain in time although the authority is silent', async () => {
    const lessee = createTestLessee(network, timeline)
    lessee.refund('acme', admitted(await lessee.take('acme', limits)))
    network.delayMs = 1e9
    const drained = lessee.drain()
    await timeline.pass(2000)
    await drained
  })

  describe('when calls fail', () => {
    it.each([
      ['they are lost', 'closed'],
      ['spending no share, as the authority is not away', 'local'],
    ] as const)('decides at once, %s: all who wait, also for the next call', async (_, outage) => {
      const lessee = createTestLessee(network, timeline, { outage })
      network.delayMs = 100
      network.state = 'down'
      const decisions = Array.from({ length: 5 }, () => lessee.take('acme', limits))
      const look = lessee.peek('acme', limits)
      await timeline.pass(50)
      expect(await all(decisions)).toEqual(decisions.map(() => ({ kind: 'unavailable' })))
      expect(await look).toBeUndefined()
      expect(network.calls.length).toBe(1)
    })
  })

  describe('while the authority is away', () => {
    it('decides synchronously, up to its last known share', async () => {
      await authority.take(callOf({ limits, need: 3 }))
      const lessee = createTestLessee(network, timeline)
      await another()
      for (let n = 0; n < 2; n++) admitted(await lessee.take('acme', limits))
      network.state = 'away'
      // Half of the five that were left is its own; of this client the odd one goes to the other.
      for (let n = 0; n < 2; n++)
        expect(admitted(atOnce(lessee.take('acme', limits)))).toMatchObject({
          degraded: true,
          view: undefined,
        })
      expect(atOnce(lessee.take('acme', limits))).toEqual({ kind: 'unavailable' })
      expect(lessee.peek('unknown', limits)).toBeUndefined()
      network.state = 'up'
      await timeline.pass(1000)
      expect(await truth()).toEqual({ minute: 7, day: 7, used: 7 })
    })

    it('refuses nobody by a window that may be over', async () => {
      const endMs = Math.ceil(timeline.time.ms / 60_000) * 60_000
      const lessee = createTestLessee(network, timeline)
      network.delayMs = 100
      const asked = Array.from({ length: 10 }, () => lessee.take('acme', limits))
      await timeline.pass(200)
      for (const decision of await all(asked)) admitted(decision)
      network.state = 'away'
      const passUntil = (ms: number): Promise<void> => timeline.pass(endMs + ms - timeline.time.ms)
      // It was told of the end on the way of the latest reply, between 50 ms early and 50 ms late.
      await passUntil(-60)
      expect(refused(atOnce(lessee.take('acme', limits)))).toMatchObject({ degraded: true })
      for (const ms of [0, 45]) {
        await passUntil(ms)
        expect(atOnce(lessee.take('acme', limits))).toEqual({ kind: 'unavailable' })
      }
      await passUntil(60)
      expect(admitted(atOnce(lessee.take('acme', limits)))).toMatchObject({ degraded: true })
    })

    it('starts each minute and day anew, and refuses by the day when that is used up', async () => {
      const lessee = createTestLessee(network, timeline)
      network.state = 'away'
      const tight = { perMinute: 2, perDay: 3 }
      const kinds = () => [1, 2, 3].map(() => atOnce(lessee.take('acme', tight)).kind)
      expect(kinds()).toEqual(['admitted', 'admitted', 'refused'])
      await timeline.pass(60_000)
      expect(kinds()).toEqual(['admitted', 'refused', 'refused'])
      expect(refused(atOnce(lessee.take('acme', tight))).window).toBe('day')
      timeline.leap(86_400_000)
      expect(kinds()).toEqual(['admitted', 'admitted', 'refused'])
    })

    it('hands a degraded charge back to its own count', () => {
      const lessee = createTestLessee(network, timeline)
      network.state = 'away'
      const single = { perMinute: 1, perDay: 3 }
      const first = admitted(atOnce(lessee.take('acme', single)))
      refused(atOnce(lessee.take('acme', single)))
      lessee.refund('acme', first)
      admitted(atOnce(lessee.take('acme', single)))
    })

    it('still knows what is certain: a used-up window stays a true refusal', async () => {
      const lessee = createTestLessee(network, timeline)
      for (let n = 0; n < 11; n++) await lessee.take('acme', limits)
      network.state = 'away'
      expect(refused(atOnce(lessee.take('acme', limits)))).toMatchObject({
        degraded: false,
        view: { minute: { remaining: 0 } },
      })
    })
  })

  /** One whose authority has a clock of its own. */
  const networkAhead = (byMs: () => number) => {
    const ahead = {
      get ms() {
        return timeline.time.ms + byMs()
      },
    }
    return createNetwork(controlledMemoryAuthority(ahead), timeline)
  }

  it('tells once of each time that the clock of the authority goes back by more than a small skew', async () => {
    const told: number[] = []
    let aheadMs = 0
    network = networkAhead(() => aheadMs)
    const onClockBack = (bySeconds: number): void => void told.push(bySeconds)
    const lessee = createTestLessee(network, timeline, { onClockBack })
    const own = { perMinute: 1000, perDay: 10_000 }
    const asked = async (aheadNowMs: number, clients: number): Promise<number[]> => {
      aheadMs = aheadNowMs
      for (let n = 0; n < clients; n++) await lessee.take(`client-${n}`, own)
      return told.splice(0)
    }
    expect(await asked(3_600_000, 10)).toEqual([])
    expect(await asked(3_540_000, 10)).toEqual([])
    expect(await asked(0, 5)).toEqual([3600])
    // The rest was told of the same wrong time.
    expect(await asked(0, 10)).toEqual([])
    expect(await asked(600_000, 10)).toEqual([])
    expect(await asked(0, 10)).toEqual([600])
  })

  it('sets a clock by each reply, which no late one sets back', async () => {
    const hourMs = 3_600_000
    network = networkAhead(() => hourMs)
    const storeClock = new StoreClock(timeline.clock)
    const onTime = (storeMs: number, tookMs: number): void => storeClock.set(storeMs, tookMs)
    const lessee = createTestLessee(network, timeline, { onTime })
    expect(storeClock.nowMs()).toBe(timeline.time.ms)
    for (const [client, delayMs] of [
      ['a', 2],
      ['b', 90],
      ['c', 40],
    ] as const) {
      network.delayMs = delayMs
      const decided = lessee.take(client, { perMinute: 10, perDay: 10 })
      await timeline.pass(100)
      await decided
      expect(Math.abs(storeClock.nowMs() - timeline.time.ms - hourMs)).toBeLessThanOrEqual(2)
    }
  })
})
