/** What may happen in a simulation, as values that fast-check makes and shrinks. */
import * as fc from 'fast-check'
import type { Limits, OutageMode } from '../../src/config/config.ts'

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
export interface Network {
  /** Each way. */
  readonly latencyMs: { readonly min: number; readonly max: number }
  readonly losesRequest: number
  readonly losesReply: number
  /** The request is carried out up to lateMs after it was sent, beyond the time-out. */
  readonly delaysRequest: number
  readonly delaysReply: number
  readonly lateMs: number
  /** The request is carried out once more, up to lateMs later. */
  readonly repeatsRequest: number
  readonly losesReclaim: number
  readonly repeatsReclaim: number
}

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

export type Event =
  | { readonly kind: 'none' }
  /** An operator sets the use of a client back to 0. */
  | {
      readonly kind: 'reset'
      readonly client: number
      readonly windows: readonly ('minute' | 'day')[]
    }
  /** kill -9, and a new process in its place after downMs. */
  | { readonly kind: 'crash'; readonly process: number; readonly downMs: number }
  /** SIGTERM, and a new process in its place. */
  | { readonly kind: 'restart'; readonly process: number }
  /** SIGSTOP and SIGCONT, or a process that computes and lets everything wait. */
  | {
      readonly kind: 'pause'
      readonly process: number
      /** Into the step; 0 unless given. */
      readonly afterMs?: number
      readonly forMs: number
      /** Of the machine: its monotonic clock stands still meanwhile. */
      readonly isSuspended: boolean
    }
  | { readonly kind: 'authority clock'; readonly byMs: number }
  /** process undefined: the new limits are in force everywhere at once. */
  | {
      readonly kind: 'limits'
      readonly client: number
      readonly process: number | undefined
      readonly limits: Limits
    }
  /** away: calls throw at once. refused: they fail soon. silent: nothing arrives, in one direction or the other. */
  | {
      readonly kind: 'partition'
      readonly process: number | undefined
      readonly how: 'away' | 'refused' | 'silent' | 'replies lost'
      readonly forMs: number
    }
  /** The process has none of the notices of this time, and knows it. */
  | { readonly kind: 'notices missed'; readonly process: number; readonly forMs: number }
  /** The store does not go away: what is on its way to it, or back from it, takes so long, and nothing is lost. */
  | {
      readonly kind: 'late'
      readonly process: number | undefined
      readonly what: 'requests' | 'replies'
      readonly forMs: number
    }
  | { readonly kind: 'data loss' }
  /** Of the counters of one client: the store had no memory left. */
  | { readonly kind: 'eviction'; readonly client: number }
  /** Failover to a replica that has heard nothing since the beginning of an earlier step. */
  | { readonly kind: 'old copy'; readonly stepsBack: number }
  /** kill -9 of the supervisor, afterMs into the step; its workers live on for up to orphansMs, and a new one comes after downMs. */
  | {
      readonly kind: 'supervisor crash'
      readonly afterMs: number
      readonly downMs: number
      readonly orphansMs: number
    }
  /** SIGTERM to the supervisor, and a new one after downMs. */
  | { readonly kind: 'supervisor stop'; readonly downMs: number }
  | { readonly kind: 'supervisor stands still'; readonly forMs: number }
  | { readonly kind: 'disk'; readonly how: 'hangs' | 'fails'; readonly forMs: number }

const seed = fc.integer()
const index = fc.nat({ max: 7 })
const someOrAll = fc.option(index, { nil: undefined })

const perMinute = fc.oneof(
  { weight: 2, arbitrary: fc.integer({ min: 1, max: 12 }) },
  { weight: 3, arbitrary: fc.constantFrom(20, 48, 60, 240, 300) },
  { weight: 2, arbitrary: fc.constantFrom(1000, 3000) },
  { weight: 1, arbitrary: fc.constantFrom(10_000) },
)
/** The day may be the tighter window: just over one minute's worth, or out of reach. */
const limits: fc.Arbitrary<Limits> = fc
  .record({ perMinute, days: fc.constantFrom(1, 1.2, 2.5, 1000) })
  .map((drawn) => ({
    perMinute: drawn.perMinute,
    perDay: Math.ceil(drawn.perMinute * drawn.days),
  }))

