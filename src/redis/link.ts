/** The servers behind a store, each behind a breaker of its own: here one server, in cluster-link.ts several. */
import type { Cluster, Redis } from 'ioredis'
import { areSentinelsAway, bounded, isTimeout, serverFault } from './faults.ts'
import { StoreUnavailable } from '../rules/store-unavailable.ts'
import { StoreBreaker } from './breaker.ts'

export interface RedisLink {
  readonly client: Redis | Cluster
  /** That of the server which holds the key; undefined: no such server is known now. */
  breakerOf(key: string): StoreBreaker | undefined
  /** Some server can be called. */
  readonly available: boolean
  close(): void
}

export interface LinkOptions {
  /** Namespace of the keys that probes write. */
  readonly prefix: string
  /** Bound of a probe. */
  readonly timeoutMs: number
  /** Whether every server is usable; told on each change, and once when it is first known. */
  readonly onWhole: (isWhole: boolean) => void
  /** Some server has become usable. */
  readonly onRecovered: () => void
  /** What goes wrong outside of calls; server: where that is known better than from the configuration. */
  readonly onFault: (fault: unknown, server?: string) => void
}

/** Probes in a row without an answer after which the connection itself is suspected (a peer that vanished without a word). */
const SILENT_PROBES_BEFORE_RECONNECT = 4
const END_RETRY_MS = 500

/** Proves what the calls need: scripts that read and write, which a replica, a full server or a missing permission would refuse. */
const PROBE = `
local now = redis.call('TIME')[1]
redis.call('EXISTS', KEYS[1])
redis.call('HMGET', KEYS[1], 'at')
redis.call('HSET', KEYS[1], 'at', now)
redis.call('PEXPIREAT', KEYS[1], (now + 60) * 1000)
`

interface ProbeOptions {
  /** See LinkOptions.onFault. */
  readonly server?: string
  readonly db?: number | undefined
  /** Told of too many time-outs in a row. */
  readonly onSilence: () => void
}

/** Rejects when the server that holds the key does not do its work in time. */
export function createProbe(
  client: Redis | Cluster,
  { timeoutMs, onFault }: Pick<LinkOptions, 'timeoutMs' | 'onFault'>,
  { server, db = 0, onSilence }: ProbeOptions,
): (key: string) => Promise<void> {
  let silent = 0
  const ask = async (key: string): Promise<void> => {
    // Asked for on connecting too, but where that is refused the library goes on with database 0.
    if (db !== 0) await client.select(db)
    await client.eval(PROBE, 1, key)
  }
  return async (key) => {
    try {
      await bounded(ask(key), timeoutMs)
      silent = 0
    } catch (fault) {
      onFault(fault, server)
      silent = isTimeout(fault) ? silent + 1 : 0
      if (silent > 0 && silent % SILENT_PROBES_BEFORE_RECONNECT === 0) onSilence()
      throw fault
    }
  }
}

/** One server, or the master that sentinels name. Connects at once. */
export function createServerLink(client: Redis, options: LinkOptions): RedisLink {
  const { prefix, onWhole, onRecovered, onFault } = options
  let isClosed = false
  const probe = createProbe(client, options, {
    db: client.options.db,
    onSilence: () => client.disconnect(true),
  })
  const breaker = new StoreBreaker({
    probe: async () => {
      if (client.status !== 'ready') throw new StoreUnavailable('error')
      await probe(`${prefix}:probe`)
    },
    onChange: (available) => {
      onWhole(available)
      if (available) onRecovered()
    },
  })
  const connect = (): void => void client.connect().catch(() => undefined)
  // A master that no sentinel knows is told as one that none could be asked for.
  let isUnknown = false
  client.on('sentinelError', ({ message }: Error) => {
    isUnknown ||= message.endsWith('invalid reply: null')
  })
  // Without a listener ioredis prints every failed attempt.
  client.on('error', (fault) => {
    onFault(isUnknown && areSentinelsAway(fault) ? serverFault('NO_MASTER') : fault)
    isUnknown = false
  })
  client.on('ready', () => breaker.probe())
  client.on('close', () => breaker.lost())
  // The library gives up when a connection is abandoned before it has begun.
  client.on('end', () => void (isClosed || setTimeout(connect, END_RETRY_MS).unref()))
  connect()
  return {
    client,
    breakerOf: () => breaker,
    get available() {
      return breaker.available
    },
    close: () => {
      isClosed = true
      breaker.close()
      client.disconnect()
    },
  }
}
