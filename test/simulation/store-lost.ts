/**
 * The store is lost to some processes that know each other, or to all of them, in mode local: how much is admitted then, and that
 * it is all of the limit where all have lost it.
 */
import * as fc from 'fast-check'
import { DAY_MS, MINUTE_MS } from '../../src/config/time.ts'
import type { Drawn } from '../support/drawn.ts'
import { played, type Played } from './play.ts'
import { common, goodNetwork, limitsOf, local, ms, type Step } from './schedule.ts'
import type { Quota } from './shipped.ts'
import { createWorld, type World } from './world.ts'

export type StoreLostSchedule = Drawn<typeof storeLostSchedule>

/** Then all know each other, and of a process that is gone or new. */
const CALM_MS = 8_500
/** Then all know of a process that has come. */
const HEARD_MS = 2_500
/** All find the store again within this. */
const RETURN_MS = 500
/** A store that says nothing is known to be away after this. */
const AWAY_MS = 1500
const ROUNDS_AFTER = 12
const NEVER_MS = 1e9
/** A limit of which nothing is held ahead is asked for one by one. */
const limits = limitsOf(fc.oneof(ms(1, 12), fc.constantFrom(20, 48, 100)), 1.5, 1000, 1000)

export const storeLostSchedule = fc.record({
  base: fc.record({
    ...common,
    clients: fc.array(limits, { minLength: 1, maxLength: 3 }),
    processes: ms(2, 6),
    ...local,
    maxClients: fc.constant(100_000),
    clockErrorMs: fc.constant(0),
    network: goodNetwork,
    refund: fc.constant(0),
    steps: fc.constant<Step[]>([]),
  }),
  /** So many processes lose it, at most all. */
  lost: fc.oneof(fc.constant(6), ms(1, 6)),
  how: fc.constantFrom('away', 'refused', 'silent'),
  lastsMs: ms(500, 130_000),
  /** All are back within this. */
  returnMs: fc.constantFrom(0, RETURN_MS),
  /** Of the clients so many, and at so many processes, are served before. */
  met: fc.record({
    clients: fc.nat({ max: 3 }),
    processes: ms(1, 6),
    perSecond: fc.constantFrom(1, 8, 30),
  }),
  /** So long before the store is lost a process was killed, replaced by a new one, or has come. */
  change: fc.record({
    kind: fc.constantFrom('none', 'crash', 'restart', 'join'),
    // Who has not been answered once knows of nobody.
    beforeMs: fc.oneof(ms(250, HEARD_MS), ms(HEARD_MS, 12_000)),
  }),
  /** Processes of which all of the limit is asked while the store is lost. */
  asked: fc.oneof(fc.constant(6), ms(1, 6)),
})

/** What was admitted of one window. */
interface Spent {
  readonly window: 'minute' | 'day'
  readonly startMs: number
  readonly limit: number
  readonly count: number
  /** By process that admitted without the store: what it had last heard to be taken. */
  readonly alone: readonly { readonly taken: number; readonly count: number }[]
}

export interface StoreLost extends Played {
  readonly lostAtMs: number
  /** Processes that each knows of, at least. */
  readonly known: number
  readonly spent: readonly Spent[]
  /** Minutes of which all was asked for while all processes that know each other were without the store. */
  readonly wholly: readonly { readonly limit: number; readonly count: number }[]
}

/** The load of a minute: more than the limit at each of these processes. */
function offerAll(world: World, processes: readonly number[]): void {
  world.clients.forEach(({ limits: { perMinute } }, client) => {
    for (let left = perMinute + 2; left > 0; left--)
      for (const process of processes) world.offer(client, process)
  })
}

export async function playStoreLost(quota: Quota, drawn: StoreLostSchedule): Promise<StoreLost> {
  const world = createWorld(quota, drawn.base, { isExact: false })
  return playLostIn(world, drawn).finally(world.endTimers)
}

async function playLostIn(world: World, drawn: StoreLostSchedule): Promise<StoreLost> {
  const { base, how, lastsMs, returnMs, met, asked, change } = drawn
  const { time, chance, ledger } = world
  const lost = Math.min(drawn.lost, base.processes)
  const served = Math.min(met.clients, base.clients.length)
  const load = {
    atMs: time.nowMs,
    nextAtMs: () => (served === 0 ? Infinity : load.atMs),
    arrive: () => {
      load.atMs = time.nowMs + (1000 / met.perSecond) * chance.between(0.1, 1.9)
      world.offer(
        chance.pick([0, 1, 2].slice(0, served)),
        Math.floor(chance.next() * met.processes),
      )
    },
  }
  const last = base.processes - 1
  if (change.kind === 'join') world.happen({ kind: 'crash', process: last, downMs: CALM_MS })
  await world.passUntil(CALM_MS, load)
  if (change.kind === 'crash') world.happen({ kind: 'crash', process: last, downMs: NEVER_MS })
  if (change.kind === 'restart') world.happen({ kind: 'restart', process: last })
  await world.passUntil(CALM_MS + change.beforeMs, load)
  const lostAtMs = world.storeNowMs()
  for (let process = 0; process < lost; process++)
    world.happen({ kind: 'partition', process, how, forMs: lastsMs + chance.between(0, returnMs) })
  const endMs = time.nowMs + lastsMs
  const askedOnes = Array.from({ length: Math.min(asked, base.processes) }, (_, at) => at)
  while (time.nowMs < endMs) {
    offerAll(world, askedOnes)
    const untilMinuteMs = MINUTE_MS - (world.storeNowMs() % MINUTE_MS)
    await world.passUntil(Math.min(endMs, time.nowMs + untilMinuteMs + AWAY_MS))
  }
  const backAtMs = world.storeNowMs()
  for (let round = 0; round < ROUNDS_AFTER; round++) {
    offerAll(world, [Math.floor(chance.next() * base.processes)])
    await world.passUntil(time.nowMs + RETURN_MS / 4)
  }
  await world.finish()
  const spent: Spent[] = []
  for (const [client, { admitted }] of ledger.accounts) {
    const limitsOf = world.clients.find(({ id }) => id === client)?.limits
    for (const window of ['minute', 'day'] as const)
      for (const [index, count] of admitted[window])
        spent.push({
          window,
          startMs: index * (window === 'minute' ? MINUTE_MS : DAY_MS),
          limit: limitsOf?.[window === 'minute' ? 'perMinute' : 'perDay'] ?? 0,
          count,
          alone: [...(ledger.alone.get(`${client} ${window} ${index}`)?.values() ?? [])],
        })
  }
  const wholly: { limit: number; count: number }[] = []
  const firstMinute = Math.ceil(lostAtMs / MINUTE_MS)
  for (let minute = firstMinute; minute * MINUTE_MS + AWAY_MS + 1000 < backAtMs; minute++)
    for (const { id, limits } of world.clients)
      if (limits.perDay >= 1000 * limits.perMinute)
        wholly.push({
          limit: limits.perMinute,
          count: ledger.accounts.get(id)?.admitted.minute.get(minute) ?? 0,
        })
  const isCalm = change.kind === 'none' || change.beforeMs >= CALM_MS
  const isWhole = isCalm && Math.min(lost, asked) === base.processes
  const isUnheard =
    change.kind === 'crash' || (change.kind === 'join' && change.beforeMs < HEARD_MS)
  return {
    ...played(world),
    lostAtMs,
    known: base.processes - (isUnheard ? 1 : 0),
    spent,
    wholly: isWhole ? wholly : [],
  }
}
