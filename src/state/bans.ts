/** The interface of stores that keep bans beyond the memory of one process, the store that keeps nothing, and the stored form of a ban. */

/** The last ban of a key. It is kept after its end until it is forgotten, as the next ban depends on it. */
export interface BanRecord {
  /** Unix time in ms at which the ban ends. */
  readonly untilMs: number
  /** Number of bans for strikes, including this one: 1 for the first, 2 for the next within forgetAfter, and so on. */
  readonly count: number
  readonly startedMs: number
  /** Unix time in ms of the latest act of an operator on this key known to the author of the record; undefined: none was known. */
  readonly epochMs?: number | undefined
  /** The author of the ban; undefined: it was for strikes. */
  readonly by?: 'operator' | undefined
  readonly reason?: string | undefined
}

/** Limit in characters. */
export const MAX_REASON_LENGTH = 200

export interface BanStoreListener {
  /** Another process banned a key. */
  banned(keyId: string, ban: BanRecord): void
  /** The store may hold unreported bans or lack some of ours, so that it has to be loaded again. */
  stale(): void
}

export interface BanStore {
  /** It may lose bans, and say nothing. Default: false. */
  readonly mayLose?: boolean
  /** Called once, first. Calls listener.stale as soon as there is something to load, perhaps during this call. */
  watch(listener: BanStoreListener): void
  /** Returns all bans; with a key its ban alone. Rejects when the store is away. */
  load(keyId?: string): Promise<ReadonlyMap<string, BanRecord>>
  /** Keeps a ban, unless the store has a later one of that key, and reports it to the other processes. Rejects when the store is away. */
  save(keyId: string, ban: BanRecord): Promise<void>
  /** Removes exactly this ban, if it is still kept. Rejects when the store is away. */
  forget(keyId: string, ban: BanRecord): Promise<void>
}

/** The store of a gateway without one: bans live as long as the process. */
export function createMemoryBanStore(): BanStore {
  return {
    watch: (listener) => listener.stale(),
    load: () => Promise.resolve(new Map()),
    save: () => Promise.resolve(),
    forget: () => Promise.resolve(),
  }
}

/** Returns the stored form. JSON leaves out undefined members: a ban without acts of operators looks as older releases wrote it. */
export function formatBan({ untilMs, count, startedMs, epochMs, by, reason }: BanRecord): string {
  return JSON.stringify({ untilMs, count, startedMs, epochMs, by, reason })
}

/** Reads the stored form; undefined for anything else. */
export function parseBan(text: string): BanRecord | undefined {
  try {
    return toBan(JSON.parse(text))
  } catch {
    return undefined
  }
}

/** Makes a ban from data of unknown origin; undefined unless its members have their types and fit together. */
export function toBan(value: unknown): BanRecord | undefined {
  if (typeof value !== 'object' || value === null) return undefined
  const { untilMs, count, startedMs, epochMs, by, reason } = value as Record<string, unknown>
  if (!isWhole(untilMs) || !isWhole(count) || !isWhole(startedMs)) return undefined
  if (epochMs !== undefined && !isWhole(epochMs)) return undefined
  if ((by !== undefined && by !== 'operator') || !isReason(reason)) return undefined
  if (startedMs > untilMs || count < (by === 'operator' ? 0 : 1)) return undefined
  return Object.freeze({ untilMs, count, startedMs, epochMs, by, reason })
}

const isReason = (value: unknown): value is string | undefined =>
  value === undefined || (typeof value === 'string' && value.length <= MAX_REASON_LENGTH)

function isWhole(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) >= 0
}
