/** Connections to Redis through ioredis: bounded, without queues or resends; the only file that imports the library's values. */
import { createRequire } from 'node:module'
import type { Socket } from 'node:net'
import type { ConnectionOptions } from 'node:tls'
import type * as Library from 'ioredis'
import type { Cluster, Redis, RedisOptions as LibraryOptions } from 'ioredis'
import type { HostPort, RedisConfig } from '../../config/config.ts'
import { afterTurn } from '../timers.ts'
import { timedOut } from './faults.ts'

export interface RedisOptions {
  readonly servers: RedisConfig
  /** undefined: connections are not encrypted. */
  readonly tls?: ConnectionOptions | undefined
  /** Bound of every call. */
  readonly timeoutMs: number
  /** Namespace of the key that probes write. */
  readonly prefix?: string
  /**
   * Called with true when all servers are usable, the first time included; with false when one is lost, and when that turns out to
   * be a refusal or no longer is one. cause: one word.
   */
  readonly onState?: (available: boolean, cause: string) => void
  /** Called when RedisStore.warning changes. */
  readonly onWarning?: (warning: string | undefined) => void
}

export type ScriptReply = readonly (number | string | null)[]

/** Runs a Lua script; its keys are in one hash slot. It may still run after it was given up. */
export type RedisScript = (
  keys: readonly string[],
  args: readonly (string | number)[],
) => Promise<ScriptReply>

let loaded: typeof Library | undefined
/** The library is loaded only where Redis is used, as it takes a tenth of the start. */
const library = (): typeof Library => (loaded ??= load())

function load(): typeof Library {
  const ioredis = createRequire(import.meta.url)('ioredis') as typeof Library
  restoreFastStrings()
  listenForEveryError(ioredis)
  readBeforeGivingUp(ioredis)
  return ioredis
}

/** More than V8 needs before it gathers feedback on a function. */
const LOOKUPS = 2_000

/**
 * ioredis declares a class that extends String, for which V8 keeps String.prototype in its slow form: 3 % of the CPU of a
 * forwarded request. A look-up on a String object (never one on a plain string) makes V8 rebuild the fast form. Must be called
 * once, after the library was loaded.
 */
function restoreFastStrings(): void {
  const lengthOf = (text: string): number => text.length
  const wrapped = Object('x') as string
  for (let at = 0; at < LOOKUPS; at++) lengthOf(wrapped)
}

/** A peer that owes an answer and sends nothing for so long may have vanished: its connection is given up, and another opened. */
const SILENT_COMMANDS_MS = 2_500
const SILENT_MESSAGES_MS = 1_000
const READONLY_RECONNECT_EVERY_MS = 1000
/** Slots may move unnoticed while nothing is asked for them; a call to one finds out at once. */
const SLOTS_REFRESH_EVERY_MS = 10_000

/**
 * client: for commands; reconnects by itself for ever. openSubscriber: for subscriptions; its connection ends when it is lost.
 * openSentinel: the same to one sentinel after the other; undefined without sentinels. All connect at once, by tls where given.
 */
export function createConnections({ servers, tls }: RedisOptions) {
  const common = { ...commonOptions, username: servers.username, password: servers.password, tls }
  const forCommands = { ...common, socketTimeout: SILENT_COMMANDS_MS }
  const forMessages = { ...common, socketTimeout: SILENT_MESSAGES_MS, retryStrategy: null }
  const { Redis } = library()

  if (servers.kind === 'cluster') {
    const client = openCluster(servers.addresses, forCommands)
    const openSubscriber = (): Redis => {
      // Every node of a cluster receives what is published on any.
      const known = client
        .nodes()
        .map(({ options: { host, port } }) => ({ host, port }) as HostPort)
      const nodes = known.length > 0 ? known : servers.addresses
      return new Redis({ ...forMessages, ...nodes[Math.floor(Math.random() * nodes.length)] })
    }
    return { client, openSubscriber, openSentinel: undefined }
  }
  const endpoint = servers.kind === 'server' ? servers.addresses[0] : sentinelOptions(servers, tls)
  const client = new Redis({ ...forCommands, ...persistence(), ...endpoint, db: servers.db })
  const noRetry = { sentinelRetryStrategy: () => null }
  const openSubscriber = (): Redis => new Redis({ ...forMessages, ...endpoint, ...noRetry })
  if (servers.kind === 'server') return { client, openSubscriber, openSentinel: undefined }
  const { addresses, sentinelUsername: username, sentinelPassword: password } = servers
  let turn = Math.floor(Math.random() * addresses.length)
  const openSentinel = (): Redis =>
    new Redis({ ...forMessages, ...addresses[turn++ % addresses.length], username, password })
  return { client, openSubscriber, openSentinel }
}

/**
 * A TLS socket that is ended during its handshake may emit two errors: that the certificate is not accepted, and the server's
 * alert. The library listens for one; the other would end the process. So each socket that a connector ends gets a listener,
 * including those that the library opens by itself (to sentinels and nodes).
 */
