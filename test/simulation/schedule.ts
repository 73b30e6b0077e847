/** What may happen in a simulation, as values that fast-check makes and shrinks. */
import * as fc from 'fast-check'
import type { Limits, OutageMode } from '../../src/config/config.ts'
import { weighted, type Drawn } from '../support/drawn.ts'

export interface Schedule {
  /** Of delays, arrivals, losses and of the order of what happens at once. */
  readonly seed: number
  readonly processes: number
  readonly clients: readonly Limits[]
  readonly mode: OutageMode
  readonly lease: 'auto' | 'off'
  /** embedded: one process that has the authority in itself, answered without a promise. */
  readonly authority: 'remote' | 'embedded'
  /** A process forgets clients beyond so many. */
  readonly maxClients: number
  /** The authority's clock at the start is so long before the end of a minute, or of a day. */
  readonly startsBefore: { readonly window: 'minute' | 'day'; readonly ms: number }
  /** How far the processes' own Unix clocks are off, in ms. */
  readonly clockErrorMs: number
  readonly network: Network
  /** Of a thousand admitted requests so many give their charge back within 3 s. */
  readonly refund: number
  readonly steps: readonly Step[]
}

/** Rates are of a thousand. */
export type Network = Readonly<typeof perfectNetwork>

export interface Step {
  readonly load: Load
  /** How long it lasts: so many ms, or until so many ms after (or before) the next end of a window on the authority's clock. */
  readonly lasts:
    | { readonly kind: 'ms'; readonly ms: number }
    | { readonly kind: 'to the end of a minute'; readonly plusMs: number }
  /** Happens at its beginning. */
  readonly event: Event
}

/** Indexes are taken modulo the number there is; undefined means all of them in turn, by chance. */
export interface Load {
  readonly perSecond: number
  /** So many at the very beginning, all at once. */
  readonly burst: number
  readonly client: number | undefined
  readonly process: number | undefined
}

export type Event = Drawn<(typeof fault)[keyof typeof fault]> | { readonly kind: 'none' }

export const ms = (min: number, max: number) => fc.integer({ min, max })
const seed = fc.integer()
/** As long ones as short ones. */
const list = <Item>(item: fc.Arbitrary<Item>, minLength: number, maxLength: number) =>
  fc.array(item, { minLength, maxLength, size: 'max' })
const index = fc.nat({ max: 7 })
const someOrAll = fc.option(index, { nil: undefined })

const perMinute = weighted(
  [2, ms(1, 12)],
  [3, fc.constantFrom(20, 48, 60, 240, 300)],
  [2, fc.constantFrom(1000, 3000)],
  [1, fc.constantFrom(10_000)],
)
/** The day may be the tighter window: just over one minute's worth, or out of reach. */
export const limitsOf = (
  minutes: fc.Arbitrary<number>,
  ...days: readonly number[]
): fc.Arbitrary<Limits> =>
  fc
    .record({ minutes, days: fc.constantFrom(...days) })
    .map((drawn) => ({ perMinute: drawn.minutes, perDay: Math.ceil(drawn.minutes * drawn.days) }))
const limits = limitsOf(perMinute, 1, 1.2, 2.5, 1000)

const load: fc.Arbitrary<Load> = fc.record({
  perSecond: weighted(
    [3, fc.constantFrom(0, 1, 8)],
    [3, fc.constantFrom(30, 120, 500)],
    [1, fc.constantFrom(2000)],
  ),
  burst: weighted([3, fc.constant(0)], [2, ms(1, 60)], [1, ms(60, 1500)]),
  client: someOrAll,
  process: someOrAll,
})

const forSoMany = (lasting: fc.Arbitrary<number>) =>
  fc.record({ kind: fc.constant('ms'), ms: lasting })
