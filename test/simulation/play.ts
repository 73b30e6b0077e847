/** Plays a schedule against an implementation of the quota; throws at the first broken invariant. */
import { setImmediate as nextTurn } from 'node:timers/promises'
import { MINUTE_MS } from '../../src/config/time.ts'
import type { Lost, Totals } from './ledger.ts'
import type { Load, Schedule } from './schedule.ts'
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

export async function playAndEnd(world: World, schedule: Schedule): Promise<Played> {
  try {
    return await playIn(world, schedule)
  } finally {
    world.endTimers()
    // Whoever else runs in this process has his turn between two schedules.
    await nextTurn()
  }
}

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
