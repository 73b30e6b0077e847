/** The composition root: builds every part from a config and ties them together. */
import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { startAdminServer, type AdminServer } from './adapters/admin-server.ts'
import { createAnonymousLimiter } from './adapters/anonymous-limiter.ts'
import { createBackendProbe } from './adapters/backend-probe.ts'
import { createBanBook, type BanBook } from './adapters/ban-book.ts'
import { createMemoryBanStore, type BanStore } from './adapters/ban-store.ts'
import { createRedisBanStore } from './adapters/ban-store-redis.ts'
import { createSqliteBanStore } from './adapters/ban-store-sqlite.ts'
import { createHttpProxyForwarder } from './adapters/http-proxy-forwarder.ts'
import { createHttpProxyUpgrader } from './adapters/http-proxy-upgrader.ts'
import { createJwtVerifier, type JwtVerifier } from './adapters/jwt-verifier.ts'
import { createKeyRing } from './adapters/key-ring.ts'
import { createLog, type Log } from './adapters/log.ts'
import { createMetrics, type Metrics } from './adapters/metrics.ts'
import { connectRedis } from './adapters/redis.ts'
import type { RedisStore } from './adapters/redis-store.ts'
import { createStrikes } from './adapters/strikes.ts'
import { createUndiciForwarder } from './adapters/undici-forwarder.ts'
import type { Config, ListenAddress } from './config/config.ts'
import { createFrontDoor, type FrontDoor } from './front-door.ts'
import { createMemoryAuthority } from './quota/authority-memory.ts'
import { createRedisAuthority } from './quota/authority-redis.ts'
import { ListenError } from './listen-error.ts'
import { createLessee } from './quota/lessee.ts'
import type { Lessee } from './quota/protocol.ts'
import { createReadiness } from './readiness.ts'

export interface Gateway {
  /** Resolves with the real addresses once both listeners are up; rejects with ListenError when one cannot be had. */
  listen(): Promise<{ listen: ListenAddress; admin: ListenAddress }>
  /** Answers what is in flight within server.timeouts.drain, hands quota back and closes everything. Never rejects. */
  drain(reason: string): Promise<void>
  /** Logs the error over which the process is about to end; written before it returns. */
  crash(error: unknown): void
}

/** A start waits this long for the store, so that its first requests are not decided without it. */
const STORE_AT_START_MS = 1_000

export interface GatewayOptions {
  readonly version: string
  /** Where log lines go; stderr unless given. */
  readonly logTo?: { write(line: string): unknown }
}

/** Every part of one gateway, made and not yet listening. */
interface Parts {
  readonly config: Config
  readonly log: Log
  readonly metrics: Metrics
  readonly redis: RedisStore | undefined
  readonly lessee: Lessee
  readonly bans: BanBook
  readonly jwt: JwtVerifier | undefined
  readonly door: FrontDoor
}

export function createGateway(config: Config, options: GatewayOptions): Gateway {
  const parts = createParts(config, options)
  const { log, metrics, bans, jwt, door } = parts
  let admin: AdminServer | undefined
  let listening = false
  const readiness = createReadiness({
    config,
    isListening: () => listening,
    isStoreAvailable: () => parts.redis?.available ?? true,
    backend: createBackendProbe(config.upstream.urls, config.upstream.timeouts.connectMs),
  })
  return {
    async listen() {
      await storeAnswers(parts.redis)
      await Promise.all([bans.ready(), jwt?.ready()])
      const abandon = (listener: 'public' | 'admin') => async (error: unknown) => {
        await admin?.close()
        await closeParts(parts)
        throw new ListenError(listener, error)
      }
      admin = await startAdminServer({
        listen: config.admin.listen,
        renderMetrics: () => {
          metrics.bannedKeys(bans.size)
          return metrics.render()
        },
        readiness,
        onError: (error) => log.adminFailed(error),
      }).catch(abandon('admin'))
      const listen = await door.listen().catch(abandon('public'))
      listening = true
      log.configTaken({ revision: config.revision })
      log.listening({ listener: 'public', ...listen })
      log.listening({ listener: 'admin', ...admin.address })
      return { listen, admin: admin.address }
    },
    async drain() {
      listening = false
      const { drainMs } = config.server.timeouts
      log.draining({ inFlight: door.inFlight(), timeoutMs: drainMs })
      const cutOff = await door.drain(drainMs)
      await parts.lessee.drain()
      log.drained({ cutOff })
      await admin?.close()
      await closeParts(parts)
    },
    crash: (error) => log.crash(error),
  }
}

