/** What the gateway asks of a Redis server, free of the client library. */

/** Integers and strings, as a Lua script answers them. */
export type ScriptReply = readonly (number | string | null)[]

export interface ScriptCall {
  /** All in one hash slot. */
  readonly keys: readonly string[]
  readonly args: readonly (string | number)[]
}

/** A script of fixed text; sent whole once per connection, by its digest afterwards. */
export interface RedisScript {
  /** Throws StoreUnavailable while the server of the keys is known to be away, else rejects with it; may still run later. */
  run(call: ScriptCall): Promise<ScriptReply>
}

export interface Subscription {
  /** A message published on the channel. */
  message(text: string): void
  /** The subscription stands (again): whatever was published before this moment may have been missed. */
  subscribed(): void
  /** It was interrupted: messages may be missed until it stands again. */
  lost?(): void
}

/**
 * One Redis server, the master that sentinels name, or the masters of a cluster. Calls reject with StoreUnavailable when the
 * server that holds the key is away, too slow or refuses them; after a few errors in a row, or a second of silence, at once and
 * without a call.
 */
export interface RedisStore {
  /** The client library's own connection or cluster, for libraries that need it; commands sent on it bypass `available`. */
  readonly client: unknown
  /** false: calls fail at once, until a probe has succeeded. Of a cluster: no master can be called. */
  readonly available: boolean
  /** Server, fault and remedy while a server that is there refuses this gateway, which only an operator can mend. */
  readonly refusal: string | undefined
  /** The last fault in a word, where one is away. */
  readonly cause: string
  /** Settings of the servers that may lose what is counted, as found when one became available last; or names that led nowhere at the start. */
  readonly warning: string | undefined
  /** Resolves when it is available, or has had its time to be; rejects with an Error of the refusal, if there is one. */
  ready(): Promise<void>
  /** Prepares a script for calls. `name` must be unique within the store. */
  script(definition: { name: string; text: string; keyCount: number }): RedisScript
  /** An absent key answers an empty record. */
  hgetall(key: string): Promise<Record<string, string>>
  /** Stays subscribed across reconnects, on a connection of its own; takes effect as soon as the server is there. */
  subscribe(channel: string, subscription: Subscription): void
  /** Called each time the store, or one master of the cluster, becomes available, the first time included. */
  onRecovered(listener: () => void): void
  close(): Promise<void>
}
