/**
 * The quota protocol with real processes on a real Redis, in real UTC minutes: exact while gateways are killed and stopped,
 * and exact, complete and cheap while all is well. Two fleets of four gateways run through the same minutes.
 *
 * A gateway that waits for the processor too long to hear from Redis answers 503 (store.onOutage is closed), so that every
 * admission is one that Redis has granted, however busy the machine is.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { quotaKey } from '../../src/quota/authorities/redis.ts'
import type { RedisServer } from '../support/redis-server.ts'
import { dayWithAtLeast } from '../support/utc-windows.ts'
import {
  clientsBlock,
  configFile,
  endAll,
  eventually,
  gatewayProcess,
  pick,
  redisServer,
  times,
  type GatewayProcess,
} from './gateways.ts'
import {
  atPace,
  countersInRedis,
  openDoor,
  startCountingBackend,
  watchStoreCalls,
  type Call,
  type CountersInRedis,
  type CountingBackend,
  type Door,
  type StoreWatch,
} from './paced-callers.ts'

const MINUTE_MS = 60_000
const PER_DAY = 1_000_000
const GATEWAYS = 4

/** Each is offered more than its limit. */
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
type OfferedClient = Omit<(typeof steady)[number], 'callsEach'>

interface Member {
  readonly gateway: GatewayProcess
  readonly door: Door
}

interface Fleet {
  readonly redis: RedisServer
  readonly watch: StoreWatch
  /** undefined: killed, and the next one is not up yet. */
  readonly members: (Member | undefined)[]
  start(): Promise<Member>
  /** Offers every client its pace, each call through one member. The result stops it, and waits for the answers. */
  offer(clients: readonly OfferedClient[], choose: (up: Member[]) => Member): () => Promise<void>
  counters(client: string): Promise<CountersInRedis>
  /** SIGTERM to all. Resolves with their exit codes. */
  drain(): Promise<(number | null)[]>
}

const minuteOf = (ms: number): number => Math.floor(ms / MINUTE_MS)
const untilTime = (ms: number): Promise<void> => sleep(Math.max(0, ms - Date.now()))
const random = <Item>(list: readonly Item[]): Item =>
  pick(list, Math.floor(Math.random() * list.length))
const isUp = (member: Member | undefined): member is Member => member !== undefined

const cleanups: (() => unknown)[] = []
async function fleet(backend: CountingBackend, clients: readonly OfferedClient[]): Promise<Fleet> {
  const redis = await redisServer()
  const watch = await watchStoreCalls(redis.port)
  cleanups.push(watch.close)
  const file = configFile(backend.url, {
    store: `store: { redis: "${redis.url}", timeout: 110ms, onOutage: closed, lease: auto }`,
    // No strikes within a minute: bans are another matter.
    bans: 'bans: { grace: 1m }',
    log: 'log: { access: false }',
    clients: clientsBlock(
      clients.map(({ id, perMinute }) => ({ id, keys: [`tg_${id}`], perMinute, perDay: PER_DAY })),
    ),
  })
  const doors: Door[] = []
  const start = async (): Promise<Member> => {
    const gateway = await gatewayProcess(file)
    const door = openDoor(gateway.origin, backend.calls)
    doors.push(door)
    cleanups.push(door.close)
    return { gateway, door }
  }
  const members: (Member | undefined)[] = await Promise.all(times(GATEWAYS, start))
  return {
    redis,
    watch,
    members,
    start,
    offer: (offered, choose) => {
      const stops = offered.map(({ id, perSecond }) =>
        atPace(perSecond, () => choose(members.filter(isUp)).door.send(id, `tg_${id}`)),
      )
      return async () => {
        for (const stop of stops) stop()
        await eventually('all answered', () => doors.every(({ inFlight }) => inFlight === 0))
      }
    },
    counters: (client) => countersInRedis(redis.port, quotaKey('tollgate', client)),
    drain: () =>
      Promise.all(
        members.filter(isUp).map(async ({ gateway }) => {
          gateway.signal('SIGTERM')
          return (await gateway.finished).code
        }),
      ),
  }
}

