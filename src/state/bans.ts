/** Where bans are kept beyond the memory of one process: the seam, and the store that keeps nothing. */

/** The last ban of a key; kept after its end, until it is forgotten, as the next one depends on it. */
export interface BanRecord {
  /** Unix time in ms at which the ban ends. */
  readonly untilMs: number
  /** Bans for strikes, this one included: 1 for a first, 2 for the next within forgetAfter, and so on. */
  readonly count: number
  readonly startedMs: number
  /** Unix time in ms of the latest act of an operator on this key that the author of the record knew of; undefined: of none. */
  readonly epochMs?: number | undefined
  /** Who banned; undefined: strikes. */
  readonly by?: 'operator' | undefined
  readonly reason?: string | undefined
}

/** In characters. */
export const MAX_REASON_LENGTH = 200

export interface BanStoreListener {
  /** Another process banned a key. */
  banned(keyId: string, ban: BanRecord): void
  /** The store may hold bans not told of, or may lack some of ours: load again. */
  stale(): void
  /** Data that is not a ban was found and passed over. */
  malformed(where: string): void
}

export interface BanStore {
  /** Called once, first. The listener hears `stale` as soon as there is something to load, perhaps during this call. */
  watch(listener: BanStoreListener): void
  /** Everything kept; with a key its ban alone is looked for. Rejects when the store is away. */
  load(keyId?: string): Promise<ReadonlyMap<string, BanRecord>>
  /** Keeps a ban, unless the store has a later one of that key, and tells the other processes. Rejects when the store is away. */
  save(keyId: string, ban: BanRecord): Promise<void>
  /** Removes a ban if it is still this very one. Rejects when the store is away. */
  forget(keyId: string, ban: BanRecord): Promise<void>
  close(): Promise<void>
}

/** For a gateway without a store: bans live as long as the process. */
export function createMemoryBanStore(): BanStore {
  return {
    watch: (listener) => listener.stale(),
    load: () => Promise.resolve(new Map()),
    save: () => Promise.resolve(),
    forget: () => Promise.resolve(),
    close: () => Promise.resolve(),
  }
}
