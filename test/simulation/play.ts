/** Plays a schedule against an implementation of the quota; throws at the first broken invariant. */
import { DAY_MS, MINUTE_MS } from '../../src/rules/time.ts'
import type { Lost, Totals } from './ledger.ts'
import type { LiveSchedule, Load, Schedule } from './schedule.ts'
import type { Arrivals } from './virtual-time.ts'
import type { Quota } from './shipped.ts'
import { createWorld, type World } from './world.ts'
import { createWorkersWorld } from './workers-world.ts'

export interface Played {
  readonly totals: Totals
  readonly faults: ReadonlyMap<string, number>
  /** Admissions beyond a limit, by client, window and index; empty where none are allowed. */
  readonly excess: ReadonlyMap<string, { readonly count: number; readonly limit: number }>
  /** By client, window and index. */
  readonly lost: ReadonlyMap<string, Lost>
  readonly processes: number
}

/** Bounds the work of one step; what is beyond it does not arrive. */
const ARRIVALS_PER_STEP = 2500

export const play = (
  quota: Quota,
  schedule: Schedule,
  rules: { isExact: boolean; isPrompt?: boolean },
): Promise<Played> => playAndEnd(createWorld(quota, schedule, rules), schedule)

/** The same on one machine, with a supervisor that counts for its workers. */
export const playWorkers = (quota: Quota, schedule: Schedule): Promise<Played> =>
  playAndEnd(createWorkersWorld(quota, schedule), schedule)

export const playAndEnd = (world: World, schedule: Schedule): Promise<Played> =>
  playIn(world, schedule).finally(world.endTimers)

async function playIn(world: World, { steps }: Schedule): Promise<Played> {
  for (const { load, lasts, event } of steps) {
    const { nowMs } = world.time
    const untilEndMs = MINUTE_MS - (world.storeNowMs() % MINUTE_MS)
    const endMs = nowMs + (lasts.kind === 'ms' ? lasts.ms : Math.max(0, untilEndMs + lasts.plusMs))
    world.happen(event)
    await world.passUntil(endMs, arrivals(world, load))
  }
  await world.finish()
  return played(world)
}

export const played = ({ ledger, faults, processCount }: World): Played => ({
  totals: ledger.totals,
  faults,
  excess: ledger.excess,
  lost: ledger.lost,
  processes: processCount(),
})

function arrivals(world: World, { perSecond, burst, client, process }: Load): Arrivals {
  const { time, chance } = world
  let left = ARRIVALS_PER_STEP
  let burstLeft = burst
  const spacingMs = 1000 / perSecond
  let nextAtMs = burst > 0 ? time.nowMs : time.nowMs + spacingMs * chance.next()
  const any = (): number => Math.floor(chance.next() * 64)
  return {
    nextAtMs: () => (left > 0 ? nextAtMs : Infinity),
    arrive: () => {
      left -= 1
      burstLeft -= 1
      if (burstLeft <= 0) nextAtMs = time.nowMs + spacingMs * chance.between(0.1, 1.9)
      world.offer(client ?? any(), process ?? any())
    },
  }
}

/** The share of the limit that each whole minute (or the day, where that is less) admitted, the worst of all. */
export interface Liveliness extends Played {
  readonly worstShare: number
}

/** Plays load above every limit on processes that all live and answer; tells how much of each limit was admitted. */
export async function playLive(quota: Quota, schedule: LiveSchedule): Promise<Liveliness> {
  const world = createWorld(quota, schedule.base, { isExact: true })
  return playLiveIn(world, schedule).finally(world.endTimers)
}

async function playLiveIn(world: World, schedule: LiveSchedule): Promise<Liveliness> {
  const { base, minutes, offered, spread, movesEveryMs } = schedule
  const { time, chance, ledger, clients } = world
  // The minute that runs is not whole; in it the processes meet the client.
  const firstEndMs = time.nowMs + MINUTE_MS - (world.storeNowMs() % MINUTE_MS)
  const endMs = firstEndMs + minutes * MINUTE_MS
  const due = clients.map(({ limits }) => ({
    atMs: time.nowMs,
    spacingMs: MINUTE_MS / (limits.perMinute * offered + 5),
  }))
  const processFor = (): number => {
    if (spread === 'one process') return 0
    if (spread === 'moving') return Math.floor(time.nowMs / movesEveryMs)
    if (spread === 'even') return Math.floor(chance.next() * 60)
    return Math.floor(chance.next() ** 4 * base.processes)
  }
  await world.passUntil(endMs + 50, {
    nextAtMs: () => Math.min(...due.map(({ atMs }) => atMs)),
    arrive: () => {
      due.forEach((next, client) => {
        if (next.atMs > time.nowMs) return
        next.atMs = time.nowMs + next.spacingMs * chance.between(0.5, 1.5)
        world.offer(client, processFor())
      })
    },
  })
  let worstShare = 1
  for (const { id, limits } of clients) {
    const admitted = ledger.accounts.get(id)?.admitted
    const firstMinute = Math.round((firstEndMs + world.storeNowMs() - time.nowMs) / MINUTE_MS)
    const firstDay = Math.floor((firstMinute * MINUTE_MS) / DAY_MS)
    const inDay = admitted?.day.get(firstDay) ?? 0
    for (let minute = firstMinute; minute < firstMinute + minutes; minute++) {
      const isDayFull = inDay >= limits.perDay
      if (isDayFull) continue
      const inMinute = admitted?.minute.get(minute) ?? 0
      const dayLeft = limits.perDay - inDay
      const share = Math.max(inMinute / limits.perMinute, 1 - dayLeft / limits.perDay)
      worstShare = Math.min(worstShare, share)
    }
  }
  await world.finish()
  return { ...played(world), worstShare }
}
