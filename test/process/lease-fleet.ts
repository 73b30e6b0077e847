/**
 * Fleets of gateways on a real Redis that are killed and stopped under load, and what their answers, the backend and Redis
 * must say of each request then.
 *
 * A gateway that waits for the processor too long to hear from Redis answers 503 (store.onOutage is closed), so that every
 * admission is one that Redis has granted, however busy the machine is.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { expect } from 'vitest'
import { atEnd } from '../support/ending.ts'
import { quotaKey } from '../../src/quota/authorities/redis.ts'
import {
  clientsBlock,
  configFile,
  eventually,
  gatewayProcess,
  pick,
  startRedisServer,
  storeOn,
  times,
  type GatewayProcess,
} from './gateways.ts'
import {
  atPace,
  countersInRedis,
  openDoor,
  watchStoreCalls,
  type Call,
  type CountersInRedis,
  type CountingBackend,
  type Door,
} from './paced-callers.ts'

export const MINUTE_MS = 60_000
const PER_DAY = 1_000_000

export interface OfferedClient {
  readonly id: string
  readonly perMinute: number
  /** It is offered more than its limit. */
  readonly perSecond: number
}

interface Member {
  readonly gateway: GatewayProcess
  readonly door: Door
}

export type Fleet = Awaited<ReturnType<typeof fleet>>

export const minuteOf = (ms: number): number => Math.floor(ms / MINUTE_MS)
export const untilTime = (ms: number): Promise<void> => sleep(Math.max(0, ms - Date.now()))
export const random = <Item>(list: readonly Item[]): Item =>
  pick(list, Math.floor(Math.random() * list.length))
const isUp = (member: Member | undefined): member is Member => member !== undefined