function listenForEveryError({ AbstractConnector: { prototype } }: typeof Library): void {
  const { disconnect } = prototype
  prototype.disconnect = function end(this: typeof prototype): void {
    const socket = Reflect.get(this, 'stream') as Socket | undefined
    socket?.on('error', () => undefined)
    disconnect.call(this)
  }
}

/** What the library keeps of a connection that owes answers. */
interface Owing {
  readonly stream: Socket
  readonly options: { readonly socketTimeout: number }
  readonly commandQueue: { readonly length: number }
  socketTimeoutTimer: NodeJS.Timeout | undefined
  setSocketTimeout(): void
}

/** Bounds a peer's silence as the library does, but one turn of the event loop later: a process that stood still may have the answer. */
function readBeforeGivingUp({ Redis: { prototype } }: typeof Library): void {
  Reflect.set(prototype, 'setSocketTimeout', function wait(this: Owing): void {
    const { stream, options } = this
    const timer = afterTurn(options.socketTimeout, () => {
      if (this.socketTimeoutTimer === timer) stream.destroy(timedOut())
    })
    this.socketTimeoutTimer = timer
    stream.once('data', () => {
      clearTimeout(timer)
      this.socketTimeoutTimer = undefined
      if (this.commandQueue.length > 0) this.setSocketTimeout()
    })
  })
}

let scripts = 0

/** Prepares a script: it is sent whole once per connection, and by its digest afterwards. */
export function defineScript(client: Redis | Cluster, lua: string): RedisScript {
  const name = `script${scripts++}`
  client.defineCommand(name, { lua })
  // The library adds the command to its client.
  const command = Reflect.get(client, name) as (
    this: Redis | Cluster,
    ...args: (string | number)[]
  ) => Promise<ScriptReply>
  return (keys, args) => command.call(client, keys.length, ...keys, ...args)
}

export function slotOf(key: string): number {
  return new (library().Command)('get', [key]).getSlot() ?? 0
}

const commonOptions = {
  // No call waits for a connection and none is sent twice: an answer after the time-out is of no use.
  enableOfflineQueue: false,
  maxRetriesPerRequest: 0,
  autoResendUnfulfilledCommands: false,
  autoResubscribe: false,
  connectTimeout: 1000,
  disconnectTimeout: 100,
  // The probes of the breaker reveal more, need no permission for INFO, and do not write to the console without it.
  enableReadyCheck: false,
} satisfies LibraryOptions

const reconnectAfterMs = (attempt: number): number =>
  Math.min(25 * 2 ** Math.min(attempt, 10), 500) + Math.random() * 50

/** Options of a connection that must never end: how it is opened again. */
function persistence() {
  let mayReconnectAtMs = 0
  return {
    retryStrategy: reconnectAfterMs,
    // After a failover the address may lead to the new master; if it does not, further attempts at once would be a storm.
    reconnectOnError: (fault: Error) => {
      const nowMs = performance.now()
      if (!fault.message.includes('READONLY') || nowMs < mayReconnectAtMs) return false
      mayReconnectAtMs = nowMs + READONLY_RECONNECT_EVERY_MS
      return true
    },
  } satisfies LibraryOptions
}

function sentinelOptions(
  servers: RedisConfig & { readonly kind: 'sentinels' },
  tls: ConnectionOptions | undefined,
) {
  const { addresses, name, sentinelUsername, sentinelPassword } = servers
  return {
    sentinels: [...addresses],
    name,
    sentinelUsername,
    sentinelPassword,
    sentinelTLS: tls,
    enableTLSForSentinelMode: tls !== undefined,
    // Only configured sentinels are used: discovered ones may have names that no certificate carries, and would pile up.
    updateSentinels: false,
    sentinelCommandTimeout: 400,
    sentinelRetryStrategy: reconnectAfterMs,
  } satisfies LibraryOptions
}

/** A node that is lost leaves the pool, and comes back with the next refresh of the slots, which each failed probe asks for. */
function openCluster(nodes: readonly HostPort[], redisOptions: typeof commonOptions): Cluster {
  return new (library().Cluster)([...nodes], {
    // Its nodes do queue one command, which opens their connection.
    enableOfflineQueue: false,
    enableReadyCheck: false,
    // A redirected call was not carried out by the first node, so that sending it on counts nothing twice.
    maxRedirections: 3,
    // The library does not wait; a waiting call would be late. The breaker decides when to try again.
    retryDelayOnFailover: 0,
    retryDelayOnClusterDown: 0,
    slotsRefreshTimeout: 300,
    slotsRefreshInterval: SLOTS_REFRESH_EVERY_MS,
    clusterRetryStrategy: reconnectAfterMs,
    // Names are not resolved here, for the sake of certificates, and so that one that cannot be resolved does not block the
    // others.
    dnsLookup: (name, resolved) => resolved(null, name),
    redisOptions,
  })
}
