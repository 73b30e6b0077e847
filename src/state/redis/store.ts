/** The gateway's view of Redis, free of the client library. */
import type { StoreHealth } from '../contract.ts'

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

export interface Subscription {
  /** A message published on the channel. */
  message(text: string): void
  /** The subscription is active (again): messages published before this moment may have been missed. */
  subscribed(): void
  /** The subscription was lost: messages may be missed until it is active again. */
  lost?(): void
}

/**
 * One Redis server, the master that sentinels name, or the masters of a cluster. Calls reject with StoreUnavailable when the
 * server that holds the key is away, too slow or refuses them. After a few errors in a row, or a second of silence, they reject
 * at once and without a call.
 */
export interface RedisStore extends StoreHealth {
  /** The client library's own connection or cluster, for libraries that need it; commands sent on it bypass `available`. */
  readonly client: unknown
  /** false: calls fail at once, until a probe has succeeded. In a cluster: no master can be called. */
  readonly available: boolean
  /** Resolves when the store is available, or has had its time to be; rejects with an Error of the refusal, if there is one. */
  ready(): Promise<void>
  /** Prepares a script for calls: it is sent whole once per connection, and by its digest afterwards. */
  script(text: string): RedisScript
  /** Returns an empty record for an absent key. */
  hgetall(key: string): Promise<Record<string, string>>
  /** Subscribes on a connection of its own, across reconnects; takes effect as soon as the server is available. */
  subscribe(channel: string, subscription: Subscription): void
  /** Called each time the store, or one master of the cluster, becomes available, the first time included. */
  onRecovered(listener: () => void): void
  close(): Promise<void>
}