/** Gateways are killed and replaced every few seconds, and one is stopped across each of the minute ends. */
async function playFaults(fleet: Fleet, minuteEnds: readonly number[], untilMs: number) {
  const { members } = fleet
  const stopped = new Set<number>()
  const done = { kills: 0, stops: 0, overMs: 0 }
  const someone = (): number =>
    random([...members.keys()].filter((at) => isUp(members[at]) && !stopped.has(at)))
  const killing = async (): Promise<void> => {
    while (Date.now() < untilMs) {
      await sleep(2_000 + 2_000 * Math.random())
      const at = someone()
      const member = members[at]
      members[at] = undefined
      member?.gateway.signal('SIGKILL')
      await member?.gateway.finished
      done.kills += 1
      members[at] = await fleet.start()
    }
  }
  const stopping = async (): Promise<void> => {
    for (const endMs of minuteEnds) {
      await untilTime(endMs - 500 - 1_500 * Math.random())
      const at = someone()
      stopped.add(at)
      members[at]?.gateway.signal('SIGSTOP')
      await untilTime(endMs + 1_000 + 1_500 * Math.random())
      members[at]?.gateway.signal('SIGCONT')
      stopped.delete(at)
      done.stops += 1
    }
  }
  await Promise.all([killing(), stopping()])
  done.overMs = Date.now()
  return done
}

interface Sample {
  readonly client: OfferedClient
  /** Calls that a backend had seen before the counters were read. */
  readonly seen: number
  readonly counters: CountersInRedis
}

/** Reads what Redis has of the clients once a second. */
async function sampleCounters(
  { counters }: Fleet,
  { backend, untilMs }: { backend: CountingBackend; untilMs: number },
): Promise<Sample[]> {
  const samples: Sample[] = []
  while (Date.now() < untilMs) {
    for (const client of faulted) {
      const seen = backend.seen(client.id)
      samples.push({ client, seen, counters: await counters(client.id) })
    }
    await sleep(1_000)
  }
  return samples
}

const columns = [
  'offered',
  'charged',
  'byTheClock',
  'refused',
  'unavailable',
  'cut',
  'lost',
] as const
type Column = (typeof columns)[number]
const emptyRow = Object.fromEntries(columns.map((name) => [name, 0])) as Record<Column, number>

/** Calls of one client by UTC minute: as charged, as the headers tell it, and as sent and seen by the clock on the wall. */
function byMinute(calls: readonly Call[]) {
  const minutes = new Map<number, typeof emptyRow>()
  const add = (minute: number, column: Column): void => {
    const row = minutes.get(minute) ?? { ...emptyRow }
    row[column] += 1
    minutes.set(minute, row)
  }
  for (const { status, sentMs, seenMs, resetSeconds } of calls) {
    const sentIn = minuteOf(sentMs)
    add(sentIn, 'offered')
    if (status === 429) add(sentIn, 'refused')
    if (Number(status) >= 500) add(sentIn, 'unavailable')
    if (status === undefined) add(sentIn, seenMs === undefined ? 'lost' : 'cut')
    // Without an answer, since a kill has cut it: charged while it was under way.
    if (status === 200) add(Number(resetSeconds) / 60 - 1, 'charged')
    else if (seenMs !== undefined && minuteOf(seenMs) === sentIn) add(sentIn, 'charged')
    if (seenMs !== undefined && minuteOf(seenMs) === sentIn) add(sentIn, 'byTheClock')
  }
  return minutes
}
const table: string[] = []
const row = (...cells: readonly (string | number)[]): void =>
  void table.push(`| ${cells.join(' | ')} |`)
row('client', 'minute', ...columns, 'store calls', 'calls per admitted')

let backend: CountingBackend
let faults: Awaited<ReturnType<typeof playFaults>>
let samples: Sample[]
let fleets: Record<'faulted' | 'steady', Fleet>
let exitCodes: Record<'faulted' | 'steady', (number | null)[]>
let minute: number
let ownCounts: Awaited<ReturnType<typeof countsOf>>
const callsOf = (client: string): Call[] => backend.calls.filter((call) => call.client === client)