const load: fc.Arbitrary<Load> = fc.record({
  perSecond: fc.oneof(
    { weight: 3, arbitrary: fc.constantFrom(0, 1, 8) },
    { weight: 3, arbitrary: fc.constantFrom(30, 120, 500) },
    { weight: 1, arbitrary: fc.constantFrom(2000) },
  ),
  burst: fc.oneof(
    { weight: 3, arbitrary: fc.constant(0) },
    { weight: 2, arbitrary: fc.integer({ min: 1, max: 60 }) },
    { weight: 1, arbitrary: fc.integer({ min: 60, max: 1500 }) },
  ),
  client: someOrAll,
  process: someOrAll,
})

const lasts: fc.Arbitrary<Step['lasts']> = fc.oneof(
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('ms' as const),
      ms: fc.integer({ min: 0, max: 400 }),
    }),
  },
  {
    weight: 4,
    arbitrary: fc.record({
      kind: fc.constant('ms' as const),
      ms: fc.integer({ min: 400, max: 8000 }),
    }),
  },
  {
    weight: 3,
    arbitrary: fc.record({
      kind: fc.constant('to the end of a minute' as const),
      plusMs: fc.oneof(fc.integer({ min: -120, max: 20 }), fc.integer({ min: -3, max: 3 })),
    }),
  },
)

const clockStep = fc.oneof(
  { weight: 4, arbitrary: fc.integer({ min: -2000, max: 2000 }) },
  { weight: 2, arbitrary: fc.integer({ min: -150_000, max: 150_000 }) },
  { weight: 1, arbitrary: fc.constantFrom(-86_400_000, 86_400_000, 3_600_000) },
)

const fault = {
  crash: fc.record({
    kind: fc.constant('crash' as const),
    process: index,
    downMs: fc.oneof(fc.constant(0), fc.integer({ min: 1, max: 5000 })),
  }),
  restart: fc.record({ kind: fc.constant('restart' as const), process: index }),
  pause: fc.record({
    kind: fc.constant('pause' as const),
    process: index,
    forMs: fc.oneof(
      fc.integer({ min: 1, max: 30 }),
      fc.integer({ min: 30, max: 1500 }),
      fc.integer({ min: 1500, max: 130_000 }),
    ),
    isSuspended: fc.boolean(),
  }),
  clock: fc.record({ kind: fc.constant('authority clock' as const), byMs: clockStep }),
  limits: fc.record({
    kind: fc.constant('limits' as const),
    client: index,
    process: someOrAll,
    limits,
  }),
  partition: fc.record({
    kind: fc.constant('partition' as const),
    process: someOrAll,
    how: fc.constantFrom(
      'away' as const,
      'refused' as const,
      'silent' as const,
      'replies lost' as const,
    ),
    forMs: fc.integer({ min: 1, max: 4000 }),
  }),
  reset: fc.record({
    kind: fc.constant('reset' as const),
    client: index,
    windows: fc.constantFrom(['minute' as const], ['day' as const], ['minute', 'day'] as const),
  }),
  noticesMissed: fc.record({
    kind: fc.constant('notices missed' as const),
    process: index,
    forMs: fc.integer({ min: 1, max: 8000 }),
  }),
  late: fc.record({
    kind: fc.constant('late' as const),
    process: someOrAll,
    what: fc.constantFrom('requests' as const, 'replies' as const),
    forMs: fc.oneof(fc.integer({ min: 50, max: 250 }), fc.integer({ min: 250, max: 600 })),
  }),
  dataLoss: fc.record({ kind: fc.constant('data loss' as const) }),
  eviction: fc.record({ kind: fc.constant('eviction' as const), client: index }),
  oldCopy: fc.record({
    kind: fc.constant('old copy' as const),
    stepsBack: fc.integer({ min: 1, max: 3 }),
  }),
}
const none = fc.record({ kind: fc.constant('none' as const) })

const events = (...faults: fc.Arbitrary<Event>[]): fc.Arbitrary<Event> =>
  fc.oneof({ weight: 3, arbitrary: none }, { weight: 4, arbitrary: fc.oneof(...faults) })

