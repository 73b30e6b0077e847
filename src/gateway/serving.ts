/** Every part of one process that serves requests, whether it is alone or one of several workers. */
import { randomBytes } from 'node:crypto'
import type { AddressCounter } from '../counters/anonymous-limiter.ts'
import { BanBook } from '../bans/ban-book.ts'
import { Balancer } from '../backends/balancer.ts'
import { startHealthChecks } from '../backends/checks.ts'
import { Forwarder } from '../forwarding/attempts.ts'
import { Retries } from '../forwarding/retries.ts'
import { createUpgrader } from '../forwarding/upgrades.ts'
import { createDirectEngine } from '../forwarding/direct/forwarder.ts'
import { createHttpProxyEngine } from '../forwarding/http-proxy-3/forwarder.ts'
import { createUpgradeEngine } from '../forwarding/upgrader.ts'
import { TurnsOfClients } from '../counters/client-turns.ts'
import { createCounter, type Counter } from '../counters/counter.ts'
import type { Log } from '../observability/log.ts'
import type { ConfigNames, Metrics } from '../observability/metrics.ts'
import { UsedKeys } from '../credentials/key-ring.ts'
import { createUndiciEngine } from '../forwarding/undici/forwarder.ts'
import type { Config, ListenAddress } from '../config/config.ts'
import { createBackends } from './backends.ts'
import { FrontDoor } from './front-door.ts'
import { LoadWatch } from './load-watch.ts'
import type { Prepared, Reloadable } from './reload.ts'
import { createRequestPolicy, type LastingParts, type RequestPolicy } from './request-policy.ts'
import { createSteadyClock } from '../quota/steady-clock.ts'
import { Lessee } from '../quota/lessee/lessee.ts'
import type { Stores } from './stores.ts'
import type { Shed } from '../rules/overload.ts'

const engines = {
  direct: createDirectEngine,
  undici: createUndiciEngine,
  'http-proxy-3': createHttpProxyEngine,
}

export interface ServingParts {
  readonly config: Config
  readonly log: Log
  readonly metrics: Metrics
  readonly stores: Stores
  /** Which of the workers this is. Default 1. */
  readonly number?: number
  readonly addresses: AddressCounter
  /** Counts in seconds. */
  readonly preflights: AddressCounter
  /** Strikes of all workers; undefined: Redis or this process counts them. */
  readonly strikes?: Counter | undefined
  readonly onKeySet: LastingParts['onKeySet']
  /** Told when more or less is refused because the event loop is late. */
  readonly onShed?: (shed: Shed) => void
  /** Of a worker: its supervisor wants to know how the backends fare. */
  readonly onBackends?: () => void
}

export const createServing = (parts: ServingParts): Serving => new Serving(parts)

export class Serving implements Reloadable {
  readonly balancer: Balancer
  readonly load: LoadWatch
  readonly #log: Log
  readonly #stores: Stores
  readonly #lasting: LastingParts
  readonly #door: FrontDoor
  readonly #checks: { stop(): void } | undefined
  /** These two are written by commit alone. */
  #config: Config
  #policy: RequestPolicy
  #isDraining = false

  constructor(parts: ServingParts) {
    const { config, log, stores } = parts
    this.#config = config
    this.#log = log
    this.#stores = stores
    this.#lasting = createLastingParts(parts)
    this.balancer = this.#lasting.balancer
    this.load = this.#lasting.load
    this.#policy = createRequestPolicy(config, this.#lasting)
    const { health, host } = config.upstream
    const ownHost = typeof host === 'string' ? undefined : host.name
    this.#checks = health && startHealthChecks(this.balancer, health, ownHost)
    this.#door = new FrontDoor(config, this.#policy, this.#lasting)
  }