const lasts: fc.Arbitrary<Step['lasts']> = weighted(
  [5, forSoMany(ms(0, 400))],
  [4, forSoMany(ms(400, 8000))],
  [
    3,
    fc.record({
      kind: fc.constant('to the end of a minute'),
      plusMs: fc.oneof(ms(-120, 20), ms(-3, 3)),
    }),
  ],
)

const clockStep = weighted(
  [4, ms(-2000, 2000)],
  [2, ms(-150_000, 150_000)],
  [1, fc.constantFrom(-86_400_000, 86_400_000, 3_600_000)],
)

const event = <const Kind extends string, Fields extends object = object>(
  kind: Kind,
  fields: { [Name in keyof Fields]: fc.Arbitrary<Fields[Name]> } = {} as never,
): fc.Arbitrary<{ readonly kind: Kind } & Readonly<Fields>> =>
  fc.record({ kind: fc.constant(kind), ...fields }) as never

const few = ms(0, 600)
const fault = {
  /** kill -9, and a new process in its place after downMs. */
  crash: event('crash', { process: index, downMs: fc.oneof(fc.constant(0), ms(1, 5000)) }),
  /** SIGTERM, and a new process in its place. */
  restart: event('restart', { process: index }),
  /** SIGSTOP and SIGCONT, or a process that computes and lets everything wait. */
  pause: event('pause', {
    process: index,
    forMs: fc.oneof(ms(1, 30), ms(30, 1500), ms(1500, 130_000)),
    /** Of the machine: its monotonic clock stands still meanwhile. */
    isSuspended: fc.boolean(),
  }) as fc.Arbitrary<Pause>,
  clock: event('authority clock', { byMs: clockStep }),
  /** process undefined: the new limits are in force everywhere at once. */
  limits: event('limits', { client: index, process: someOrAll, limits }),
  partition: event('partition', {
    process: someOrAll,
    /** away: calls throw at once. refused: they fail soon. silent: nothing arrives, in one direction or the other. */
    how: fc.constantFrom('away', 'refused', 'silent', 'replies lost'),
    forMs: ms(1, 4000),
  }),
  /** An operator sets the use of a client back to 0. */
  reset: event('reset', {
    client: index,
    windows: fc.constantFrom(...([['minute'], ['day'], ['minute', 'day']] as const)),
  }),
  /** The process has none of the notices of this time, and knows it. */
  noticesMissed: event('notices missed', { process: index, forMs: ms(1, 8000) }),
  /** The store does not go away: what is on its way to it, or back from it, takes so long, and nothing is lost. */
  late: event('late', {
    process: someOrAll,
    what: fc.constantFrom('requests', 'replies'),
    forMs: fc.oneof(ms(50, 250), ms(250, 600)),
  }),
  dataLoss: event('data loss'),
  /** Of the counters of one client: the store had no memory left. */
  eviction: event('eviction', { client: index }),
  /** Failover to a replica that has heard nothing since the beginning of an earlier step. */
  oldCopy: event('old copy', { stepsBack: ms(1, 3) }),
  /** kill -9 of the supervisor, afterMs into the step; its workers live on for up to orphansMs, and a new one comes after downMs. */
  supervisorCrash: event('supervisor crash', { afterMs: ms(0, 20), downMs: few, orphansMs: few }),
  /** SIGTERM to the supervisor, and a new one after downMs. */
  supervisorStop: event('supervisor stop', { downMs: few }),
  supervisorPause: event('supervisor stands still', { forMs: ms(1, 3000) }),
  disk: event('disk', { how: fc.constantFrom('hangs', 'fails'), forMs: ms(1, 4000) }),
}
interface Pause {
  readonly kind: 'pause'
  readonly process: number
  /** Into the step; 0 unless given. */
  readonly afterMs?: number
  readonly forMs: number
  readonly isSuspended: boolean
}
const none = event('none')

const events = (...faults: fc.Arbitrary<Event>[]): fc.Arbitrary<Event> =>
  weighted([3, none], [4, fc.oneof(...faults)])

