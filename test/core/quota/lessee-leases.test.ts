import { beforeEach, describe, expect, it } from 'vitest'
import type { Lessee } from '../../../src/core/quota/lessee.ts'
import type { QuotaDecision } from '../../../src/core/quota/decision.ts'
import type { NoticeListener } from '../../../src/state/quota.ts'
import { admitted, all, behindNetwork, callOf, createTestLessee } from './lessee-harness.ts'

const limits = { perMinute: 1600, perDay: 100_000 }
/** floor(perMinute / 16) */
const MOST_AHEAD = 100

describe('a lessee that holds tokens ahead', () => {
  let { timeline, authority, network } = behindNetwork()
  beforeEach(() => void ({ timeline, authority, network } = behindNetwork()))

  /** Requests at an even pace; resolves with their decisions. */
  const steady = async (
    lessee: Lessee,
    { count, everyMs, of = limits }: { count: number; everyMs: number; of?: typeof limits },
  ): Promise<QuotaDecision[]> => {
    const decisions: (QuotaDecision | Promise<QuotaDecision>)[] = []
    for (let n = 0; n < count; n++) {
      decisions.push(lessee.take('acme', of))
      await timeline.pass(everyMs)
    }
    return all(decisions)
  }

  /** What the authority believes; the observer holds nothing. */
  const truth = async () => {
    const observed = { process: 'observer', sequence: timeline.time.ms, limits }
    const { minute, day } = await authority.take(callOf(observed))
    return { minute, day }
  }

  it('asks for what it will spend in ten seconds, as soon as the authority has heard from everybody', async () => {
    const lessee = createTestLessee(network, timeline)
    await steady(lessee, { count: 30, everyMs: 200 })
    const wanted = network.calls.map(({ want }) => want)
    expect(wanted[0]).toBe(1)
    // Five a second for ten seconds.
    expect(wanted.at(-1)).toBeGreaterThanOrEqual(45)
    expect(wanted.at(-1)).toBeLessThanOrEqual(60)
    // Five in the first second, when nothing is granted ahead; then hardly any.
    expect(network.calls.length).toBeLessThanOrEqual(8)
  })

  it('never asks for more than a sixteenth of the minute ahead', async () => {
    const lessee = createTestLessee(network, timeline)
    await steady(lessee, { count: 700, everyMs: 10 })
    expect(Math.max(...network.calls.map(({ want }) => want))).toBe(MOST_AHEAD)
  })

  it('asks for no more than the rest of the minute needs', async () => {
    const lessee = createTestLessee(network, timeline)
    // The minute began 10 s before the test.
    await steady(lessee, { count: 498, everyMs: 100 })
    const { minute } = await truth()
    expect(minute.used).toBeGreaterThan(400)
    expect(minute.taken - 498).toBeLessThanOrEqual(4)
  })

  it('begins the next call before the hold is spent, so that a busy client never waits', async () => {
    const lessee = createTestLessee(network, timeline)
    network.delayMs = 20
    await steady(lessee, { count: 200, everyMs: 10 })
    const decisions: (QuotaDecision | Promise<QuotaDecision>)[] = []
    for (let n = 0; n < 400; n++) {
      decisions.push(lessee.take('acme', limits))
      await timeline.pass(10)
    }
    expect(decisions.filter((one) => one instanceof Promise)).toEqual([])
    expect(network.calls.some(({ need, want }) => need === 0 && want > 0)).toBe(true)
  })

  it('states what it has spent of a lease once the client has been silent for six seconds', async () => {
    const lessee = createTestLessee(network, timeline)
    await steady(lessee, { count: 40, everyMs: 50 })
    const inHand = (await truth()).minute.taken - 40
    for (let n = 0; n < inHand; n++) admitted(await lessee.take('acme', limits))
    expect((await truth()).day.used).toBeLessThan(40 + inHand)
    await timeline.pass(6600)
    expect((await truth()).day).toMatchObject({ taken: 40 + inHand, used: 40 + inHand })
    network.calls.length = 0
    await timeline.pass(120_000)
    expect(network.calls).toEqual([])
  })

  it('returns what others wait for, though it heard of that during a call', async () => {
    const heard: NoticeListener[] = []
    const onNotice = (listener: NoticeListener): void => void heard.push(listener)
    const lessee = createTestLessee({ ...network, onNotice }, timeline)
    await steady(lessee, { count: 40, everyMs: 50 })
    network.delayMs = 20
    while (network.inFlight === 0) {
      void lessee.take('acme', limits)
      await timeline.pass(1)
    }
    for (const listener of heard) listener('acme', 'short', 'other')
    expect((await truth()).minute.taken).toBeGreaterThan(45)
    await timeline.pass(500)
    const { taken, used } = (await truth()).minute
    expect(taken).toBe(used)
  })

  it('asks once per request and holds nothing with lease off', async () => {
    const lessee = createTestLessee(network, timeline, { lease: 'off' })
    await steady(lessee, { count: 100, everyMs: 50 })
    expect(network.calls.map(({ need, want }) => [need, want])).toEqual(
      Array.from({ length: 100 }, () => [1, 1]),
    )
    expect((await truth()).minute).toMatchObject({ taken: 100, used: 100 })
  })

  it('keeps day tokens over the end of the minute, and takes no new ones for them', async () => {
    const lessee = createTestLessee(network, timeline)
    await timeline.pass(45_000)
    await steady(lessee, { count: 40, everyMs: 100 })
    const before = await truth()
    const inHand = before.day.taken - 40
    expect(inHand).toBeGreaterThan(5)
    await timeline.pass(60_000 - 10_000 - 49_000 + 5)
    admitted(await lessee.take('acme', limits))
    const after = await truth()
    expect(after.minute.index).toBe(before.minute.index + 1)
    const { day, minute } = network.calls.at(-1) ?? { day: undefined, minute: undefined }
    expect(day?.held).toBe(before.day.taken)
    expect(minute?.index).toBe(before.minute.index)
    expect(after.day.taken - 40).toBe(Math.max(inHand, after.minute.taken))
  })
})
