/** Connections to Redis through ioredis: bounded, without queues or resends; the only file that imports the library's values. */
import type { Socket } from 'node:net'
import type { ConnectionOptions } from 'node:tls'
import { AbstractConnector, Cluster, Command, Redis, type RedisOptions } from 'ioredis'
import type { HostPort, RedisConfig } from '../config/config.ts'
import { restoreFastStrings } from './fast-strings.ts'
import { readRedisTls } from './tls.ts'

// After ioredis was loaded; see there.
restoreFastStrings()
hearEveryError()

const CONNECT_TIMEOUT_MS = 1000
const RECONNECT_AT_MOST_MS = 500
const READONLY_RECONNECT_EVERY_MS = 1000
const SUBSCRIBER_TIMEOUT_MS = 1000
const SENTINEL_TIMEOUT_MS = 400
const SLOTS_TIMEOUT_MS = 300
/** Slots move without a word when nothing is asked for them; what is asked for them finds out at once. */
const SLOTS_REFRESH_EVERY_MS = 10_000

export interface RedisConnections {
  /** For commands, not yet connected; reconnects by itself for ever. */
  readonly client: Redis | Cluster
  /** For subscriptions, not yet connected; ends when it is lost. undefined: no server to connect to is known now. */
  openSubscriber(): Redis | undefined
  /** To one sentinel after the other, not yet connected; ends when it is lost. undefined without sentinels. */
  readonly openSentinel: (() => Redis) | undefined
  /** Of every connection; undefined without TLS. */
  readonly tls: ConnectionOptions | undefined
}

/** timeoutMs: bound of a call. Throws an Error that names the file when one for TLS cannot be used. */
export function createConnections(servers: RedisConfig, timeoutMs: number): RedisConnections {
  const tls = servers.tls && readRedisTls(servers.tls)
  const access = {
    ...(servers.username !== undefined && { username: servers.username }),
    ...(servers.password !== undefined && { password: servers.password }),
    ...(tls !== undefined && { tls }),
  }
  // Twice the bound of a call: it only ends handshakes and the calls of other users of the connection.
  const forCommands = { ...commonOptions(Math.max(200, 2 * timeoutMs)), ...access }
  const forMessages = { ...commonOptions(SUBSCRIBER_TIMEOUT_MS), ...access, retryStrategy: null }

  if (servers.kind === 'cluster') {
    const cluster = openCluster(servers.nodes, forCommands)
    return {
      client: cluster,
      openSubscriber: () => {
        // Every node of a cluster hears what is published on any.
        const known = cluster.nodes().map(({ options: { host, port } }) => ({ host, port }))
        const nodes = known.length > 0 ? known : servers.nodes
        const { host, port } = nodes[Math.floor(Math.random() * nodes.length)] ?? {}
        if (host === undefined || port === undefined) return undefined
        return new Redis({ ...forMessages, host, port })
      },
      openSentinel: undefined,
      tls,
    }
  }
  if (servers.kind === 'sentinels') {
    const { db } = servers
    const sentinels = sentinelOptions(servers, tls)
    return {
      client: new Redis({ ...forCommands, ...persistence(), ...sentinels, db }),
      openSubscriber: () =>
        new Redis({ ...forMessages, ...sentinels, sentinelRetryStrategy: () => null }),
      openSentinel: sentinelOpener(servers, tls),
      tls,
    }
  }
  const { address, db } = servers
  return {
    client: new Redis({ ...forCommands, ...persistence(), ...address, db }),
    openSubscriber: () => new Redis({ ...forMessages, ...address }),
    openSentinel: undefined,
    tls,
  }
}

/**
 * A TLS socket that is ended in mid-handshake tells of two errors if the server's certificate is no good: that, and the alert
 * of the server. The library listens for one; the other would end the process. So each socket gets a listener when a
 * connector takes it, those that the library opens by itself (to sentinels and nodes) included.
 */
function hearEveryError(): void {
  const sockets = new WeakMap<object, Socket>()
  Object.defineProperty(AbstractConnector.prototype, 'stream', {
    configurable: true,
    get() {
      return sockets.get(this)
    },
    set(socket: Socket) {
      socket.on('error', () => undefined)
      sockets.set(this, socket)
    },
  })
}

