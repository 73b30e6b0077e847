/** What must hold of every schedule of a kind; throws a Violation where it does not. */
import type * as fc from 'fast-check'
import type { Limits } from '../../src/config/config.ts'
import { DAY_MS, MINUTE_MS } from '../../src/config/time.ts'
import { Violation } from './ledger.ts'
import { play, playAndEnd, playWorkers, type Played } from './play.ts'
import * as schedules from './schedule.ts'
import { playRemaining } from './remaining.ts'
import type { Quota } from './shipped.ts'
import { createWorld } from './world.ts'
import { playStoreLost, storeLostSchedule, type StoreLostSchedule } from './store-lost.ts'

export interface Property<Drawn> {
  readonly title: string
  readonly schedule: fc.Arbitrary<Drawn>
  run(quota: Quota, drawn: Drawn): Promise<Played>
}

const MOST_OF_A_LIMIT = 0.995

const exact = (
  title: string,
  schedule: fc.Arbitrary<schedules.Schedule>,
): Property<schedules.Schedule> => ({
  title,
  schedule,
  run: (quota, drawn) => play(quota, drawn, { isExact: true }),
})

const live: Property<schedules.Schedule> = {
  title: 'admits at least 99.5 % of every limit that is asked for, and all of it with one process',
  schedule: schedules.liveSchedule,
  run: async (quota, drawn) => {
    const world = createWorld(quota, drawn, { isExact: true })
    const firstMinute = Math.floor(world.storeNowMs() / MINUTE_MS) + 1
    const played = await playAndEnd(world, drawn)
    const atLeast = drawn.processes === 1 ? 1 : MOST_OF_A_LIMIT
    const [account] = world.ledger.accounts.values()
    const [{ perMinute, perDay }] = drawn.clients as [Limits]
    for (let whole = 0; 3 * whole < drawn.steps.length - 1; whole++) {
      const minute = firstMinute + whole
      const day = account?.admitted.day.get(Math.floor((minute * MINUTE_MS) / DAY_MS)) ?? 0
      const share = (account?.admitted.minute.get(minute) ?? 0) / perMinute
      if (Math.max(share, day / perDay) < atLeast)
        throw new Violation('what is asked for is admitted up to the limit', `only ${share}`)
    }
    return played
  },
}

const VAIN_CALLS = { each: 6, ofRefusals: 0.02 }

const storms: Property<schedules.Schedule> = {
  title:
    'refuses nobody while tokens are left, and almost for free, with processes that crash and without',
  schedule: schedules.stormSchedule,
  run: async (quota, drawn) => {
    const played = await play(quota, drawn, { isExact: true, isPrompt: true })
    const { refused, vain, notices, minutes } = played.totals
    const { each, ofRefusals } = VAIN_CALLS
    const atMost = each * played.processes * (minutes + 1) + ofRefusals * refused
    if (Math.max(vain, notices) > atMost)
      throw new Violation(
        'refusals are almost free',
        `${vain} calls, ${notices} notices for ${refused}`,
      )
    return played
  },
}

/** Plays it in mode local, where it must be as good as in mode closed. */
const late = (
  title: string,
  schedule: fc.Arbitrary<schedules.Schedule>,
  playOne: typeof playWorkers,
): Property<schedules.Schedule> => ({
  title,
  schedule,
  run: async (quota, drawn) => {
    const local = await playOne(quota, drawn)
    const { unavailable, heldUp, admitted } = local.totals
    if (unavailable > heldUp)
      throw new Violation(
        'a late answer costs those who waited for it, and nobody else',
        `${unavailable} refused, ${heldUp} waited`,
      )
    const closed = await playOne(quota, { ...drawn, mode: 'closed' })
    if (admitted < closed.totals.admitted)
      throw new Violation(
        'local is never worse than closed while the store answers',
        `${admitted} admitted, not ${closed.totals.admitted}`,
      )
    return local
  },
})

const outages: Property<schedules.Schedule> = {
  title: 'admits at most the limit once per process while the store is away, in mode local',
  schedule: schedules.outageSchedule,
  run: async (quota, drawn) => {
    const played = await play(quota, drawn, { isExact: false })
    if (drawn.mode === 'open') return played
    for (const [window, { count, limit }] of played.excess)
      if (count > (played.processes - 1) * limit)
        throw new Violation('in mode local at most the limit per process', `${window}: ${count}`)
    return played
  },
}

/**
 * Each process that admits without the store: its share of what it has not heard to be taken. Where all have lost it: their shares
 * sum to the limit, so at most what the others have taken and it does not know of; and nothing of a window that begins after.
 */
