/**
 * The Redis that all processes share: one server, the master of sentinels, or a cluster. Calls are bounded, and each server is
 * behind a breaker.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { ConnectionOptions } from 'node:tls'
import type { Cluster, Redis } from 'ioredis'
import type { HostPort, RedisConfig } from '../../config/config.ts'
import { createConnections } from './connections.ts'
import { isKeyFault, isTimeout, isUnresolved } from './faults.ts'
import { Masters, type MastersOptions } from './masters.ts'
import { addressesOf, findRisks, inspectServer, nameOf } from './servers.ts'
import { StoreState, type StateListener } from './state.ts'
import { StoreUnavailable } from '../contract.ts'
import { Subscriber, type Subscription } from './subscriber.ts'

export interface RedisOptions {
  /** The servers of the store. */
  readonly servers: RedisConfig
  /** undefined: connections are not encrypted. */
  readonly tls?: ConnectionOptions | undefined
  /** Bound of every call. */
  readonly timeoutMs: number
  /** Namespace of the key that probes write. */
  readonly prefix?: string
  readonly onState?: StateListener
  /** Called when RedisStore.warning changes. */
  readonly onWarning?: (warning: string | undefined) => void
}

/** The reply of a Lua script: integers and strings. */
export type ScriptReply = readonly (number | string | null)[]

/**
 * Runs a Lua script; its keys are in one hash slot. Throws StoreUnavailable while the server of the keys is known to be away,
 * else rejects with it; the script may still run later.
 */
export type RedisScript = (
  keys: readonly string[],
  args: readonly (string | number)[],
) => Promise<ScriptReply>

/**
 * The gateway's view of Redis. Calls reject with StoreUnavailable when the server that holds the key is away, too slow or refuses
 * them. After a few errors in a row, or a second of silence, they reject at once and without a call.
 */
export type RedisStore = ReturnType<typeof connectRedis>

/** A start waits this long for the store, so that its first requests are not decided without it. */
const READY_AT_MOST_MS = 1_000

/** Returns at once; the store becomes available as soon as a server has answered a probe. */
export function connectRedis(options: RedisOptions) {
  const { servers, timeoutMs, prefix = 'tollgate', onState = () => undefined } = options
  const connections = createConnections(servers, options.tls)
  const { client } = connections
  const state = new StoreState(servers, onState)
  const masters = new Masters(client, { prefix, timeoutMs, state })
  // In a cluster this reports faults that the library hides, such as a certificate that is not trusted.
  const subscriber = new Subscriber(connections.openSubscriber, (fault, redis) =>
    state.note(fault, servers.kind === 'sentinels' ? undefined : nameOf(redis.options)),
  )
  const watch = watchSentinels(connections, servers, subscriber, state)
  let warning: string | undefined
  // A warning may change, as another server may have taken over.
  const warn = (found: string | undefined): void => {
    if (found !== warning) options.onWarning?.((warning = found))
  }
  state.onRecovered(() => void findRisks(client).then(warn, () => warn(undefined)))
  const onRecovered = (listener: () => void): void => {
    state.onRecovered(listener)
    if (masters.available) listener()
  }
  return {
    /** The client library's own connection or cluster, for libraries that need it; commands sent on it bypass `available`. */
    client: client as unknown,
    ...createCommands(client, masters, { timeoutMs, state }),
    /** false: calls fail at once, until a probe has succeeded. In a cluster: no master can be called. */
    get available() {
      return masters.available
    },
    get refusal() {
      return state.refusal
    },
    get cause() {
      return state.word
    },
    get warning() {
      return warning
    },
    /** Resolves when the store is available, or has had its time to be; rejects with an Error of the refusal, if there is one. */
    ready: async () => {
      const usable = new Promise<void>((resolve) => onRecovered(resolve))
      await Promise.race([usable, sleep(READY_AT_MOST_MS)])
      if (!masters.available && state.refusal === undefined)
        await Promise.all(
          addressesOf(servers).map((each) => inspect(each, options.tls, { state, warn })),
        )
      if (state.refusal !== undefined) throw new Error(state.refusal)
    },
    /** Subscribes on a connection of its own, across reconnects; takes effect as soon as the server is available. */
    subscribe: (channel: string, subscription: Subscription) =>
      subscriber.add(channel, subscription),
    /** Calls the listener each time the store, or one master of the cluster, becomes available, the first time included. */
    onRecovered,
    close: async () => {
      watch?.close()
      subscriber.close()
      masters.close()
    },
  }
}

/** Notes why the server at an address cannot be used. */
async function inspect(
  address: HostPort,
  tls: RedisOptions['tls'],
  { state, warn }: { readonly state: StoreState; warn(found: string): void },
): Promise<void> {
  const fault = await inspectServer(address, tls)
  state.note(fault, nameOf(address))
  if (isUnresolved(fault)) warn(`no such host: ${nameOf(address)}; correct it, or the resolver`)
}

/** A script command, as the library adds it to its client. */
type Command = (this: Redis | Cluster, ...args: (string | number)[]) => Promise<ScriptReply>

function createCommands(
  client: Redis | Cluster,
  masters: Masters,
  { timeoutMs, state }: Pick<MastersOptions, 'timeoutMs' | 'state'>,
) {
  // Thrown for every request of an outage. It is made once, since a stack trace costs more than the decision.
  const away = new StoreUnavailable('error')
  const call = <Reply>(key: string, send: () => Promise<Reply>): Promise<Reply> => {
    const breaker = masters.breakerOf(key)
    if (breaker?.available !== true) throw away
    return breaker.call(send, timeoutMs).catch((fault: unknown) => {
      if (!isKeyFault(fault)) state.note(fault)
      throw new StoreUnavailable(isTimeout(fault) ? 'timeout' : 'error', fault)
    })
  }
  let scripts = 0
  return {
    /** Prepares a script for calls: it is sent whole once per connection, and by its digest afterwards. */
    script: (text: string): RedisScript => {
      const name = `script${scripts++}`
      client.defineCommand(name, { lua: text })
      const command = Reflect.get(client, name) as Command
      return (keys, args) =>
        call(keys[0] ?? '', () => command.call(client, keys.length, ...keys, ...args))
    },
    /** Returns an empty record for an absent key. */
    hgetall: async (key: string) => call(key, () => client.hgetall(key)),
  }
}

/**
 * Leaves a master for the one that the sentinels have named in its place, which the connection itself does not report: an old
 * master that the sentinels cannot reach goes on taking writes that will be lost.
 */
function watchSentinels(
  { client, openSentinel }: ReturnType<typeof createConnections>,
  servers: RedisConfig,
  subscriber: Subscriber,
  state: StoreState,
): Subscriber | undefined {
  if (openSentinel === undefined || 'slots' in client || servers.kind !== 'sentinels')
    return undefined
  const watch = new Subscriber(openSentinel, (fault, { options }) =>
    state.note(fault, nameOf(options)),
  )
  watch.add('+switch-master', {
    message: (text) => {
      const [name, , , host, port] = text.split(' ')
      const { remoteAddress, remotePort } = client.stream ?? {}
      const isThere = remoteAddress === host && String(remotePort) === port
      if (name !== servers.name || isThere) return
      // A connection that is not yet there asks the sentinels by itself.
      if (client.status === 'ready' || client.status === 'connect') client.disconnect(true)
      subscriber.renew()
    },
    subscribed: () => undefined,
  })
  return watch
}