const rate = weighted([3, fc.constant(0)], [2, ms(1, 60)], [1, ms(60, 400)])
const latencyMs = fc.oneof(
  fc.constant({ min: 0.15, max: 0.6 }),
  fc.constant({ min: 0.3, max: 8 }),
  fc.constant({ min: 1, max: 45 }),
)
export const perfectNetwork = {
  /** Each way. */
  latencyMs: { min: 0.2, max: 0.4 },
  losesRequest: 0,
  losesReply: 0,
  /** The request is carried out up to lateMs after it was sent, beyond the time-out. */
  delaysRequest: 0,
  delaysReply: 0,
  lateMs: 0,
  /** The request is carried out once more, up to lateMs later. */
  repeatsRequest: 0,
  losesReclaim: 0,
  repeatsReclaim: 0,
}
export const goodNetwork: fc.Arbitrary<Network> = latencyMs.map((latency) => {
  return { ...perfectNetwork, latencyMs: latency }
})
const badNetwork: fc.Arbitrary<Network> = fc.record({
  latencyMs,
  losesRequest: rate,
  losesReply: rate,
  delaysRequest: rate,
  delaysReply: rate,
  lateMs: fc.constantFrom(150, 2000, 70_000),
  repeatsRequest: rate,
  losesReclaim: rate,
  repeatsReclaim: rate,
})

const startsBefore = fc.oneof(
  fc.record({ window: fc.constant('minute'), ms: fc.oneof(ms(0, 3000), ms(3000, 60_000)) }),
  fc.record({ window: fc.constant('day'), ms: ms(0, 90_000) }),
)

const clients = (maxLength: number): fc.Arbitrary<Limits[]> =>
  fc.array(limits, { minLength: 1, maxLength })

const one = (limits: fc.Arbitrary<Limits>): fc.Arbitrary<Limits[]> =>
  fc.array(limits, { minLength: 1, maxLength: 1 })

const steps = (event: fc.Arbitrary<Event>): fc.Arbitrary<Step[]> =>
  list(fc.record({ load, lasts, event }), 1, 14)

export const common = {
  seed,
  clients: clients(4),
  lease: weighted([6, fc.constant('auto')], [1, fc.constant('off')]),
  maxClients: fc.constantFrom(100_000, 100_000, 2),
  startsBefore,
  clockErrorMs: fc.oneof(fc.constant(0), ms(-90_000_000, 90_000_000)),
  refund: rate,
}

const remembering = { maxClients: fc.constant(100_000) }
const leasing = { lease: fc.constant('auto'), ...remembering }
const remote = { authority: fc.constant('remote') }
const localOrClosed = { mode: fc.constantFrom('local', 'closed'), ...remote }
const closed = { mode: fc.constant('closed'), ...remote }
export const local = { mode: fc.constant('local'), ...remote }

/** Everything may go wrong but the data; nobody admits what he was not granted. */
export const faultySchedule: fc.Arbitrary<Schedule> = fc.record({
  ...common,
  processes: ms(1, 5),
  ...closed,
  network: fc.oneof(goodNetwork, badNetwork),
  steps: steps(
    events(
      fault.crash,
      fault.restart,
      fault.pause,
      fault.pause,
      fault.clock,
      fault.limits,
      fault.partition,
    ),
  ),
})

/** Crashes, pauses within the time-out and a network that delivers: nobody ever decides without the authority, in any mode. */
export const crashSchedule: fc.Arbitrary<Schedule> = fc.record({
  ...common,
  processes: ms(1, 5),
  mode: fc.constantFrom('local', 'open'),
  ...remote,
  network: goodNetwork,
  steps: steps(events(fault.crash, fault.restart, fault.limits)),
})

