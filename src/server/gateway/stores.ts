/** Opens the configured store: Redis for all hosts, or the store embedded in this process. */
import type { Log } from '../../core/record/log.ts'
import type { Metrics } from '../../core/record/metrics.ts'
import { readStoreTls } from './tls-files.ts'
import { RedisStore } from '../../state/redis/redis.ts'
import { openRedisState } from '../../state/redis/home.ts'
import { openSqliteFile } from '../../state/sqlite/file.ts'
import { openSqliteState } from '../../state/sqlite/home.ts'
import { openMemoryState } from '../../state/memory/home.ts'
import type { OwnState } from '../../state/contract.ts'
import type { Config } from '../../config/config.ts'

export interface StoreParts {
  readonly config: Config
  readonly log: Log
  /** Given in a process that serves; a supervisor's calls serve operators only, and no request waits for them. */
  readonly metrics?: Metrics
}

export function openStores(parts: StoreParts): OwnState {
  const { config, log } = parts
  const { file, timeoutMs } = config.store
  const shared = openSharedStore(parts)
  if (shared !== undefined) return shared
  if (file === undefined)
    return openMemoryState(({ warning }) => log.countersNotKept(new Error(warning)))
  return openSqliteState(openSqliteFile(file, log.storeFile), {
    timeoutMs,
    onFault: log.countersNotKept,
    onRecovered: log.countersKept,
  })
}

/** Opens the store that gateways share; undefined: none is configured. */
export function openSharedStore(parts: StoreParts): OwnState | undefined {
  const { config, log } = parts
  const { redis: servers, timeoutMs, prefix } = config.store
  if (servers === undefined) return undefined
  const redis = new RedisStore({
    servers,
    tls: readStoreTls(config.store),
    timeoutMs,
    prefix,
    onState: createOutageReport(parts),
    onWarning: (warning) => warning !== undefined && log.storeWarning({ warning }),
  })
  return openRedisState(redis, prefix)
}

/** Reports to log and metrics that a store is lost, and for how long once it is back; one outage is reported again if its cause changes. */
export function createOutageReport({
  config: { store },
  log,
  metrics,
}: StoreParts): (available: boolean, cause?: string) => void {
  const server = store.shared?.servers
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