const storeLost: Property<StoreLostSchedule> = {
  title: 'admits at most the shares of those that lose the store, and exactly the limit if all do',
  schedule: storeLostSchedule,
  run: async (quota, drawn) => {
    const lost = await playStoreLost(quota, drawn)
    const { known, lostAtMs, spent, wholly } = lost
    const areAllLost = drawn.lost >= drawn.base.processes
    for (const { window, startMs, limit, count, alone } of spent) {
      const shares = alone.map(({ taken }) => Math.ceil(Math.max(0, limit - taken) / known))
      const ofOthers = areAllLost ? limit - Math.floor(limit / lost.processes) : limit
      const isNew = areAllLost && startMs > lostAtMs
      const atMost = isNew
        ? 0
        : Math.min(
            ofOthers,
            shares.reduce((sum, share) => sum + share, 0),
          )
      if (count - limit > atMost)
        throw new Violation(
          'without the store each admits its share',
          `${count} of ${limit} in a ${window}, ${atMost} more at most`,
        )
    }
    for (const { limit, count } of wholly)
      if (count < limit)
        throw new Violation('shares sum to the limit', `${count} of ${limit} admitted`)
    return lost
  },
}

/** So quick a network that all have answered a notice while nothing is granted. */
const QUICK_MS = 5
/** Who meets so many in a row is told that the store is away. */
const LOSSES_IN_A_ROW = 3

/**
 * A loss is found out with the first call of a process that was told more, and with any call where all is gone. Then one request
 * is admitted, and no other before all have stated again what they hold and have used: one beyond the limit for each loss. Two
 * exceptions: an old copy is not found out by who was told nothing, and a network that is not quick is not waited for.
 */
const dataLoss: Property<schedules.Schedule> = {
  title:
    'admits one request beyond a limit for each loss of data, at most what is granted before all have spoken again',
  schedule: schedules.dataLossSchedule,
  run: async (quota, drawn) => {
    const played = await play(quota, drawn, { isExact: false })
    const isFound = !drawn.steps.some(({ event }) => event.kind === 'old copy')
    for (const [window, { count }] of played.excess) {
      const { times = 0, blind = 0, gone = 0 } = played.lost.get(window) ?? {}
      const isQuick = isFound && drawn.network.latencyMs.max <= QUICK_MS
      const atMost = gone + (isQuick ? Math.min(times, blind) : blind)
      if (count > atMost)
        throw new Violation(
          'a loss of data costs one request, or what is granted before all have spoken again',
          `${window}: ${count} beyond the limit, ${times} losses, ${blind} granted meanwhile, ${gone} gone`,
        )
    }
    const { unavailable } = played.totals
    const losses = drawn.steps.filter(({ event }) => event.kind !== 'none').length
    if (drawn.mode === 'closed' && losses < LOSSES_IN_A_ROW && unavailable > 0)
      throw new Violation('a store that answers is not away', `${unavailable} requests`)
    return played
  },
}

/** Of a client in a minute. */
const MOST_NOTICES = 32

const remaining: Property<schedules.Schedule> = {
  title: 'says of no window that more is left than is true by a sixteenth of the limit',
  schedule: schedules.remainingSchedule,
  run: async (quota, drawn) => {
    const said = await playRemaining(quota, drawn)
    // Charges that are handed back, and resets, are news of another kind.
    const isPlain = drawn.refund === 0 && !drawn.steps.some(({ event }) => event.kind === 'reset')
    if (isPlain && said.notices >= MOST_NOTICES)
      throw new Violation('news of a client is rare', `${said.notices} notices in a minute`)
    return said
  },
}

export const properties = {
  faults: exact(
    'never admits more than a limit, whatever crashes, is lost, late, repeated or stopped',
    schedules.faultySchedule,
  ),
  crashes: exact(
    'never admits more than a limit in any mode while the store answers',
    schedules.crashSchedule,
  ),
  resets: exact(
    'never admits more than a limit between two resets, whatever is under way or goes wrong',
    schedules.resetSchedule,
  ),
  late: late(
    'loses nothing but those who wait, and never admits more than a limit, while the store is late',
    schedules.lateSchedule,
    (quota, drawn) => play(quota, drawn, { isExact: true }),
  ),
  'late workers': late(
    'loses nothing but those who wait, and never admits more than a limit, while the supervisor is late',
    schedules.lateWorkersSchedule,
    playWorkers,
  ),
  'changed limits': {
    title:
      'counts under changed limits from the next request of each process on, and refuses nobody while tokens are left',
    schedule: schedules.changedLimitsSchedule,
    run: (quota, drawn) => {
      // While limits differ, who has the higher may hold ahead what is left under the lower.
      const isPrompt =
        drawn.refund === 0 &&
        !drawn.steps.some(({ event }) => 'process' in event && event.process !== undefined)
      return play(quota, drawn, { isExact: true, isPrompt })
    },
  } satisfies Property<schedules.Schedule>,
  'one process': exact(
    'is exact in every number it tells with one process',
    schedules.singleSchedule,
  ),
  'load above the limit': live,
  storms,
  outages,
  'store lost': storeLost,
  remaining,
  'data loss': dataLoss,
  workers: {
    title: 'never admits more than a limit with workers, whatever dies, stops or hangs',
    schedule: schedules.workersSchedule,
    run: playWorkers,
  } satisfies Property<schedules.Schedule>,
  'worker resets': {
    title:
      'never admits more than a limit with workers between two resets, whatever dies, stops or hangs',
    schedule: schedules.workerResetsSchedule,
    run: playWorkers,
  } satisfies Property<schedules.Schedule>,
}

export type PropertyName = keyof typeof properties