/** The store never goes away: it is late, or processes get no processor; in mode local, where shares would be spent. */
export const lateSchedule: fc.Arbitrary<Schedule> = fc.record({
  ...common,
  processes: ms(1, 5),
  ...local,
  network: goodNetwork,
  // With answers on their way to it a process stands still.
  steps: steps(
    events(
      fault.late,
      fault.late,
      fc.tuple(fault.pause, ms(0, 60)).map(([pause, afterMs]) => ({ ...pause, afterMs })),
      fault.crash,
    ),
  ),
})

/** Use is set back to 0 under load, with leases, calls and refunds under way, and whatever may go wrong. */
export const resetSchedule: fc.Arbitrary<Schedule> = fc.record({
  ...common,
  clients: clients(2),
  processes: ms(2, 4),
  ...closed,
  network: fc.oneof(goodNetwork, badNetwork),
  refund: fc.constantFrom(0, 60, 120),
  steps: steps(
    weighted(
      [2, none],
      [3, fault.reset],
      [2, fc.oneof(fault.crash, fault.pause, fault.limits, fault.partition)],
    ),
  ),
})

/** Of the first client. */
const ofOne = (perSecond: readonly number[], bursts: readonly number[]) =>
  fc.record({
    perSecond: fc.constantFrom(...perSecond),
    burst: fc.constantFrom(...bursts),
    client: fc.constant(0),
    process: someOrAll,
  })

/** Several processes hold tokens, return them and take bursts, and say what is left; at times one misses notices. */
export const remainingSchedule: fc.Arbitrary<Schedule> = fc
  .record({
    ...common,
    clients: one(limitsOf(fc.constantFrom(20, 48, 240, 600, 1000, 3000), 1, 1.2, 1000)),
    ...remembering,
    startsBefore: fc.record({
      window: fc.constantFrom('minute', 'day'),
      ms: fc.constantFrom(4000, 58_000),
    }),
    processes: ms(2, 5),
    ...closed,
    network: weighted(
      [2, goodNetwork],
      [1, badNetwork.map((network) => ({ ...network, losesReclaim: 0 }))],
    ),
    refund: fc.constantFrom(0, 0, 60),
    rest: list(
      fc.record({
        load: ofOne([0, 8, 30, 120], [0, 0, 7, 60, 300]),
        lasts: forSoMany(fc.oneof(ms(0, 400), ms(400, 3000), ms(6000, 7500))),
        event: weighted(
          [4, none],
          [3, fault.noticesMissed],
          [1, fc.oneof(fault.crash, fault.restart, fault.partition, fault.reset)],
        ),
      }),
      2,
      12,
    ),
  })
  .map(({ rest, ...drawn }) => ({ ...drawn, steps: [leadIn(drawn.processes), ...rest] }))

/** Far more than the limit, at processes that crash at times, and answers that come at once. */
export const stormSchedule: fc.Arbitrary<Schedule> = fc.record({
  ...common,
  clients: clients(1),
  ...leasing,
  processes: ms(2, 6),
  ...localOrClosed,
  network: fc.constant(perfectNetwork),
  refund: fc.constant(0),
  steps: list(
    fc.record({
      load: ofOne([8, 60, 300], [0, 0, 7, 60, 240]),
      lasts: fc.oneof(
        forSoMany(ms(50, 9000)),
        fc.constant({ kind: 'to the end of a minute', plusMs: 20 }),
      ),
      event: weighted([4, none], [1, fault.crash]),
    }),
    1,
    8,
  ),
})

