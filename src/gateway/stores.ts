/** Opens what the configuration says state is kept in: Redis for all hosts, or the store embedded in this process. */
import { embeddedHealth, type StoreHealth } from '../admin/readiness.ts'
import type { BanStore } from '../bans/ban-store.ts'
import { createMemoryBanStore } from '../bans/ban-store.ts'
import { createRedisBanStore } from '../bans/ban-store-redis.ts'
import { createSqliteBanStore } from '../bans/ban-store-sqlite.ts'
import type { Log } from '../observability/log.ts'
import type { Metrics } from '../observability/metrics.ts'
import { connectRedis } from '../redis/redis.ts'
import { readTlsFiles } from './tls-files.ts'
import { nameServers } from '../redis/servers.ts'
import type { RedisStore } from '../redis/store.ts'
import type { Config } from '../config/config.ts'
import { openEmbeddedAuthority } from '../quota/authorities/embedded.ts'
import type { EmbeddedAuthority } from '../quota/authorities/memory.ts'
import { createRedisAuthority } from '../quota/authorities/redis.ts'
import type { Authority } from '../quota/protocol.ts'
import type { UnsavedCounters } from '../quota/journal/journal.ts'

/** Where quota and bans are kept. */
export interface Stores {
  /** undefined: embedded, here or in the supervisor. */
  readonly redis: RedisStore | undefined
  readonly authority: Authority
  readonly bans: BanStore
  /** Of the embedded store, where it is this process's own. */
  readonly unsaved?: () => UnsavedCounters | undefined
}

export interface StoreParts {
  readonly config: Config
  readonly log: Log
  readonly metrics: Metrics
}

/** The stores of a process that has no supervisor to ask. Throws an Error that names store.file when it cannot be opened. */
export function openStores(parts: StoreParts): Stores {
  const { config, log } = parts
  const redis = connectStore(parts)
  return redis === undefined
    ? { redis, ...openEmbeddedStores(config, log) }
    : { redis, ...redisStores(parts, redis) }
}

/** undefined without store.redis. onState: told of every change. */
export function connectStore({
  config,
  log,
  metrics,
  onState,
}: StoreParts & { onState?: (health: StoreHealth) => void }): RedisStore | undefined {
  const { store } = config
  if (store.redis === undefined) return undefined
  const report = createOutageReport({ config, log, metrics })
  let health: StoreHealth = { ...embeddedHealth, available: false, cause: 'no answer yet' }
  const tell = (news: Partial<StoreHealth>): void => onState?.((health = { ...health, ...news }))
  return connectRedis({
    servers: store.redis,
    tls: store.redis.tls && readTlsFiles('store.redis.tls', store.redis.tls),
    timeoutMs: store.timeoutMs,
    prefix: store.prefix,
    onState: (available, cause, refusal) => {
      report(available, cause)
      tell({ available, cause: available ? undefined : cause, refusal })
    },
    onWarning: (warning) => {
      if (warning !== undefined) log.storeWarning({ warning })
      tell({ warning })
    },
  })
}

export function redisStores(
  { config: { store }, metrics }: StoreParts,
  redis: RedisStore,
): Omit<Stores, 'redis'> {
  const { prefix } = store
  return {
    authority: createRedisAuthority({ store: redis, prefix, observe: metrics.quota }),
    bans: createRedisBanStore(redis, prefix),
  }
}

export function openEmbeddedStores(
  { store: { file, timeoutMs } }: Config,
  log: Log,
): { readonly authority: EmbeddedAuthority } & Required<Pick<Stores, 'bans' | 'unsaved'>> {
  const onDamaged = (keptAs: string): void => log.storeFileSetAside({ keptAs })
  const authority = openEmbeddedAuthority({
    file,
    clock: { epochMs: () => Date.now() },
    timeoutMs,
    onDamaged,
    onFault: (error) => log.countersNotKept(error),
    onRecovered: () => log.countersKept(),
  })
  const bans = file === undefined ? createMemoryBanStore() : createSqliteBanStore(file, onDamaged)
  return { authority, bans, unsaved: () => authority.unsaved }
}

/** Tells log and metrics of a store that is lost, and for how long once it is back; of one outage more than once if its cause changes. */
export function createOutageReport({
  config: { store },
  log,
  metrics,
}: StoreParts): (available: boolean, cause?: string) => void {
  const server = store.redis && nameServers(store.redis)
  let lostAtMs: number | undefined
  return (available, cause = 'no usable answer within store.timeout') => {
    if (available || lostAtMs === undefined) metrics.quota.outage(available)
    if (!available) {
      lostAtMs ??= performance.now()
      return log.storeLost({ mode: store.onOutage, server, cause })
    }
    if (lostAtMs !== undefined)
      log.storeBack({ server, outageMs: Math.round(performance.now() - lostAtMs) })
    lostAtMs = undefined
  }
}
