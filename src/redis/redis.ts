/** The Redis that all processes share, one server, sentinels' master or cluster: bounded calls, and a breaker in front of each server. */
import type { Cluster, Redis } from 'ioredis'
import type { RedisConfig } from '../config/config.ts'
import { createClusterLink } from './cluster-link.ts'
import { createConnections, type RedisConnections } from './connections.ts'
import { bounded, faultWord, isTimeout, isWrongType } from './faults.ts'
import { createServerLink, type LinkOptions, type RedisLink } from './link.ts'
import { StoreUnavailable } from '../rules/store-unavailable.ts'
import type { RedisStore, ScriptCall, ScriptReply } from './store.ts'
import { createSubscriber, type Subscriber } from './subscriber.ts'

const PUBLISH = "return redis.call('PUBLISH', KEYS[1], ARGV[1])"

/**
 * servers: where the store is.
 * timeoutMs: bound of every call.
 * prefix: namespace of the key that probes write.
 * onState: told when a server is lost (false) and when all are usable (true), the first time included; the cause is one word.
 * Returns at once; the store becomes available as soon as a server has answered a probe.
 * Throws an Error that names the file when one for TLS cannot be used.
 */
export function connectRedis({
  servers,
  timeoutMs,
  prefix = 'tollgate',
  onState,
}: {
  servers: RedisConfig
  timeoutMs: number
  prefix?: string
  onState?: (available: boolean, cause: string) => void
}): RedisStore {
  const connections = createConnections(servers, timeoutMs)
  const recovered: (() => void)[] = []
  let lastFault: unknown
  const link = createLink(connections.client, {
    prefix,
    timeoutMs,
    onWhole: (isWhole) => {
      onState?.(isWhole, faultWord(lastFault))
      lastFault = undefined
    },
    onRecovered: () => recovered.forEach((listener) => listener()),
    onFault: (fault) => (lastFault = fault),
  })
  const { client } = link
  const subscriber = createSubscriber(() => connections.openSubscriber())
  const watch = watchSentinels(connections, servers, subscriber)

  // Thrown for every request of an outage: made once, since a stack trace costs more than the decision.
  const away = new StoreUnavailable('error')

  /** Throws at once, without a call, while the server that holds the key is known to be away. */
  const call = <Reply>(key: string, send: () => Promise<Reply>): Promise<Reply> => {
    const breaker = link.breakerOf(key)
    if (breaker?.available !== true) throw away
    return bounded(send(), timeoutMs).then(
      (reply) => {
        breaker.succeeded()
        return reply
      },
      (fault: unknown) => {
        // A key of the wrong type is that key's trouble; the server is well.
        if (!isWrongType(fault)) {
          lastFault = fault
          breaker.failed()
        }
        throw new StoreUnavailable(isTimeout(fault) ? 'timeout' : 'error', fault)
      },
    )
  }

  return {
    client,
    get available() {
      return link.available
    },
    script: ({ name, text, keyCount }) => {
      client.defineCommand(name, { lua: text, numberOfKeys: keyCount })
      const command: unknown = Reflect.get(client, name)
      if (!isCommand(command)) throw new Error(`ioredis did not define the script ${name}`)
      return {
        run: ({ keys, args }: ScriptCall) =>
          call(keys[0] ?? '', () => command.call(client, ...keys, ...args)),
      }
    },
    hgetall: async (key) => call(key, () => client.hgetall(key)),
    hset: async (key, field, value) => void (await call(key, () => client.hset(key, field, value))),
    hdel: async (key, ...fields) => void (await call(key, () => client.hdel(key, ...fields))),
    // As a script, so that in a cluster it goes to the master whose breaker was asked.
    publish: async (channel, message) =>
      void (await call(channel, () => client.eval(PUBLISH, 1, channel, message))),
    subscribe: (channel, subscription) => subscriber.add(channel, subscription),
    onRecovered: (listener) => {
      recovered.push(listener)
      if (link.available) listener()
    },
    close: async () => {
      watch?.close()
      subscriber.close()
      link.close()
    },
  }
}

const isCluster = (client: Redis | Cluster): client is Cluster => client.isCluster

function createLink(client: Redis | Cluster, options: LinkOptions): RedisLink {
  return isCluster(client) ? createClusterLink(client, options) : createServerLink(client, options)
}

/**
 * Leaves a master for the one the sentinels have named in its place, which the connection itself would not tell: an old
 * master that the sentinels cannot reach goes on taking writes that nobody will keep.
 */
function watchSentinels(
  { client, openSentinel }: RedisConnections,
  servers: RedisConfig,
  subscriber: Subscriber,
): Subscriber | undefined {
  if (openSentinel === undefined || isCluster(client) || servers.kind !== 'sentinels')
    return undefined
  const watch = createSubscriber(openSentinel)
  watch.add('+switch-master', {
    message: (text) => {
      const [name, , , host, port] = text.split(' ')
      const { remoteAddress, remotePort } = client.stream ?? {}
      const isThere = remoteAddress === host && String(remotePort) === port
      if (name !== servers.name || isThere) return
      // Any other state leads to the sentinels by itself.
      if (client.status === 'ready') client.disconnect(true)
      subscriber.renew()
    },
    subscribed: () => undefined,
  })
  return watch
}

type Command = (this: Redis | Cluster, ...args: (string | number)[]) => Promise<ScriptReply>

function isCommand(value: unknown): value is Command {
  return typeof value === 'function'
}
