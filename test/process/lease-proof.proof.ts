/**
 * The quota protocol with real processes on a real Redis, in real UTC minutes: exact while gateways are killed and stopped,
 * and exact, complete and cheap while all is well. Two fleets of four gateways run through the same minutes.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { atEnd } from '../support/ending.ts'
import { dayWithAtLeast } from '../support/utc-windows.ts'
import { eventually, pick, times } from './gateways.ts'
import {
  byMinute,
  columns,
  emptyRow,
  expectExact,
  expectNothingHeld,
  expectTrueCounters,
  fleet,
  MINUTE_MS,
  minuteOf,
  playFaults,
  random,
  sampleCounters,
  untilTime,
  type Fleet,
} from './lease-fleet.ts'
import { startCountingBackend, type Call, type CountingBackend } from './paced-callers.ts'

const GATEWAYS = 4

const faulted = [
  { id: 'f60', perMinute: 60, perSecond: 3 },
  { id: 'f300', perMinute: 300, perSecond: 10 },
  { id: 'f3000', perMinute: 3_000, perSecond: 100 },
]
/**
 * Each is offered twice its limit; callsEach: store calls per admitted request, at most. A starved process asks in smaller and more
 * steps, so this is twice what a quiet machine needs (`npm run bench:growth`).
 */
const steady = [
  { id: 's300', perMinute: 300, perSecond: 10, callsEach: 0.25 },
  { id: 's1000', perMinute: 1_000, perSecond: 2_000 / 60, callsEach: 0.1 },
  { id: 's4500', perMinute: 4_500, perSecond: 150, callsEach: 0.08 },
]

const table: string[] = []
const row = (...cells: readonly (string | number)[]): void =>
  void table.push(`| ${cells.join(' | ')} |`)
row('client', 'minute', ...columns, 'store calls', 'calls per admitted')

let backend: CountingBackend
let faults: Awaited<ReturnType<typeof playFaults>>
let samples: Awaited<ReturnType<typeof sampleCounters>>
let fleets: Record<'faulted' | 'steady', Fleet>
let exitCodes: Record<'faulted' | 'steady', (number | null)[]>
let minute: number
let ownCounts: Awaited<ReturnType<typeof countsOf>>
const callsOf = (client: string): Call[] => backend.calls.filter((call) => call.client === client)

beforeAll(async () => {
  await dayWithAtLeast(4 * MINUTE_MS)
  backend = await startCountingBackend()
  atEnd(backend.close)
  fleets = {
    steady: await fleet(backend, { clients: steady, size: GATEWAYS }),
    faulted: await fleet(backend, { clients: faulted, size: GATEWAYS }),
  }
  const startMs = Math.ceil((Date.now() + 6_000) / MINUTE_MS) * MINUTE_MS
  const endMs = startMs + MINUTE_MS
  minute = minuteOf(startMs)

  const stopFaulted = fleets.faulted.offer(faulted, random)
  const runSteady = async (): Promise<void> => {
    let turn = 0
    await untilTime(startMs - 2_000)
    const stop = fleets.steady.offer(steady, (up) => pick(up, turn++))
    await untilTime(endMs + 100)
    await stop()
  }
  const untilMs = endMs + 3_000
  ;[faults, samples] = await Promise.all([
    playFaults(fleets.faulted, { stops: [startMs, endMs], untilMs, pauseMs: 2_000 }),
    sampleCounters(fleets.faulted, { untilMs, pauseMs: 1_000 }),
    runSteady(),
  ])
  // Until everyone left has been heard of.
  await eventually('all gateways call Redis', () => survivors().size === GATEWAYS)
  await stopFaulted()
  ownCounts = await countsOf(fleets.steady)
  exitCodes = { faulted: await fleets.faulted.drain(), steady: await fleets.steady.drain() }
}, 500_000)

afterAll(() => console.log(table.join('\n')))

/** Who has called Redis since the one after the last kill was up. */
const survivors = (): Set<string> => fleets.faulted.heard(faults.overMs)

