/** Opens the configured store: Redis for all hosts, or the store embedded in this process. */
import { embeddedHealth, type StoreHealth } from '../../admin/readiness.ts'
import type { BanStore } from '../../state/bans.ts'
import { createMemoryBanStore } from '../../state/bans.ts'
import { createRedisBanStore } from '../../state/redis/bans.ts'
import { createSqliteBanStore } from '../../state/sqlite/bans.ts'
import type { Log } from '../../core/record/log.ts'
import type { Metrics } from '../../core/record/metrics.ts'
import { connectRedis } from '../../state/redis/redis.ts'
import { readTlsFiles } from './tls-files.ts'
import { nameServers } from '../../state/redis/servers.ts'
import type { RedisStore } from '../../state/redis/store.ts'
import { StoreClock } from '../../state/store-clock.ts'
import type { Config } from '../../config/config.ts'
import { openEmbeddedAuthority } from '../../state/sqlite/authority.ts'
import type { EmbeddedAuthority } from '../../state/memory/authority.ts'
import { createRedisAuthority } from '../../state/redis/authority.ts'
import type { Authority, NoticeListener } from '../../state/quota.ts'
import { Counters } from '../../state/counters.ts'
import { createEmbeddedCounters } from '../../state/memory/counters.ts'
import { createRedisCounters } from '../../state/redis/counters.ts'
import type { UnsavedCounters } from '../../state/sqlite/quota-journal.ts'
import { UsageHistory } from '../../insight/usage/usage-history.ts'
import { createMemoryUsageStore, type UsageStore } from '../../state/usage.ts'
import { createRedisUsageStore } from '../../state/redis/usage.ts'
import { createSqliteUsageStore } from '../../state/sqlite/usage.ts'

/** The stores of quota and bans. */
export interface Stores {
  /** undefined: embedded, here or in the supervisor. */
  readonly redis: RedisStore | undefined
  readonly authority: Authority
  readonly bans: BanStore
  readonly clock: StoreClock
  /** Unsaved counters of the embedded store, where it belongs to this process. */
  readonly unsaved?: () => UnsavedCounters | undefined
}

export interface StoreParts {
  readonly config: Config
  readonly log: Log
  readonly metrics: Metrics
}

/** metrics: given in a process that serves; a supervisor's calls serve operators only, and no request waits for them. */
type StoreNeeds = Pick<StoreParts, 'config' | 'log'> & Partial<StoreParts>

/** Stores of a process that has no supervisor to ask, or is one. */
export type OwnStores =
  | (Stores & {
      readonly redis: RedisStore
      readonly usage: UsageStore
      readonly counters: Counters
    })
  | ({ readonly redis: undefined } & ReturnType<typeof openEmbeddedStores>)

/** Returns at once. Throws an Error that names store.file when it cannot be opened. */
export function openStores(parts: StoreNeeds): OwnStores {
  const { config, log } = parts
  const redis = connectStore(parts)
  if (redis === undefined) return { redis, ...openEmbeddedStores(config, log) }
  const usage = createRedisUsageStore(redis, config.store.prefix)
  const counters = new Counters(createRedisCounters(redis, config.store.prefix))
  return { redis, ...redisStores(parts, redis), usage, counters }
}

/** History that collects what the processes of this gateway count. */
export const createUsageHistory = (store: UsageStore, log: Log): UsageHistory =>
  new UsageHistory({
    store,
    onFault: log.usageNotKept,
    onRecovered: log.usageKept,
    onDropped: log.usageDropped,
  })

/** Returns undefined without store.redis. onState: called on every change. */
export function connectStore({
  config,
  log,
  metrics,
  onState,
}: StoreNeeds & { onState?: (health: StoreHealth) => void }): RedisStore | undefined {
  const { store } = config
  if (store.redis === undefined) return undefined
  const report = createOutageReport({ config, log, ...(metrics && { metrics }) })
  let health: StoreHealth = { ...embeddedHealth, available: false, cause: 'no answer yet' }
  const reportState = (news: Partial<StoreHealth>): void =>
    onState?.((health = { ...health, ...news }))
  return connectRedis({
    servers: store.redis,
    tls: store.redis.tls && readTlsFiles('store.redis.tls', store.redis.tls),
    timeoutMs: store.timeoutMs,
    prefix: store.prefix,
    onState: (available, cause, refusal) => {
      report(available, cause)
      reportState({ available, cause: available ? undefined : cause, refusal })
    },
    onWarning: (warning) => {
      if (warning !== undefined) log.storeWarning({ warning })
      reportState({ warning })
    },
  })
}

export const createStoreClock = (): StoreClock =>
  new StoreClock({ nowMs: () => performance.now(), epochMs: Date.now })

export function redisStores(
  { config: { store }, metrics }: StoreNeeds,
  redis: RedisStore,
): Omit<Stores, 'redis'> {
  const { prefix } = store
  const clock = createStoreClock()
  return {
    clock,
    authority: createRedisAuthority({ store: redis, prefix, observe: metrics?.quota }),
    bans: createRedisBanStore(redis, prefix, clock),
  }
}

function openEmbeddedStores(
  { store: { file, timeoutMs } }: Config,
  log: Log,
): Required<Omit<Stores, 'redis'>> & {
  readonly authority: EmbeddedAuthority & Required<Pick<Authority, 'onNotice'>>
  readonly usage: UsageStore
  readonly counters: Counters
} {
  const authority = openEmbeddedAuthority({
    file,
    clock: { epochMs: () => Date.now() },
    timeoutMs,
    onFileEvent: log.storeFile,
    onFault: (error) => log.countersNotKept(error),
    onRecovered: () => log.countersKept(),
  })
  const bans =
    file === undefined ? createMemoryBanStore() : createSqliteBanStore(file, log.storeFile)
  const usage =
    file === undefined ? createMemoryUsageStore() : createSqliteUsageStore(file, log.storeFile)
  // Listeners receive what an operator does; the supervisor itself passes on what calls cause.
  const listeners: NoticeListener[] = []
  const onNotice = (listener: NoticeListener): void => void listeners.push(listener)
  const notify: NoticeListener = (...news) => listeners.forEach((listener) => listener(...news))
  const counters = new Counters(createEmbeddedCounters(authority, notify))
  return {
    authority: Object.assign(authority, { onNotice }),
    bans,
    clock: createStoreClock(),
    usage,
    counters,
    unsaved: () => authority.unsaved,
  }
}

/** Reports to log and metrics that a store is lost, and for how long once it is back; one outage is reported again if its cause changes. */
export function createOutageReport({
  config: { store },
  log,
  metrics,
}: StoreNeeds): (available: boolean, cause?: string) => void {
  const server = store.redis && nameServers(store.redis)
  let lostAtMs: number | undefined
  return (available, cause = 'no usable answer within store.timeout') => {
    if (available || lostAtMs === undefined) metrics?.quota.outage(available)
    if (!available) {
      lostAtMs ??= performance.now()
      return log.storeLost({ mode: store.onOutage, server, cause })
    }
    if (lostAtMs !== undefined)
      log.storeBack({ server, outageMs: Math.round(performance.now() - lostAtMs) })
    lostAtMs = undefined
  }
}