/** After it all processes hold tokens. */
const leadIn = (processes: number): Step => ({
  load: { perSecond: 2 * processes, burst: 0, client: 0, process: undefined },
  lasts: { kind: 'ms', ms: 1500 },
  event: { kind: 'none' },
})
const fewOrMany = limitsOf(fc.constantFrom(5, 12, 20, 48, 60, 100, 240), 1, 1.2, 1000, 1000)
/** The first change is one of all processes, and there is no other. */
function onceForAll(steps: readonly Step[]): Step[] {
  const first = steps.findIndex(({ event }) => event.kind === 'limits')
  return steps.map(({ event, ...step }, at) => ({
    ...step,
    event:
      event.kind === 'limits' && at === first ? { ...event, process: undefined } : { kind: 'none' },
  }))
}
/** Other limits in the midst of a minute, while all processes hold tokens: in all of them at once, or in some and again. */
export const changedLimitsSchedule: fc.Arbitrary<Schedule> = fc
  .record({
    ...common,
    clients: one(fewOrMany),
    ...leasing,
    startsBefore: fc.record({ window: fc.constant('minute'), ms: fc.constantFrom(8000, 40_000) }),
    processes: ms(2, 4),
    ...localOrClosed,
    network: fc.constant(perfectNetwork),
    refund: fc.constantFrom(0, 0, 200),
    isAtOnce: fc.boolean(),
    rest: list(
      fc.record({
        load: ofOne([0, 8, 60], [0, 1, 3, 20]),
        lasts: forSoMany(fc.oneof(ms(0, 50), ms(50, 2500))),
        event: weighted(
          [1, none],
          [2, fault.limits.chain((event) => fewOrMany.map((limits) => ({ ...event, limits })))],
        ),
      }),
      2,
      10,
    ),
  })
  .map(({ isAtOnce, rest, ...drawn }) => ({
    ...drawn,
    steps: [leadIn(drawn.processes), ...(isAtOnce ? onceForAll(rest) : rest)],
  }))

/** One process that has the authority in itself, or asks it over a network that delivers. */
export const singleSchedule: fc.Arbitrary<Schedule> = fc.record({
  ...common,
  processes: fc.constant(1),
  mode: fc.constantFrom('local', 'closed'),
  authority: fc.constantFrom('remote', 'embedded'),
  ...remembering,
  network: goodNetwork,
  steps: steps(events(fault.limits)),
})

/** The store is away at times and the processes go on without it. */
export const outageSchedule: fc.Arbitrary<Schedule> = fc.record({
  ...common,
  processes: ms(1, 4),
  mode: fc.constantFrom('local', 'open'),
  ...remote,
  // Of a client that it has forgotten a process does not know any more what it may admit on its own.
  ...remembering,
  // Until it has heard the store a process goes by its own clock, so its windows may be others than the store's.
  clockErrorMs: fc.constant(0),
  network: fc.oneof(goodNetwork, badNetwork),
  steps: steps(events(fault.partition, fault.partition, fault.crash, fault.pause)),
})

const losses = [fault.dataLoss, fault.eviction, fault.oldCopy] as const
const lossy = {
  ...common,
  ...localOrClosed,
  ...remembering,
}
const lossesAtTimes: fc.Arbitrary<Schedule> = fc.record({
  ...lossy,
  processes: ms(1, 4),
  network: goodNetwork,
  steps: steps(events(...losses)),
})

const burst = (count: fc.Arbitrary<number>, maxMs: number, event: fc.Arbitrary<Event>) =>
  fc.record({
    load: fc.record({
      perSecond: fc.constantFrom(0, 0, 60),
      burst: count,
      client: fc.constantFrom(0, 0, 1),
      process: someOrAll,
    }),
    lasts: fc.record({ kind: fc.constant('ms'), ms: fc.integer({ min: 20, max: maxMs }) }),
    event,
  })
const much = fc.constantFrom(7, 20, 60, 150)
/** Some of a minute is used by some processes, then data is lost while others ask for all of it. */
const lossAtTheLimit: fc.Arbitrary<Schedule> = fc
  .record({
    ...lossy,
    clients: fc.array(limitsOf(fc.constantFrom(5, 20, 60, 100), 1.2, 1000), {
      minLength: 1,
      maxLength: 2,
    }),
    lease: fc.constant('auto'),
    refund: fc.constant(0),
    startsBefore: fc.record({ window: fc.constant('minute'), ms: fc.constant(40_000) }),
    processes: ms(2, 6),
    network: fc.oneof({ weight: 3, arbitrary: fc.constant(perfectNetwork) }, goodNetwork),
    before: list(burst(much, 3000, none), 1, 4),
    killed: fc.array(burst(fc.constant(0), 30, fault.crash), { maxLength: 1 }),
    loss: burst(much, 300, fc.oneof(...losses)),
    after: list(burst(much, 1500, fc.oneof(none, none, ...losses)), 1, 4),
  })
  .map(({ before, killed, loss, after, ...rest }) => ({
    ...rest,
    steps: [...before, ...killed, loss, ...after],
  }))

