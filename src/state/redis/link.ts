/** The servers of a store, each behind a breaker of its own: this file links one server, cluster-link.ts several. */
import type { Cluster, Redis } from 'ioredis'
import { areSentinelsAway, isTimeout, serverFault, timedOut } from './faults.ts'
import { bounded } from '../timers.ts'
import { StoreUnavailable } from '../contract.ts'
import { StoreBreaker } from './breaker.ts'
import type { StoreState } from './state.ts'

export interface RedisLink {
  /** Returns the breaker of the server that holds the key; undefined: no such server is known now. */
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
  /** Receives faults outside of calls, and which servers are usable. */
  readonly state: StoreState
}

/** After so many probes in a row without an answer the connection itself is suspected (a peer that vanished silently). */
const SILENT_PROBES_BEFORE_RECONNECT = 4
const END_RETRY_MS = 500

/** Tests what the calls need: scripts that read and write, which a replica, a full server or a missing permission would refuse. */
const PROBE = `
local now = redis.call('TIME')[1]
redis.call('EXISTS', KEYS[1])
redis.call('HMGET', KEYS[1], 'at')
redis.call('HSET', KEYS[1], 'at', now)
redis.call('PEXPIREAT', KEYS[1], (now + 60) * 1000)
`

/**
 * Makes a probe that rejects when the server that holds the key does not work in time. onSilence: called after too many
 * time-outs in a row. server: see StoreState.note.
 */
export function createProbe(
  client: Redis | Cluster,
  { timeoutMs, state }: LinkOptions,
  onSilence: () => void,
  server?: string,
): (key: string | undefined) => Promise<void> {
  const db = 'slots' in client ? 0 : (client.options.db ?? 0)
  let silent = 0
  const ask = async (key: string): Promise<void> => {
    // The library selects it on connecting, too, but goes on with database 0 where that is refused.
    if (db !== 0) await client.select(db)
    await client.eval(PROBE, 1, key)
  }
  return async (key) => {
    if (client.status !== 'ready' || key === undefined) throw new StoreUnavailable('error')
    try {
      await bounded(ask(key), timeoutMs, timedOut)
      silent = 0
    } catch (fault) {
      state.note(fault, server)
      silent = isTimeout(fault) ? silent + 1 : 0
      if (silent > 0 && silent % SILENT_PROBES_BEFORE_RECONNECT === 0) onSilence()
      throw fault
    }
  }
}

/** Links one server, or the master that sentinels name. Connects at once. */
export function createServerLink(client: Redis, options: LinkOptions): RedisLink {
  const { prefix, state } = options
  let isClosed = false
  const probe = createProbe(client, options, () => client.disconnect(true))
  const breaker = new StoreBreaker(
    () => probe(`${prefix}:probe`),
    (available) => {
      state.become(available)
      if (available) state.recover()
    },
  )
  const connect = (): void => void client.connect().catch(() => undefined)
  // The library reports a master that no sentinel knows as if no sentinel could be reached.
  let isUnknown = false
  client.on('sentinelError', ({ message }: Error) => {
    isUnknown ||= message.endsWith('invalid reply: null')
  })
  // Without a listener ioredis prints every failed attempt.
  client.on('error', (fault) => {
    state.note(isUnknown && areSentinelsAway(fault) ? serverFault('NO_MASTER') : fault)
    isUnknown = false
  })
  client.on('ready', () => breaker.probe())
  client.on('close', () => breaker.lost())
  // The library gives up when a connection is abandoned before it has begun.
  client.on('end', () => void (isClosed || setTimeout(connect, END_RETRY_MS).unref()))
  connect()
  return {
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
