/** Redis through ioredis: bounded calls, no queues, no resends, and a breaker in front; the only file that imports the library's values. */
import { Redis, type RedisOptions } from 'ioredis'
import {
  StoreUnavailable,
  type RedisStore,
  type ScriptCall,
  type ScriptReply,
  type Subscription,
} from './redis-store.ts'
import { createStoreBreaker } from './store-breaker.ts'

const CONNECT_TIMEOUT_MS = 1000
const RECONNECT_AT_MOST_MS = 500
/** Probes without an answer after which the connection itself is suspected (a peer that vanished without a word). */
const SILENT_PROBES_BEFORE_RECONNECT = 4
const READONLY_RECONNECT_EVERY_MS = 1000
const SUBSCRIBER_PING_MS = 500
const SUBSCRIBER_TIMEOUT_MS = 1000

/**
 * url: redis:// or rediss://, user, password and database included.
 * timeoutMs: bound of every call.
 * prefix: namespace of the key that probes write.
 * onState: told when the store is lost (false) or usable (true), the first time included.
 * Returns at once; the store becomes available as soon as the server has answered a probe.
 */
export function connectRedis({
  url,
  timeoutMs,
  prefix = 'tollgate',
  onState,
}: {
  url: string
  timeoutMs: number
  prefix?: string
  onState?: (available: boolean) => void
}): RedisStore {
  // Twice the bound of a call: it only ends handshakes and the calls of other users of the connection.
  const client = new Redis(url, connectionOptions(Math.max(200, 2 * timeoutMs)))
  const recovered: (() => void)[] = []
  let silentProbes = 0

  const breaker = createStoreBreaker({
    probe: async () => {
      if (client.status !== 'ready') throw new StoreUnavailable('error')
      await bounded(probeCall(client, prefix), timeoutMs).then(
        () => {
          silentProbes = 0
        },
        (fault: unknown) => {
          const isSilent = isTimeout(fault)
          silentProbes = isSilent ? silentProbes + 1 : 0
          if (silentProbes >= SILENT_PROBES_BEFORE_RECONNECT) {
            silentProbes = 0
            client.disconnect(true)
          }
          throw fault
        },
      )
    },
    onChange: (available) => {
      onState?.(available)
      if (available) for (const listener of recovered) listener()
    },
  })
  // Without a listener ioredis prints every failed attempt; the breaker tells what matters.
  client.on('error', () => undefined)
  client.on('ready', () => breaker.probe())
  client.on('close', () => breaker.lost())
  client.connect().catch(() => undefined)

  const call = async <Reply>(send: () => Promise<Reply>): Promise<Reply> => {
    if (!breaker.available) throw new StoreUnavailable('error')
    try {
      const reply = await bounded(send(), timeoutMs)
      breaker.succeeded()
      return reply
    } catch (fault) {
      // A key of the wrong type is that key's trouble; the server is well.
      if (!isWrongType(fault)) breaker.failed()
      throw new StoreUnavailable(isTimeout(fault) ? 'timeout' : 'error', fault)
    }
  }
  const subscriber = lazySubscriber(url)

  return {
    client,
    get available() {
      return breaker.available
    },
    script: ({ name, text, keyCount }) => {
      client.defineCommand(name, { lua: text, numberOfKeys: keyCount })
      const command: unknown = Reflect.get(client, name)
      if (!isCommand(command)) throw new Error(`ioredis did not define the script ${name}`)
      return {
        run: ({ keys, args }: ScriptCall) => call(() => command.call(client, ...keys, ...args)),
      }
    },
    hgetall: (key) => call(() => client.hgetall(key)),
    hset: async (key, field, value) => void (await call(() => client.hset(key, field, value))),
    hdel: async (key, ...fields) => void (await call(() => client.hdel(key, ...fields))),
    publish: async (channel, message) => void (await call(() => client.publish(channel, message))),
    subscribe: (channel, subscription) => subscriber.add(channel, subscription),
    onRecovered: (listener) => {
      recovered.push(listener)
      if (breaker.available) listener()
    },
    close: async () => {
      breaker.close()
      subscriber.close()
      client.disconnect()
    },
  }
}

function connectionOptions(commandTimeoutMs: number) {
  let mayReconnectAtMs = 0
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
    retryStrategy: (attempt: number) =>
      Math.min(25 * 2 ** Math.min(attempt, 10), RECONNECT_AT_MOST_MS) + Math.random() * 50,
    // After a failover the address may lead to the new master; if it does not, asking again and again would be a storm.
    reconnectOnError: (fault: Error) => {
      const nowMs = performance.now()
      if (!fault.message.includes('READONLY') || nowMs < mayReconnectAtMs) return false
      mayReconnectAtMs = nowMs + READONLY_RECONNECT_EVERY_MS
      return true
    },
  } satisfies RedisOptions
}

/** Proves scripts and writes, which a replica, a full server or a missing permission would refuse. */
async function probeCall(client: Redis, prefix: string): Promise<void> {
  await client.eval("redis.call('SET', KEYS[1], '1', 'PX', 60000)", 1, `${prefix}:probe`)
}

class CallTimeout extends Error {}

function isTimeout(fault: unknown): boolean {
  return (
    fault instanceof CallTimeout ||
    (fault instanceof Error && fault.message === 'Command timed out')
  )
}

function isWrongType(fault: unknown): boolean {
  return fault instanceof Error && fault.message.includes('WRONGTYPE')
}

/** Rejects with CallTimeout after timeoutMs; the call itself may still be carried out. */
function bounded<Reply>(reply: Promise<Reply>, timeoutMs: number): Promise<Reply> {
  return new Promise((resolve, reject) => {
    // After a stall of the event loop timers run before sockets are read: give an answer that is already there its turn.
    const timer = setTimeout(
      () => setImmediate(() => reject(new CallTimeout('no answer in time'))),
      timeoutMs,
    )
    reply.then(resolve, reject).finally(() => clearTimeout(timer))
  })
}

type Command = (this: Redis, ...args: (string | number)[]) => Promise<ScriptReply>

function isCommand(value: unknown): value is Command {
  return typeof value === 'function'
}

/** A connection of its own, opened with the first channel; pings find a peer that has vanished without a word. */
function lazySubscriber(url: string) {
  const channels = new Map<string, Subscription[]>()
  let connection: Redis | undefined
  let timer: NodeJS.Timeout | undefined

  const join = (redis: Redis, channel: string): void => {
    redis.subscribe(channel).then(
      () => {
        for (const subscription of channels.get(channel) ?? []) subscription.subscribed()
      },
      () => redis.disconnect(true),
    )
  }
  const open = (): Redis => {
    const redis = new Redis(url, connectionOptions(SUBSCRIBER_TIMEOUT_MS))
    redis.on('error', () => undefined)
    redis.on('ready', () => {
      for (const channel of channels.keys()) join(redis, channel)
    })
    redis.on('message', (channel: string, text: string) => {
      for (const subscription of channels.get(channel) ?? []) subscription.message(text)
    })
    redis.connect().catch(() => undefined)
    timer = setInterval(() => {
      if (redis.status === 'ready') redis.ping().catch(() => redis.disconnect(true))
    }, SUBSCRIBER_PING_MS).unref()
    return redis
  }
  return {
    add: (channel: string, subscription: Subscription): void => {
      channels.set(channel, [...(channels.get(channel) ?? []), subscription])
      connection ??= open()
      if (connection.status === 'ready') join(connection, channel)
    },
    close: (): void => {
      clearInterval(timer)
      connection?.disconnect()
    },
  }
}