const rate = fc.oneof(
  { weight: 3, arbitrary: fc.constant(0) },
  { weight: 2, arbitrary: fc.integer({ min: 1, max: 60 }) },
  { weight: 1, arbitrary: fc.integer({ min: 60, max: 400 }) },
)
const latencyMs = fc.oneof(
  fc.constant({ min: 0.15, max: 0.6 }),
  fc.constant({ min: 0.3, max: 8 }),
  fc.constant({ min: 1, max: 45 }),
)
export const goodNetwork: fc.Arbitrary<Network> = latencyMs.map((latency) => ({
  latencyMs: latency,
  losesRequest: 0,
  losesReply: 0,
  delaysRequest: 0,
  delaysReply: 0,
  lateMs: 0,
  repeatsRequest: 0,
  losesReclaim: 0,
  repeatsReclaim: 0,
}))
export const perfectNetwork: Network = {
  latencyMs: { min: 0.2, max: 0.4 },
  losesRequest: 0,
  losesReply: 0,
  delaysRequest: 0,
  delaysReply: 0,
  lateMs: 0,
  repeatsRequest: 0,
  losesReclaim: 0,
  repeatsReclaim: 0,
}
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
  fc.record({
    window: fc.constant('minute' as const),
    ms: fc.oneof(fc.integer({ min: 0, max: 3000 }), fc.integer({ min: 3000, max: 60_000 })),
  }),
  fc.record({ window: fc.constant('day' as const), ms: fc.integer({ min: 0, max: 90_000 }) }),
)

const clients = (maxLength: number): fc.Arbitrary<Limits[]> =>
  fc.array(limits, { minLength: 1, maxLength })

const steps = (event: fc.Arbitrary<Event>): fc.Arbitrary<Step[]> =>
  fc.array(fc.record({ load, lasts, event }), { minLength: 1, maxLength: 14, size: 'max' })

export const common = {
  seed,
  clients: clients(4),
  lease: fc.oneof(
    { weight: 6, arbitrary: fc.constant('auto' as const) },
    { weight: 1, arbitrary: fc.constant('off' as const) },
  ),
  maxClients: fc.constantFrom(100_000, 100_000, 2),
  startsBefore,
  clockErrorMs: fc.oneof(fc.constant(0), fc.integer({ min: -90_000_000, max: 90_000_000 })),
  refund: rate,
}

/** Everything may go wrong but the data; nobody admits what he was not granted. */
export const faultySchedule: fc.Arbitrary<Schedule> = fc.record({
  ...common,
  processes: fc.integer({ min: 1, max: 5 }),
  mode: fc.constant('closed' as const),
  authority: fc.constant('remote' as const),
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
  processes: fc.integer({ min: 1, max: 5 }),
  mode: fc.constantFrom('local' as const, 'open' as const),
  authority: fc.constant('remote' as const),
  network: goodNetwork,
  steps: steps(events(fault.crash, fault.restart, fault.limits)),
})

/** The store never goes away: it is late, or processes get no processor; in mode local, where shares would be spent. */
export const lateSchedule: fc.Arbitrary<Schedule> = fc.record({
  ...common,
  processes: fc.integer({ min: 1, max: 5 }),
  mode: fc.constant('local' as const),
  authority: fc.constant('remote' as const),
  network: goodNetwork,
  // With answers on their way to it a process stands still.
  steps: steps(
    events(
      fault.late,
      fault.late,
      fc
        .tuple(fault.pause, fc.integer({ min: 0, max: 60 }))
        .map(([pause, afterMs]) => ({ ...pause, afterMs })),
      fault.crash,
    ),
  ),
})

/** Use is set back to 0 under load, with leases, calls and refunds under way, and whatever may go wrong. */
export const resetSchedule: fc.Arbitrary<Schedule> = fc.record({
  ...common,
  clients: clients(2),
  processes: fc.integer({ min: 2, max: 4 }),
  mode: fc.constant('closed' as const),
  authority: fc.constant('remote' as const),
  network: fc.oneof(goodNetwork, badNetwork),
  refund: fc.constantFrom(0, 60, 120),
  steps: steps(
    fc.oneof(
      { weight: 2, arbitrary: none },
      { weight: 3, arbitrary: fault.reset },
      { weight: 2, arbitrary: fc.oneof(fault.crash, fault.pause, fault.limits, fault.partition) },
    ),
  ),
})