/** The hash slot of a key. */
export function slotOf(key: string): number {
  return new Command('get', [key]).getSlot() ?? 0
}

function commonOptions(commandTimeoutMs: number) {
  return {
    lazyConnect: true,
    // Nothing waits for a connection, and nothing is sent twice: an answer later than the time-out is of no use.
    enableOfflineQueue: false,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    autoResubscribe: false,
    connectTimeout: CONNECT_TIMEOUT_MS,
    disconnectTimeout: 100,
    commandTimeout: commandTimeoutMs,
    // The probes of the breaker tell more, need no permission for INFO, and do not write to the console without it.
    enableReadyCheck: false,
  } satisfies RedisOptions
}

const reconnectAfterMs = (attempt: number): number =>
  Math.min(25 * 2 ** Math.min(attempt, 10), RECONNECT_AT_MOST_MS) + Math.random() * 50

/** How a connection that must never end comes back. */
function persistence() {
  let mayReconnectAtMs = 0
  return {
    retryStrategy: reconnectAfterMs,
    // After a failover the address may lead to the new master; if it does not, asking again and again would be a storm.
    reconnectOnError: (fault: Error) => {
      const nowMs = performance.now()
      if (!fault.message.includes('READONLY') || nowMs < mayReconnectAtMs) return false
      mayReconnectAtMs = nowMs + READONLY_RECONNECT_EVERY_MS
      return true
    },
  } satisfies RedisOptions
}

type Sentinels = RedisConfig & { readonly kind: 'sentinels' }

function sentinelOptions(servers: Sentinels, tls: ConnectionOptions | undefined) {
  const { sentinels, name, sentinelUsername, sentinelPassword } = servers
  return {
    sentinels: sentinels.map((sentinel) => ({ ...sentinel })),
    name,
    role: 'master',
    // Those of the configuration: found ones could go by names that no certificate carries, and would pile up.
    updateSentinels: false,
    sentinelCommandTimeout: SENTINEL_TIMEOUT_MS,
    sentinelRetryStrategy: reconnectAfterMs,
    ...(sentinelUsername !== undefined && { sentinelUsername }),
    ...(sentinelPassword !== undefined && { sentinelPassword }),
    ...(tls !== undefined && { sentinelTLS: tls, enableTLSForSentinelMode: true }),
  } satisfies RedisOptions
}

function sentinelOpener(servers: Sentinels, tls: ConnectionOptions | undefined): () => Redis {
  const { sentinels, sentinelUsername, sentinelPassword } = servers
  let turn = Math.floor(Math.random() * sentinels.length)
  return () => {
    const sentinel = sentinels[turn++ % sentinels.length]
    return new Redis({
      ...commonOptions(SUBSCRIBER_TIMEOUT_MS),
      ...sentinel,
      retryStrategy: null,
      ...(sentinelUsername !== undefined && { username: sentinelUsername }),
      ...(sentinelPassword !== undefined && { password: sentinelPassword }),
      ...(tls !== undefined && { tls }),
    })
  }
}

/**
 * enableOfflineQueue: false holds for the cluster; its nodes queue the one command that opens their connection.
 * A node that is lost leaves the pool, and comes back with the next refresh of the slots, which each failed probe asks for.
 */
function openCluster(
  nodes: readonly HostPort[],
  redisOptions: ReturnType<typeof commonOptions>,
): Cluster {
  return new Cluster(
    nodes.map((node) => ({ ...node })),
    {
      lazyConnect: true,
      enableOfflineQueue: false,
      enableReadyCheck: false,
      // A redirected call has not been carried out where it came from, so sending it on counts nothing twice.
      maxRedirections: 3,
      // Waiting is left to the breaker: a call that waits is late.
      retryDelayOnFailover: 0,
      retryDelayOnClusterDown: 0,
      slotsRefreshTimeout: SLOTS_TIMEOUT_MS,
      slotsRefreshInterval: SLOTS_REFRESH_EVERY_MS,
      clusterRetryStrategy: reconnectAfterMs,
      // Names stay names, for certificates and so that one that cannot be resolved does not keep the others from use.
      dnsLookup: (name, resolved) => resolved(null, name),
      redisOptions,
    },
  )
}