  /** Resolves when the stores have answered and the issuer's keys are there, or have had their time to; rejects when a store refuses us. */
  async ready(): Promise<void> {
    await this.#stores.redis?.ready()
    await Promise.all([this.#lasting.bans.ready(), this.#policy.ready()])
  }

  /** Takes requests; fd: a bound socket of this process to listen on, instead of server.listen. */
  listen(fd?: number): Promise<ListenAddress> {
    return this.#door.listen(fd)
  }

  async prepare(config: Config): Promise<Prepared> {
    if (this.#isDraining)
      throw new Error('the gateway is draining; the next start takes the config')
    const policy = createRequestPolicy(config, this.#lasting)
    await policy.ready()
    return {
      revision: config.revision,
      commit: () => {
        this.#policy.close()
        this.#config = config
        this.#policy = policy
        this.#door.use(policy)
      },
      abort: () => policy.close(),
    }
  }

  /** Ends what is in flight within server.timeouts.drain, or atMostMs if that is less, and hands quota back. idleMs: see FrontDoor. */
  async drain({ idleMs, atMostMs = Infinity }: { idleMs: number; atMostMs?: number }) {
    this.#isDraining = true
    const timeoutMs = Math.min(this.#config.server.timeouts.drainMs, atMostMs)
    this.#log.draining({ inFlight: this.#door.inFlight, timeoutMs })
    const cutOff = await this.#door.drain({ timeoutMs, idleMs })
    await this.#lasting.lessee.drain()
    this.#log.drained({ cutOff })
  }

  /** Closes the connections to backends and stores; the log stays open. */
  async close(): Promise<void> {
    const { forwarder, upgrader, bans } = this.#lasting
    this.#policy.close()
    this.#door.close()
    this.load.close()
    this.#checks?.stop()
    await Promise.allSettled([
      forwarder.close(),
      upgrader.close(),
      bans.close(),
      this.#stores.authority.close(),
    ])
    await this.#stores.redis?.close()
  }

  /** Keys banned now. */
  get bannedKeys(): number {
    return this.#lasting.bans.size
  }
}

/** What outlives the configuration that it began with. */
export function createLastingParts(parts: ServingParts): LastingParts {
  const { log, metrics, addresses, preflights, onKeySet } = parts
  const { upstream } = parts.config
  const balancer = new Balancer(createBackends(upstream), upstream, {
    down: (line) => log.backendDown(line),
    up: (line) => log.backendUp(line),
    changed: () => parts.onBackends?.(),
  })
  const retries = new Retries(upstream)
  metrics.watchBackends(balancer)
  return {
    log,
    metrics,
    addresses,
    preflights,
    turns: new TurnsOfClients(),
    onKeySet,
    usedKeys: new UsedKeys(),
    lessee: createQuota(parts),
    bans: createBans(parts),
    balancer,
    forwarder: new Forwarder(balancer, retries, engines[upstream.engine](upstream)),
    load: createLoadWatch(parts),
    upgrader: createUpgrader({
      balancer,
      retries,
      engine: createUpgradeEngine(upstream, parts.config.server.timeouts.tunnelIdleMs),
      longestWaitMs: upstream.timeouts.responseMs,
    }),
  }
}

function createLoadWatch({ config, log, metrics, onShed }: ServingParts): LoadWatch {
  return new LoadWatch({
    limitMs: config.server.overload.lagMs,
    onLook: (lagMs) => metrics.eventLoopLag(lagMs),
    onChange: ({ shed, lagMs }) => {
      log.shedding({ refused: shed, lagMs: Math.round(lagMs) })
      onShed?.(shed)
    },
  })
}

function createQuota({ config, log, metrics, stores, number }: ServingParts): Lessee {
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

function createBans({ config, log, metrics, stores, strikes }: ServingParts): BanBook {
  const { prefix, timeoutMs } = config.store
  const counter =
    strikes ??
    createCounter({
      redis: stores.redis,
      keyPrefix: `${prefix}:strikes`,
      points: config.bans.strikes,
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
        log.keyBanned({
          key,
          client: config.clients.keyById(key)?.client.id ?? key.replace(/^jwt:/, ''),
          forMs: ban.untilMs - ban.startedMs,
          strikes: config.bans.strikes,
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