/** Several processes hold tokens, return them and take bursts, and say what is left; at times one misses notices. */
export const remainingSchedule: fc.Arbitrary<Schedule> = fc
  .record({
    ...common,
    clients: fc.array(
      fc
        .record({
          perMinute: fc.constantFrom(20, 48, 240, 600, 1000, 3000),
          days: fc.constantFrom(1, 1.2, 1000),
        })
        .map((drawn) => ({ ...drawn, perDay: Math.ceil(drawn.perMinute * drawn.days) })),
      { minLength: 1, maxLength: 1 },
    ),
    maxClients: fc.constant(100_000),
    startsBefore: fc.record({
      window: fc.constantFrom('minute' as const, 'day' as const),
      ms: fc.constantFrom(4000, 58_000),
    }),
    processes: fc.integer({ min: 2, max: 5 }),
    mode: fc.constant('closed' as const),
    authority: fc.constant('remote' as const),
    network: fc.oneof(
      { weight: 2, arbitrary: goodNetwork },
      { weight: 1, arbitrary: badNetwork.map((network) => ({ ...network, losesReclaim: 0 })) },
    ),
    refund: fc.constantFrom(0, 0, 60),
    rest: fc.array(
      fc.record({
        load: fc.record({
          perSecond: fc.constantFrom(0, 8, 30, 120),
          burst: fc.constantFrom(0, 0, 7, 60, 300),
          client: fc.constant(0),
          process: someOrAll,
        }),
        lasts: fc.record({
          kind: fc.constant('ms' as const),
          ms: fc.oneof(
            fc.integer({ min: 0, max: 400 }),
            fc.integer({ min: 400, max: 3000 }),
            fc.integer({ min: 6000, max: 7500 }),
          ),
        }),
        event: fc.oneof(
          { weight: 4, arbitrary: none },
          { weight: 3, arbitrary: fault.noticesMissed },
          {
            weight: 1,
            arbitrary: fc.oneof(fault.crash, fault.restart, fault.partition, fault.reset),
          },
        ),
      }),
      { minLength: 2, maxLength: 12, size: 'max' },
    ),
  })
  .map(({ rest, ...drawn }) => ({ ...drawn, steps: [leadIn(drawn.processes), ...rest] }))

/** Far more than the limit, at processes that crash at times, and answers that come at once. */
export const stormSchedule: fc.Arbitrary<Schedule> = fc.record({
  ...common,
  clients: clients(1),
  lease: fc.constant('auto' as const),
  maxClients: fc.constant(100_000),
  processes: fc.integer({ min: 2, max: 6 }),
  mode: fc.constantFrom('local' as const, 'closed' as const),
  authority: fc.constant('remote' as const),
  network: fc.constant(perfectNetwork),
  refund: fc.constant(0),
  steps: fc.array(
    fc.record({
      load: fc.record({
        perSecond: fc.constantFrom(8, 60, 300),
        burst: fc.constantFrom(0, 0, 7, 60, 240),
        client: fc.constant(0),
        process: someOrAll,
      }),
      lasts: fc.oneof(
        fc.record({ kind: fc.constant('ms' as const), ms: fc.integer({ min: 50, max: 9000 }) }),
        fc.constant({ kind: 'to the end of a minute' as const, plusMs: 20 }),
      ),
      event: fc.oneof({ weight: 4, arbitrary: none }, { weight: 1, arbitrary: fault.crash }),
    }),
    { minLength: 1, maxLength: 8, size: 'max' },
  ),
})

