/** Parts that outlive a configuration: what is counted, known and measured in this process. */
import { randomBytes } from 'node:crypto'
import { BanBook } from '../../core/bans/ban-book.ts'
import type { Config } from '../../config/config.ts'
import type { AddressCounter } from '../../state/memory/addresses.ts'
import { TurnsOfClients } from '../../core/pipeline/take-turn.ts'
import { afterLook, LOOK_EVERY_MS, NO_LOAD } from '../../core/rules/overload.ts'
import type { Look, Shed } from '../../core/rules/overload.ts'
import { createRequestId } from '../../core/rules/request-id.ts'
import { newSecret, type SecretOfDay } from '../../core/http/ticket-secret.ts'
import type { Log } from '../../core/record/log.ts'
import type { Metrics } from '../../core/record/metrics.ts'
import { Tracing } from '../../core/record/tracing.ts'
import { UniqueTimestamps } from '../../core/record/access-record.ts'
import { RecentDecisions } from '../../core/record/recent.ts'
import { DeprecatedCallers } from '../../insight/live/deprecated-callers.ts'
import { Lessee } from '../../core/quota/lessee.ts'
import { createSteadyClock } from '../../core/rules/steady-clock.ts'
import { Shadow } from '../../core/record/shadow.ts'
import { Tally } from '../../core/record/tally.ts'
import { Tunnels } from '../../core/forwarding/tunnel.ts'
import type { OwnState, State } from '../../state/contract.ts'

export type LastingParts = ReturnType<typeof createLastingParts>

export interface LastingPartsOptions {
  readonly log: Log
  readonly metrics: Metrics
  readonly addresses: AddressCounter
  readonly version: string
  readonly config: Config
  /** health: undefined: it is the supervisor's. */
  readonly stores: State & Partial<Pick<OwnState, 'health'>>
  /** Number of this worker. Default: 1. */
  readonly number?: number
  /** Initial secret of all workers. Default: one of its own. */
  readonly ticketSecret?: SecretOfDay
}

export function createLastingParts(options: LastingPartsOptions) {
  const { log, metrics, addresses, ticketSecret = newSecret(Date.now()) } = options
  let current = options.config
  const bans = createBans(options, () => current)
  const load = new LoadWatch(options.config.server.overload.lagMs, options)
  const tracing = new Tracing(async () => {
    const { CollectorSink } = await import('../../insight/notify/span-sink.ts')
    return (collector) => new CollectorSink(collector, options)
  })
  const tally = new Tally()
  return {
    /** Unix time in ms: the clock of the stages. */
    epochMs: Date.now,
    timestamps: new UniqueTimestamps(),
    log,
    metrics,
    tracing,
    addresses,
    turns: new TurnsOfClients(),
    tunnels: new Tunnels(),
    usedKeys: new Map<string, true>(),
    /** Secret of the day from which the keys of TLS tickets are made. */
    ticketSecret,
    requestId: createRequestId(Date.now(), randomBytes(8)),
    lessee: createQuota(options),
    tally,
    shadow: createShadow(options, tally),
    recent: new RecentDecisions(options.number ?? 1),
    deprecated: new DeprecatedCallers(),
    bans,
    load,
    /** Applies another configuration. Never throws. */
    use(config: Config): void {
      current = config
      log.use(config.log)
      metrics.requests.use(configNames(config))
      tracing.use(config.telemetry)
      bans.use(config.bans)
      load.limitMs = config.server.overload.lagMs
    },
  }
}

/** A process that holds quota. */
const holder = () => ({
  // Unique per boot: a restarted process must not be taken for its predecessor.
  processId: randomBytes(9).toString('base64url'),
  clock: { nowMs: createSteadyClock(() => performance.now(), Date.now), epochMs: Date.now },
})

/** Calls to a store in this very process are no calls to a store. */
const storeCallOf = ({ metrics, stores }: LastingPartsOptions) =>
  stores.embedded ? {} : { storeCall: metrics.quota.storeCall }

/** A file is written a sixteenth of the minute ahead: with leases besides, a crash could leave twice that unused. */
const leaseOf = ({ config, stores }: LastingPartsOptions) =>
  stores.embedded && config.store.file !== undefined ? 'off' : config.store.lease

function createQuota(options: LastingPartsOptions): Lessee {
  const { config, log, metrics, stores, number } = options
  const { storeCall: _, ...observe } = metrics.quota
  return new Lessee({
    ...holder(),
    authority: stores.authority,
    outage: config.store.onOutage,
    processes: config.server.workers,
    number,
    lease: leaseOf(options),
    observe: { ...observe, ...storeCallOf(options) },
    onClockBack: (bySeconds) => log.clockWentBack({ bySeconds }),
    // A store in this very process has this process's clock.
    onTime: stores.embedded ? undefined : (storeMs, tookMs) => stores.clock.set(storeMs, tookMs),
  })
}

function createShadow(options: LastingPartsOptions, tally: Tally): Shadow {
  const { metrics, stores } = options
  const lease = leaseOf(options)
  return new Shadow({
    authority: stores.authority,
    openLessee: (own) => new Lessee({ ...holder(), ...own, lease, observe: storeCallOf(options) }),
    tally,
    refused: (plan, by) => metrics.requests.shadowRefused(plan, by),
  })
}

function createBans(
  { config, log, metrics, stores }: LastingPartsOptions,
  current: () => Config,
): BanBook {
  return new BanBook({
    policy: config.bans,
    store: stores.bans,
    counter: stores.strikes(config.bans.withinMs),
    clock: stores.clock,
    observer: {
      strike: () => metrics.strike(),
      banned: (key, ban, strikes) => {
        metrics.banned()
        const { clients } = current()
        log.keyBanned({
          key,
          client: clients.keyById(key)?.client.id ?? key.replace(/^jwt:/, ''),
          forMs: ban.untilMs - ban.startedMs,
          strikes,
        })
      },
      storeLost: () => log.banStoreLost(),
      storeBack: () => log.banStoreBack(),
    },
  })
}

/** Names of a configuration that bound the labels of metrics. */
export const configNames = (config: Config) => ({
  plans: [...config.plans.keys()],
  routes: config.routes.map(({ name }) => name),
})

/** Measures how late the event loop is, and decides what is refused for it. */
class LoadWatch {
  /** server.overload.lag */
  limitMs: number
  /** All arrivals so far. Whoever counts them writes this field. */
  arrivals: Omit<Look, 'lateMs'> = { keyed: 0, others: 0 }
  #counted = this.arrivals
  readonly #timer: NodeJS.Timeout
  #load = NO_LOAD
  #lookedMs = performance.now()

  constructor(limitMs: number, { log, metrics }: { log: Log; metrics: Metrics }) {
    this.limitMs = limitMs
    this.#timer = setInterval(() => {
      const nowMs = performance.now()
      const before = this.#load
      const { keyed, others } = this.arrivals
      const look = {
        lateMs: nowMs - this.#lookedMs - LOOK_EVERY_MS,
        keyed: keyed - this.#counted.keyed,
        others: others - this.#counted.others,
      }
      this.#load = afterLook(before, look, this.limitMs)
      this.#lookedMs = nowMs
      this.#counted = { keyed, others }
      const { shed, lagMs } = this.#load
      metrics.eventLoopLag(lagMs)
      if (shed !== before.shed) log.shedding({ refused: shed, lagMs: Math.round(lagMs) })
    }, LOOK_EVERY_MS).unref()
  }

  get shed(): Shed {
    return this.#load.shed
  }

  close(): void {
    clearInterval(this.#timer)
  }
}