/** At times the store forgets everything, or one client, or what it was told of late. */
export const dataLossSchedule: fc.Arbitrary<Schedule> = fc.oneof(lossesAtTimes, {
  weight: 2,
  arbitrary: lossAtTheLimit,
})

const embedded = {
  authority: fc.constant('embedded'),
  ...remembering,
  network: fc.constant(perfectNetwork),
}
/** One machine without Redis: see workers-world.ts. */
export const workersSchedule: fc.Arbitrary<Schedule> = fc.record({
  ...common,
  processes: ms(1, 4),
  mode: fc.constant('closed'),
  ...embedded,
  steps: steps(
    events(
      fault.crash,
      fault.pause.map((pause) => ({ ...pause, isSuspended: false })),
      fault.supervisorCrash,
      fault.supervisorCrash,
      fault.supervisorStop,
      fault.supervisorPause,
      fault.disk,
    ),
  ),
})

/** The supervisor never goes away, but is late, or a worker gets no processor; in mode local, where shares would be spent. */
export const lateWorkersSchedule: fc.Arbitrary<Schedule> = fc.record({
  ...common,
  processes: ms(2, 4),
  mode: fc.constant('local'),
  ...embedded,
  steps: steps(
    events(
      fault.late,
      fault.late,
      fault.pause.map((pause) => ({ ...pause, isSuspended: false })),
      fault.crash,
    ),
  ),
})

/** The same as with workers, and use that is set back to 0. */
export const workerResetsSchedule: fc.Arbitrary<Schedule> = fc
  .record({
    schedule: workersSchedule,
    resets: fc.array(fault.reset, { minLength: 1, maxLength: 4 }),
  })
  .map(({ schedule, resets }) => ({
    ...schedule,
    steps: schedule.steps.map((step, at) => ({ ...step, event: resets[at] ?? step.event })),
  }))

/** Load above the limit for whole minutes, at one process or another or at all, and nothing goes wrong. */
export const liveSchedule: fc.Arbitrary<Schedule> = fc
  .record({
    ...common,
    clients: one(limitsOf(fc.oneof(ms(1, 12), fc.constantFrom(20, 60, 240, 600)), 1, 2.5, 1000)),
    ...leasing,
    processes: ms(1, 6),
    ...localOrClosed,
    network: goodNetwork,
    refund: fc.constant(0),
    startsBefore: fc.record({ window: fc.constantFrom('minute', 'day'), ms: ms(0, 20_000) }),
    offered: fc.constantFrom(1.5, 2, 4),
    served: fc.array(fc.array(someOrAll, { minLength: 3, maxLength: 3 }), {
      minLength: 1,
      maxLength: 2,
    }),
  })
  .map(({ offered, served, ...drawn }) => {
    const perSecond = ((drawn.clients[0]?.perMinute ?? 0) * offered + 5) / 60
    const step = (process: number | undefined, lasts: Step['lasts']): Step => {
      return { load: { perSecond, burst: 0, client: 0, process }, lasts, event: { kind: 'none' } }
    }
    const third = { kind: 'ms', ms: 20_000 } as const
    const toTheEnd = { kind: 'to the end of a minute', plusMs: 5 } as const
    const minutes = served.flatMap(([one, two, three]) => [
      step(one, third),
      step(two, third),
      step(three, toTheEnd),
    ])
    return { ...drawn, steps: [step(undefined, toTheEnd), ...minutes] }
  })