/** After it all processes hold tokens. */
const leadIn = (processes: number): Step => ({
  load: { perSecond: 2 * processes, burst: 0, client: 0, process: undefined },
  lasts: { kind: 'ms', ms: 1500 },
  event: { kind: 'none' },
})
const fewOrMany = fc
  .record({
    perMinute: fc.constantFrom(5, 12, 20, 48, 60, 100, 240),
    days: fc.constantFrom(1, 1.2, 1000, 1000),
  })
  .map(({ perMinute, days }) => ({ perMinute, perDay: Math.ceil(perMinute * days) }))
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
    clients: fc.array(fewOrMany, { minLength: 1, maxLength: 1 }),
    lease: fc.constant('auto' as const),
    maxClients: fc.constant(100_000),
    startsBefore: fc.record({
      window: fc.constant('minute' as const),
      ms: fc.constantFrom(8000, 40_000),
    }),
    processes: fc.integer({ min: 2, max: 4 }),
    mode: fc.constantFrom('local' as const, 'closed' as const),
    authority: fc.constant('remote' as const),
    network: fc.constant(perfectNetwork),
    refund: fc.constantFrom(0, 0, 200),
    isAtOnce: fc.boolean(),
    rest: fc.array(
      fc.record({
        load: fc.record({
          perSecond: fc.constantFrom(0, 8, 60),
          burst: fc.constantFrom(0, 1, 3, 20),
          client: fc.constant(0),
          process: someOrAll,
        }),
        lasts: fc.record({
          kind: fc.constant('ms' as const),
          ms: fc.oneof(fc.integer({ min: 0, max: 50 }), fc.integer({ min: 50, max: 2500 })),
        }),
        event: fc.oneof(
          { weight: 1, arbitrary: none },
          {
            weight: 2,
            arbitrary: fault.limits.chain((event) =>
              fewOrMany.map((limits) => ({ ...event, limits })),
            ),
          },
        ),
      }),
      { minLength: 2, maxLength: 10, size: 'max' },
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
  mode: fc.constantFrom('local' as const, 'closed' as const),
  authority: fc.constantFrom('remote' as const, 'embedded' as const),
  maxClients: fc.constant(100_000),
  network: goodNetwork,
  steps: steps(events(fault.limits)),
})

/** The store is away at times and the processes go on without it. */
export const outageSchedule: fc.Arbitrary<Schedule> = fc.record({
  ...common,
  processes: fc.integer({ min: 1, max: 4 }),
  mode: fc.constantFrom('local' as const, 'open' as const),
  authority: fc.constant('remote' as const),
  // Of a client that it has forgotten a process does not know any more what it may admit on its own.
  maxClients: fc.constant(100_000),
  // Until it has heard the store a process goes by its own clock, so its windows may be others than the store's.
  clockErrorMs: fc.constant(0),
  network: fc.oneof(goodNetwork, badNetwork),
  steps: steps(events(fault.partition, fault.partition, fault.crash, fault.pause)),
})

const losses = [fault.dataLoss, fault.eviction, fault.oldCopy] as const
const lossy = {
  ...common,
  mode: fc.constantFrom('local' as const, 'closed' as const),
  authority: fc.constant('remote' as const),
  maxClients: fc.constant(100_000),
}
const lossesAtTimes: fc.Arbitrary<Schedule> = fc.record({
  ...lossy,
  processes: fc.integer({ min: 1, max: 4 }),
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
    lasts: fc.record({ kind: fc.constant('ms' as const), ms: fc.integer({ min: 20, max: maxMs }) }),
    event,
  })