/** What the gateways say of themselves, and Redis of them, with no call under way. */
async function countsOf({ up, watch }: Fleet) {
  const sum = async (name: string): Promise<number> => {
    const all = up().map(({ gateway }) => gateway.metric(name))
    return (await Promise.all(all)).reduce((total, value) => total + value, 0)
  }
  const calls = (outcome: string) => sum(`tollgate_store_calls_total{outcome="${outcome}"}`)
  for (;;) {
    const atRedis = watch.calls.length
    const [ok, timeout, error] = [await calls('ok'), await calls('timeout'), await calls('error')]
    const degraded = await sum('tollgate_degraded_decisions_total{mode="closed"}')
    await sleep(50)
    if (atRedis === watch.calls.length) return { atRedis, ok, failed: timeout + error, degraded }
  }
}

describe('four gateways on one Redis, killed every few seconds and stopped across the ends of minutes', () => {
  it('were killed and stopped indeed, and the rest ended in order', () => {
    const { kills, stops } = faults
    table.push(`under faults: ${kills} kills, ${stops} stops across the end of a minute`)
    // About a dozen, fewer where starts take long.
    expect(kills).toBeGreaterThanOrEqual(3)
    expect(stops).toBe(2)
    expect(exitCodes.faulted).toEqual(times(GATEWAYS, () => 0))
    expect(backend.strays).toEqual([])
  })

  it.each(faulted)('never admit more than $perMinute a minute', (client) => {
    expectExact(client, callsOf(client.id))
    const minutes = byMinute(callsOf(client.id))
    for (const [at, counts] of minutes)
      row(client.id, at - minute, ...columns.map((name) => counts[name]), '', '')
    const whole = minutes.get(minute)
    expect(whole?.offered).toBeGreaterThan(client.perMinute)
    expect(whole?.charged).toBeGreaterThan(0)
    expect(whole?.refused).toBeGreaterThan(0)
  })

  it('keep counters in Redis that at no time tell less than what was admitted, or more than the limit', () => {
    table.push(`counters read ${samples.length} times`)
    expectTrueCounters(samples)
  })

  it.each(faulted)(
    'leave nothing of $perMinute a minute behind but what killed ones held',
    async (client) => {
      const counters = await fleets.faulted.counters(client.id)
      expect(survivors().size).toBe(GATEWAYS)
      expectNothingHeld(client, { counters, calls: callsOf(client.id), survivors: survivors() })
    },
  )
})

describe('four gateways on one Redis, through one whole UTC minute', () => {
  it.each(steady)(
    'admit $perMinute of twice as many, with at most $callsEach calls to Redis each',
    async (client) => {
      expectExact(client, callsOf(client.id))
      const { id, perMinute, callsEach } = client
      const whole = byMinute(callsOf(id)).get(minute) ?? emptyRow
      const storeCalls = fleets.steady.watch.calls.filter(
        (call) => call.client === id && minuteOf(call.atMs) === minute,
      ).length
      const each = storeCalls / whole.charged
      row(id, 0, ...columns.map((name) => whole[name]), storeCalls, each.toFixed(4))
      expect(whole.offered, 'the machine is too busy to offer more').toBeGreaterThan(perMinute)
      // Whoever got a 503 could have been admitted.
      expect(whole.charged + whole.unavailable).toBeGreaterThanOrEqual(0.995 * perMinute)
      expect(each).toBeLessThanOrEqual(callsEach)

      const seen = callsOf(id).filter(({ seenMs }) => seenMs !== undefined).length
      const { dayTaken, dayUsed } = await fleets.steady.counters(id)
      expect({ dayTaken, dayUsed }).toEqual({ dayTaken: seen, dayUsed: seen })
    },
  )

  it('tell how often they called Redis, and what they could not decide', () => {
    expect(exitCodes.steady).toEqual(times(GATEWAYS, () => 0))
    const { atRedis, ok, failed, degraded } = ownCounts
    table.push(`without: ${atRedis} calls to Redis, of which ${failed} failed, warm-up included`)
    expect(atRedis).toBeGreaterThanOrEqual(ok)
    // Of those that failed some may never have reached it.
    expect(atRedis).toBeLessThanOrEqual(ok + failed)
    const unavailable = steady.flatMap(({ id }) => callsOf(id).filter((c) => c.status === 503))
    expect(degraded).toBe(unavailable.length)
  })
})
