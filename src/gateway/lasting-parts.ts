/** What outlives a configuration: what is counted, known and measured in this process. */
import { randomBytes } from 'node:crypto'
import { BanBook } from '../bans/ban-book.ts'
import type { Config } from '../config/config.ts'
import type { AddressCounter } from '../counters/anonymous-limiter.ts'
import { TurnsOfClients } from '../counters/client-turns.ts'
import { createCounter, type Counter } from '../counters/counter.ts'
import { UsedKeys } from '../credentials/key-ring.ts'
import { newSecret, type SecretOfDay } from '../listeners/ticket-secret.ts'
import type { Log } from '../observability/log.ts'
import type { ConfigNames, Metrics } from '../observability/metrics.ts'
import { Lessee } from '../quota/lessee/lessee.ts'
import { createSteadyClock } from '../quota/steady-clock.ts'
import type { Shed } from '../rules/overload.ts'
import { LoadWatch } from './load-watch.ts'
import type { Stores } from './stores.ts'

export interface LastingParts {
  readonly log: Log
  readonly metrics: Metrics
  readonly lessee: Lessee
  readonly bans: BanBook
  readonly addresses: AddressCounter
  /** Counts in seconds. */
  readonly preflights: AddressCounter
  readonly turns: TurnsOfClients
  readonly load: LoadWatch
  readonly usedKeys: UsedKeys
  /** From which keys of TLS tickets are made, of the day when it was handed over. */
  readonly ticketSecret: SecretOfDay
  /** Goes on by another configuration. Never throws. */
  use(config: Config): void
}

export interface LastingPartsOptions extends Pick<
  LastingParts,
  'log' | 'metrics' | 'addresses' | 'preflights'
> {
  /** That it begins with. */
  readonly config: Config
  readonly stores: Stores
  /** Which of the workers this is. Default 1. */
  readonly number?: number
  /** Strikes of all workers; undefined: Redis or this process counts them. */
  readonly strikes?: Counter | undefined
  /** That all workers begin with. Default: one of its own. */
  readonly ticketSecret?: SecretOfDay
  /** Told when more or less is refused because the event loop is late. */
  readonly onShed?: (shed: Shed) => void
}

export function createLastingParts(options: LastingPartsOptions): LastingParts {
  const { log, metrics, addresses, preflights, ticketSecret = newSecret(Date.now()) } = options
  let current = options.config
  const bans = createBans(options, () => current)
  const load = createLoadWatch(options)
  return {
    log,
    metrics,
    addresses,
    preflights,
    turns: new TurnsOfClients(),
    usedKeys: new UsedKeys(),
    ticketSecret,
    lessee: createQuota(options),
    bans,
    load,
    use(config) {
      current = config
      log.use(config.log)
      metrics.use(configNames(config))
      bans.use(config.bans)
      load.limitMs = config.server.overload.lagMs
    },
  }
}

function createLoadWatch({ config, log, metrics, onShed }: LastingPartsOptions): LoadWatch {
  return new LoadWatch({
    limitMs: config.server.overload.lagMs,
    onLook: (lagMs) => metrics.eventLoopLag(lagMs),
    onChange: ({ shed, lagMs }) => {
      log.shedding({ refused: shed, lagMs: Math.round(lagMs) })
      onShed?.(shed)
    },
  })
}

function createQuota({ config, log, metrics, stores, number }: LastingPartsOptions): Lessee {
  return new Lessee({
    authority: stores.authority,
    // Unique per boot: a restarted process must not be taken for the one before it.
    processId: randomBytes(9).toString('base64url'),
    clock: {
      nowMs: createSteadyClock({ monotonicMs: () => performance.now(), epochMs: Date.now }),
      epochMs: Date.now,
    },
    outage: config.store.onOutage,
    processes: config.server.workers,
    number,
    // A supervisor that is silent for a moment waits for the processor, as everybody here does: shares would admit too many.
    localAfterMs: stores.redis === undefined ? 1_000 : 0,
    lease: config.store.lease,
    observe: metrics.quota,
    onClockBack: (bySeconds) => log.clockWentBack({ bySeconds }),
  })
}

function createBans(
  { config, log, metrics, stores, strikes }: LastingPartsOptions,
  current: () => Config,
): BanBook {
  const { prefix, timeoutMs } = config.store
  const counter =
    strikes ??
    createCounter({
      redis: stores.redis,
      keyPrefix: `${prefix}:strikes`,
      lifetimeMs: config.bans.withinMs,
      timeoutMs,
    })
  return new BanBook({
    policy: config.bans,
    store: stores.bans,
    counter,
    loadTimeoutMs: timeoutMs,
    observer: {
      strike: () => metrics.strike(),
      banned: (key, ban) => {
        metrics.banned()
        const { clients, bans } = current()
        log.keyBanned({
          key,
          client: clients.keyById(key)?.client.id ?? key.replace(/^jwt:/, ''),
          forMs: ban.untilMs - ban.startedMs,
          strikes: bans.strikes,
        })
      },
      storeLost: () => log.banStoreLost(),
      storeBack: () => log.banStoreBack(),
      malformed: (where) => log.banMalformed({ where }),
    },
  })
}

/** The names of a configuration that bound the labels of metrics. */
export const configNames = (config: Config): ConfigNames => ({
  revision: config.revision,
  plans: [...config.plans.keys()],
  routes: config.routes.map(({ name }) => name),
})