export async function fleet(
  backend: CountingBackend,
  { clients, size }: { clients: readonly OfferedClient[]; size: number },
) {
  const redis = await startRedisServer()
  const watch = await watchStoreCalls(redis.port)
  atEnd(watch.close)
  const file = configFile(backend.url, {
    store: storeOn(redis, 'timeout: 110ms, onOutage: closed, lease: auto'),
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
    atEnd(door.close)
    return { gateway, door }
  }
  /** undefined: killed, and the next one is not up yet. */
  const members: (Member | undefined)[] = await Promise.all(times(size, start))
  const up = (): Member[] => members.filter(isUp)
  return {
    backend,
    clients,
    watch,
    members,
    up,
    start,
    /** Offers every client its pace, each call through one member. The result stops it, and waits for the answers. */
    offer: (offered: readonly OfferedClient[], choose: (up: Member[]) => Member) => {
      const stops = offered.map(({ id, perSecond }) =>
        atPace(perSecond, () => choose(up()).door.send(id, `tg_${id}`)),
      )
      return async () => {
        for (const stop of stops) stop()
        await eventually('all answered', () => doors.every(({ inFlight }) => inFlight === 0))
      }
    },
    counters: (client: string) => countersInRedis(redis.port, quotaKey('tollgate', client)),
    /** Who has called Redis since then. */
    heard: (sinceMs: number): Set<string> =>
      new Set(watch.calls.filter(({ atMs }) => atMs > sinceMs).map(({ process }) => process)),
    /** SIGTERM to all. Resolves with their exit codes. */
    drain: () =>
      Promise.all(
        up().map(async ({ gateway }) => {
          gateway.signal('SIGTERM')
          return (await gateway.finished).code
        }),
      ),
  }
}

/** One is killed and replaced after each pause, and one is stopped across each of these moments. */
export async function playFaults(
  { members, start }: Fleet,
  { stops, untilMs, pauseMs }: { stops: readonly number[]; untilMs: number; pauseMs: number },
) {
  const stopped = new Set<number>()
  const done = { kills: 0, stops: 0, overMs: 0 }
  const someone = (): number =>
    random([...members.keys()].filter((at) => isUp(members[at]) && !stopped.has(at)))
  const killing = async (): Promise<void> => {
    while (Date.now() < untilMs) {
      await sleep(pauseMs * (1 + Math.random()))
      const at = someone()
      const member = members[at]
      members[at] = undefined
      member?.gateway.signal('SIGKILL')
      await member?.gateway.finished
      done.kills += 1
      members[at] = await start()
    }
  }
  const stopping = async (): Promise<void> => {
    for (const endMs of stops) {
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

/** Reads what Redis has of the clients again and again; seen: what the backend had seen of each before. */
export async function sampleCounters(
  { backend, clients, counters }: Fleet,
  { untilMs, pauseMs }: { untilMs: number; pauseMs: number },
) {
  const samples: { client: OfferedClient; seen: number; counters: CountersInRedis }[] = []
  while (Date.now() < untilMs) {
    for (const client of clients) {
      const seen = backend.seen(client.id)
      samples.push({ client, seen, counters: await counters(client.id) })
    }
    await sleep(pauseMs)
  }
  return samples
}

export const emptyRow = {
  offered: 0,
  charged: 0,
  byTheClock: 0,
  refused: 0,
  unavailable: 0,
  cut: 0,
  lost: 0,
}
type Column = keyof typeof emptyRow
export const columns = Object.keys(emptyRow) as Column[]

/** Calls of one client by UTC minute: as charged, as the headers tell it, and as sent and seen by the clock on the wall. */
export function byMinute(calls: readonly Call[]) {
  const minutes = new Map<number, Record<Column, number>>()
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

/** A refusal that the backend saw, or an admission charged to a minute that did not run while the call was under way. */
function isWrong({ status, sentMs, seenMs, resetSeconds }: Call): boolean {
  if (status === 429 || status === 503) return seenMs !== undefined
  const charged = Number(resetSeconds) / 60 - 1
  const isRight = charged >= minuteOf(sentMs) && charged <= minuteOf(Number(seenMs))
  return status === 200 && !isRight
}

/** What holds whatever happens. */
export function expectExact({ id, perMinute }: OfferedClient, calls: readonly Call[]): void {
  expect(calls.filter(isWrong)).toEqual([])
  for (const { charged, byTheClock } of byMinute(calls).values()) {
    expect(charged, `${id}, charged`).toBeLessThanOrEqual(perMinute)
    expect(byTheClock, `${id}, by the clock`).toBeLessThanOrEqual(perMinute)
  }
}

/** At no time did Redis tell less than what was admitted, or more than the limit. */
export function expectTrueCounters(samples: Awaited<ReturnType<typeof sampleCounters>>): void {
  expect(samples.length).toBeGreaterThan(0)
  for (const { client, seen, counters } of samples) {
    expect(counters.minuteTaken).toBeLessThanOrEqual(client.perMinute)
    expect(counters.minuteUsed).toBeLessThanOrEqual(counters.minuteTaken)
    expect(counters.dayUsed).toBeLessThanOrEqual(counters.dayTaken)
    expect(counters.dayTaken).toBeGreaterThanOrEqual(seen)
  }
}

/** When all have drained: nothing is left behind but what killed ones held. */
export function expectNothingHeld(
  { perMinute }: OfferedClient,
  {
    counters: { dayUsed, dayTaken, minuteTaken, holders },
    calls,
    survivors,
  }: { counters: CountersInRedis; calls: readonly Call[]; survivors: ReadonlySet<string> },
): void {
  const seen = calls.filter(({ seenMs }) => seenMs !== undefined).length
  const lost = calls.filter((call) => call.status === undefined && call.seenMs === undefined)
  expect(minuteTaken).toBeLessThanOrEqual(perMinute)
  expect(dayTaken).toBeGreaterThanOrEqual(seen)
  // A kill may have come between the charge and the backend.
  expect(dayUsed).toBeLessThanOrEqual(seen + lost.length)
  // A sixteenth of the minute, and the quarter of the lease before that was left when it was asked for.
  const leaseAtMost = Math.floor(perMinute / 16) * (4 / 3)
  for (const { process, minuteHeld, minuteUsed, dayHeld, dayUsed: used } of holders)
    if (survivors.has(process)) expect([dayHeld, minuteHeld]).toEqual([used, minuteUsed])
    else expect(Number(dayHeld) - Number(used)).toBeLessThanOrEqual(leaseAtMost)
}