beforeAll(async () => {
  await dayWithAtLeast(4 * MINUTE_MS)
  backend = await startCountingBackend()
  cleanups.push(backend.close)
  fleets = { steady: await fleet(backend, steady), faulted: await fleet(backend, faulted) }
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
    playFaults(fleets.faulted, [startMs, endMs], untilMs),
    sampleCounters(fleets.faulted, { backend, untilMs }),
    runSteady(),
  ])
  // Until everyone left has been heard of.
  await eventually('all gateways call Redis', () => survivors().size === GATEWAYS)
  await stopFaulted()
  ownCounts = await countsOf(fleets.steady)
  exitCodes = { faulted: await fleets.faulted.drain(), steady: await fleets.steady.drain() }
}, 500_000)

afterAll(async () => {
  console.log(table.join('\n'))
  await endAll()
  for (const cleanup of cleanups) await cleanup()
})

/** Who has called Redis since the one after the last kill was up. */
const survivors = (): Set<string> =>
  new Set(
    fleets.faulted.watch.calls
      .filter(({ atMs }) => atMs > faults.overMs)
      .map(({ process }) => process),
  )

/** What the gateways say of themselves, and Redis of them, with no call under way. */
async function countsOf({ members, watch }: Fleet) {
  const sum = async (name: string): Promise<number> => {
    const all = members.filter(isUp).map(({ gateway }) => gateway.metric(name))
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

/** A refusal that the backend saw, or an admission charged to a minute that did not run while the call was under way. */
function isWrong({ status, sentMs, seenMs, resetSeconds }: Call): boolean {
  if (status === 429 || status === 503) return seenMs !== undefined
  const charged = Number(resetSeconds) / 60 - 1
  const isRight = charged >= minuteOf(sentMs) && charged <= minuteOf(Number(seenMs))
  return status === 200 && !isRight
}

/** What holds whatever happens. */
function expectExact(client: OfferedClient): void {
  const calls = callsOf(client.id)
  expect(calls.filter(isWrong)).toEqual([])
  for (const { charged, byTheClock } of byMinute(calls).values()) {
    expect(charged, `${client.id}, charged`).toBeLessThanOrEqual(client.perMinute)
    expect(byTheClock, `${client.id}, by the clock`).toBeLessThanOrEqual(client.perMinute)
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
    expectExact(client)
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
    expect(samples.length).toBeGreaterThan(0)
    for (const { client, seen, counters } of samples) {
      expect(counters.minuteTaken).toBeLessThanOrEqual(client.perMinute)
      expect(counters.minuteUsed).toBeLessThanOrEqual(counters.minuteTaken)
      expect(counters.dayUsed).toBeLessThanOrEqual(counters.dayTaken)
      expect(counters.dayTaken).toBeGreaterThanOrEqual(seen)
    }
  })

  it.each(faulted)(
    'leave nothing of $perMinute a minute behind but what killed ones held',
    async ({ id, perMinute }) => {
      const { dayUsed, dayTaken, minuteTaken, holders } = await fleets.faulted.counters(id)
      const calls = callsOf(id)
      const seen = calls.filter(({ seenMs }) => seenMs !== undefined).length
      const lost = calls.filter((call) => call.status === undefined && call.seenMs === undefined)
      expect(minuteTaken).toBeLessThanOrEqual(perMinute)
      expect(dayTaken).toBeGreaterThanOrEqual(seen)
      // A kill may have come between the charge and the backend.
      expect(dayUsed).toBeLessThanOrEqual(seen + lost.length)
      const alive = survivors()
      expect(alive.size).toBe(GATEWAYS)
      // A sixteenth of the minute, and the quarter of the lease before that was left when it was asked for.
      const leaseAtMost = Math.floor(perMinute / 16) * (4 / 3)
      for (const { process, ...holder } of holders) {
        if (!alive.has(process)) {
          expect(holder.dayHeld - holder.dayUsed).toBeLessThanOrEqual(leaseAtMost)
          continue
        }
        expect(holder.dayHeld).toBe(holder.dayUsed)
        expect(holder.minuteHeld).toBe(holder.minuteUsed)
      }
    },
  )
})

describe('four gateways on one Redis, through one whole UTC minute', () => {
  it.each(steady)(
    'admit $perMinute of twice as many, with at most $callsEach calls to Redis each',
    async (client) => {
      expectExact(client)
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