const much = fc.constantFrom(7, 20, 60, 150)
/** Some of a minute is used by some processes, then data is lost while others ask for all of it. */
const lossAtTheLimit: fc.Arbitrary<Schedule> = fc
  .record({
    ...lossy,
    clients: fc.array(
      fc
        .record({ perMinute: fc.constantFrom(5, 20, 60, 100), days: fc.constantFrom(1.2, 1000) })
        .map(({ perMinute, days }) => ({ perMinute, perDay: Math.ceil(perMinute * days) })),
      { minLength: 1, maxLength: 2 },
    ),
    lease: fc.constant('auto' as const),
    refund: fc.constant(0),
    startsBefore: fc.record({ window: fc.constant('minute' as const), ms: fc.constant(40_000) }),
    processes: fc.integer({ min: 2, max: 6 }),
    network: fc.oneof({ weight: 3, arbitrary: fc.constant(perfectNetwork) }, goodNetwork),
    before: fc.array(burst(much, 3000, none), { minLength: 1, maxLength: 4, size: 'max' }),
    killed: fc.array(burst(fc.constant(0), 30, fault.crash), { maxLength: 1 }),
    loss: burst(much, 300, fc.oneof(...losses)),
    after: fc.array(burst(much, 1500, fc.oneof(none, none, ...losses)), {
      minLength: 1,
      maxLength: 4,
      size: 'max',
    }),
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

const few = fc.integer({ min: 0, max: 600 })
const supervisorCrash = fc.record({
  kind: fc.constant('supervisor crash' as const),
  afterMs: fc.integer({ min: 0, max: 20 }),
  downMs: few,
  orphansMs: few,
})
/** One machine without Redis: see workers-world.ts. */
export const workersSchedule: fc.Arbitrary<Schedule> = fc.record({
  ...common,
  processes: fc.integer({ min: 1, max: 4 }),
  mode: fc.constant('closed' as const),
  authority: fc.constant('embedded' as const),
  maxClients: fc.constant(100_000),
  network: fc.constant(perfectNetwork),
  steps: steps(
    events(
      fault.crash,
      fault.pause.map((pause) => ({ ...pause, isSuspended: false })),
      supervisorCrash,
      supervisorCrash,
      fc.record({ kind: fc.constant('supervisor stop' as const), downMs: few }),
      fc.record({
        kind: fc.constant('supervisor stands still' as const),
        forMs: fc.integer({ min: 1, max: 3000 }),
      }),
      fc.record({
        kind: fc.constant('disk' as const),
        how: fc.constantFrom('hangs' as const, 'fails' as const),
        forMs: fc.integer({ min: 1, max: 4000 }),
      }),
    ),
  ),
})

/** The supervisor never goes away, but is late, or a worker gets no processor; in mode local, where shares would be spent. */
export const lateWorkersSchedule: fc.Arbitrary<Schedule> = fc.record({
  ...common,
  processes: fc.integer({ min: 2, max: 4 }),
  mode: fc.constant('local' as const),
  authority: fc.constant('embedded' as const),
  maxClients: fc.constant(100_000),
  network: fc.constant(perfectNetwork),
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

/** Load above every minute's limit, spread in changing ways, and nothing goes wrong: see live.ts. */
export interface LiveSchedule {
  readonly base: Schedule
  readonly minutes: number
  /** Requests offered per minute, as a multiple of the limit. */
  readonly offered: number
  /** How the load of a client is spread over the processes. */
  readonly spread: 'even' | 'one process' | 'moving' | 'skewed'
  readonly movesEveryMs: number
}

export const liveSchedule: fc.Arbitrary<LiveSchedule> = fc.record({
  base: fc.record({
    ...common,
    clients: clients(2),
    lease: fc.constant('auto' as const),
    maxClients: fc.constant(100_000),
    processes: fc.integer({ min: 1, max: 6 }),
    mode: fc.constantFrom('local' as const, 'closed' as const),
    authority: fc.constant('remote' as const),
    network: goodNetwork,
    refund: fc.constant(0),
    startsBefore: fc.record({
      window: fc.constantFrom('minute' as const, 'day' as const),
      ms: fc.integer({ min: 0, max: 20_000 }),
    }),
    steps: fc.constant([] as Step[]),
  }),
  minutes: fc.integer({ min: 1, max: 2 }),
  offered: fc.constantFrom(1.5, 2, 4),
  spread: fc.constantFrom(
    'even' as const,
    'one process' as const,
    'moving' as const,
    'skewed' as const,
  ),
  movesEveryMs: fc.integer({ min: 300, max: 20_000 }),
})

/** Many wait while charges are handed back. */
export function handedBack(seed: number): Schedule {
  const step = (burst: number, ms: number): Step => {
    const load = { client: 0, process: 0, perSecond: 0, burst }
    return { load, lasts: { kind: 'ms', ms }, event: { kind: 'none' } }
  }
  return {
    seed,
    processes: 1,
    mode: 'closed',
    lease: 'auto',
    authority: 'remote',
    maxClients: 100,
    startsBefore: { window: 'minute', ms: 30_000 },
    clockErrorMs: 0,
    network: { ...perfectNetwork, latencyMs: { min: 1, max: 45 } },
    clients: [{ perMinute: 1000, perDay: 1000 }],
    refund: 345,
    steps: [step(300, 300), step(1400, 3000)],
  }
}