async function storeAnswers(redis: RedisStore | undefined): Promise<void> {
  if (redis === undefined) return
  const timer = new AbortController()
  const answered = new Promise<void>((resolve) => redis.onRecovered(resolve))
  await Promise.race([answered, sleep(STORE_AT_START_MS, undefined, { signal: timer.signal })])
  timer.abort()
}

async function closeParts({ door, bans, jwt, redis, log }: Parts): Promise<void> {
  jwt?.close()
  await Promise.allSettled([door.close(), bans.close()])
  await redis?.close()
  await log.close()
}

function createParts(config: Config, { version, logTo }: GatewayOptions): Parts {
  const { level, access } = config.log
  const log = createLog({ level, access, ...(logTo && { destination: logTo }) })
  const metrics = createMetrics({
    version,
    revision: config.revision,
    plans: [...config.plans.keys()],
    routes: config.routes.map(({ name }) => name),
  })
  const redis = connectStore(config, log, metrics)
  const lessee = createQuota(config, metrics, redis)
  const bans = createBans({ config, log, metrics, redis })
  const jwt =
    config.jwt &&
    createJwtVerifier(config.jwt, {
      clients: new Map(config.clients.map((client) => [client.id, client])),
      plans: config.plans,
      log: {
        keySetFailed: (cause) => log.keySetFailed({ cause }),
        keySetLoaded: () => undefined,
        overloaded: () => undefined,
      },
    })
  const { urls, connections, timeouts, engine } = config.upstream
  const createForwarder = engine === 'undici' ? createUndiciForwarder : createHttpProxyForwarder
  const door = createFrontDoor(config, {
    log,
    metrics,
    lessee,
    bans,
    jwt,
    keyRing: createKeyRing(config.clients),
    anonymous: createAnonymousLimiter(config.anonymous),
    forwarder: createForwarder({ urls, connections, timeouts }),
    upgrader: createHttpProxyUpgrader({ urls, timeouts }),
  })
  return { config, log, metrics, redis, lessee, bans, jwt, door }
}

function connectStore({ store }: Config, log: Log, metrics: Metrics): RedisStore | undefined {
  if (store.redis === undefined) return undefined
  let lostAtMs: number | undefined
  return connectRedis({
    url: store.redis,
    timeoutMs: store.timeoutMs,
    prefix: store.prefix,
    onState: (available) => {
      metrics.quota.outage(available)
      if (!available) {
        lostAtMs ??= performance.now()
        return log.storeLost({
          mode: store.onOutage,
          cause: 'no usable answer within store.timeout',
        })
      }
      if (lostAtMs !== undefined)
        log.storeBack({ outageMs: Math.round(performance.now() - lostAtMs) })
      lostAtMs = undefined
    },
  })
}

function createQuota(config: Config, metrics: Metrics, redis: RedisStore | undefined): Lessee {
  const epochMs = (): number => Date.now()
  const authority =
    redis === undefined
      ? createMemoryAuthority({ clock: { epochMs } })
      : createRedisAuthority({ store: redis, prefix: config.store.prefix, observe: metrics.quota })
  return createLessee({
    authority,
    // Unique per boot: a restarted process must not be taken for the one before it.
    processId: randomBytes(9).toString('base64url'),
    clock: { nowMs: () => performance.now(), epochMs },
    outage: config.store.onOutage,
    lease: config.store.lease,
    observe: metrics.quota,
  })
}

function createBans(parts: Pick<Parts, 'config' | 'log' | 'metrics' | 'redis'>): BanBook {
  const { config, log, metrics, redis } = parts
  const clientOf = new Map(
    config.clients.flatMap(({ id, keys }) => keys.map((key) => [key.id, id])),
  )
  return createBanBook({
    policy: config.bans,
    store: createBanStore(parts),
    createStrikes: (onBan) =>
      createStrikes({
        policy: config.bans,
        redis,
        prefix: config.store.prefix,
        timeoutMs: config.store.timeoutMs,
        onBan,
      }),
    loadTimeoutMs: config.store.timeoutMs,
    observer: {
      strike: () => metrics.strike(),
      banned: (key, ban) => {
        metrics.banned()
        log.keyBanned({
          key,
          client: clientOf.get(key) ?? key.replace(/^jwt:/, ''),
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

function createBanStore({ config, log, redis }: Pick<Parts, 'config' | 'log' | 'redis'>): BanStore {
  if (redis !== undefined) return createRedisBanStore(redis, config.store.prefix)
  if (config.store.file === undefined) return createMemoryBanStore()
  return createSqliteBanStore(config.store.file, (keptAs) => log.banFileDamaged({ keptAs }))
}
