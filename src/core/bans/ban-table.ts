/** Holds the bans that a process knows, and makes them and those in the store agree, both ways, whenever the store can be reached. */
import {
  imposedBan,
  isBanned,
  isForgotten,
  isLift,
  isSameBan,
  liftOf,
  mergeBans,
} from '../rules/ban-policy.ts'
import type { BanStore, BanRecord } from '../../state/bans.ts'
import { mayBeDone } from '../../state/contract.ts'
import { keepLatest } from '../../state/memory/recency-table.ts'
import { endedWithin } from '../../state/timers.ts'
import type { StoreClock } from '../../state/store-clock.ts'

/** Keys remembered; beyond it a new key replaces an old one. All keys were issued, so this is rarely reached. */
export const MAX_KEYS = 100_000
const RETRY_MS = 1_000
/**
 * A store that may lose bans without losing the connection (FLUSHALL, a failover to a replica that lagged) is read so often even
 * without news, which brings them back; of any other store only what has ended is forgotten.
 */
const ROUND_EVERY_MS = 30_000

export interface BanStoreObserver {
  /** The store of bans was lost (reported once), or is back. Bans hold from memory in between. */
  storeLost(cause: unknown): void
  storeBack(): void
}

export interface BanTableOptions {
  readonly store: BanStore
  readonly observer?: BanStoreObserver
  readonly forgetAfterMs: number
  /** The store's time, by which bans end. */
  readonly clock: Pick<StoreClock, 'nowMs' | 'at'>
  /** Called with each ban that has become the one that holds for its key. */
  onChange?(keyId: string, ban: BanRecord): void
  /** Called once for each lift that an operator has made, here or elsewhere. */
  onLift?(keyId: string, lift: BanRecord): void
}

export interface BanAct {
  /** The ban that ran before; undefined: none did. */
  readonly before: BanRecord | undefined
  /** The ban that runs now; undefined: none does. */
  readonly after: BanRecord | undefined
}

export class BanTable {
  forgetAfterMs: number
  readonly clock: BanTableOptions['clock']
  readonly #store: BanStore
  readonly #options: BanTableOptions
  /** Running and ended bans, as the next ban of the key depends on them. Written by merge and #forgetOld alone. */
  readonly #bans = new Map<string, BanRecord>()
  readonly all: ReadonlyMap<string, BanRecord> = this.#bans
  readonly #loaded = Promise.withResolvers<void>()
  readonly #rounds: NodeJS.Timeout
  /** Resolves when all rounds and writes so far have ended. Written by #run and save. */
  #work = Promise.resolve()
  /** A round has been asked for that has not begun. Written by #run and #round. */
  #isAsked = false
  /** Failures in a row. One is normal at a start: a store signals changes shortly before it can be read. Written by #failed and #round. */
  #failures = 0
  #isClosed = false
  #retry: NodeJS.Timeout | undefined

  constructor(options: BanTableOptions) {
    this.#options = options
    this.forgetAfterMs = options.forgetAfterMs
    this.clock = options.clock
    this.#store = options.store
    const round = () => (this.#store.mayLose === true ? this.#run() : this.#forgetOld())
    this.#rounds = setInterval(round, ROUND_EVERY_MS).unref()
    this.#store.watch({
      banned: (keyId, ban) => void this.merge(keyId, ban),
      stale: () => this.#run(),
    })
  }

  /** The store's Unix time in ms. */
  get nowMs(): number {
    return this.clock.nowMs()
  }

  /** The ban of the key that runs, now or at this Unix time in ms. */
  running(keyId: string, atMs?: number): BanRecord | undefined {
    const ban = this.#bans.get(keyId)
    // Few keys were ever banned; others cost no look at a clock.
    return ban !== undefined && isBanned(ban, atMs ?? this.nowMs) ? ban : undefined
  }

  /** How many bans run that this process knows. */
  get runningCount(): number {
    const { nowMs } = this
    return [...this.#bans.values()].filter((ban) => isBanned(ban, nowMs)).length
  }

  /** Running bans that this process knows, in the order of their ends. */
  known(): readonly [keyId: string, ban: BanRecord][] {
    const { nowMs } = this
    return [...this.#bans]
      .filter(([, ban]) => isBanned(ban, nowMs))
      .sort(([, one], [, other]) => one.untilMs - other.untilMs)
  }

  /** Running bans of the store, in the order of their ends. Rejects when it is away. */
  async list(): Promise<readonly [keyId: string, ban: BanRecord][]> {
    await this.#read()
    return this.known()
  }

  /**
   * Bans the key for forMs from now on, in place of any other ban. The store is read first and written first, so that the answer
   * holds for all processes that share it. Rejects when it is away; nothing has then changed here, nor in the store unless the
   * error is MayBeDone.
   */
  async impose(
    keyId: string,
    ban: { readonly forMs: number; readonly reason: string | undefined },
  ): Promise<BanAct> {
    await this.#read(keyId)
    const { nowMs, forgetAfterMs } = this
    return this.#act(keyId, imposedBan(this.#bans.get(keyId), ban, { nowMs, forgetAfterMs }), nowMs)
  }

  /** Resolves with undefined where the key is not banned. Rejects as impose does. */
  async lift(keyId: string): Promise<BanAct | undefined> {
    await this.#read(keyId)
    const { nowMs } = this
    const before = this.running(keyId, nowMs)
    return before && this.#act(keyId, liftOf(before, nowMs), nowMs)
  }

  async #act(keyId: string, ban: BanRecord, nowMs: number): Promise<BanAct> {
    const before = this.running(keyId, nowMs)
    await this.#store.save(keyId, ban).catch(mayBeDone)
    this.merge(keyId, ban)
    return { before, after: this.running(keyId, nowMs) }
  }

  /** Merges a ban into what is known; returns the ban that holds from now on. */
  merge(keyId: string, ban: BanRecord): BanRecord {
    const known = this.#bans.get(keyId)
    const merged = known === undefined ? ban : mergeBans(known, ban, this.forgetAfterMs)
    if (merged === known) return merged
    keepLatest(this.#bans, keyId, merged, MAX_KEYS)
    this.#options.onChange?.(keyId, merged)
    if (isLift(merged) && merged.epochMs !== known?.epochMs) this.#options.onLift?.(keyId, merged)
    return merged
  }

  /** Resolves when the store has been read for the first time, or after timeoutMs; in that case it is merged when it is back. */
  async ready(timeoutMs: number): Promise<void> {
    await endedWithin(this.#loaded.promise, timeoutMs)
  }

  /** Merges the bans of the store, or that of one key. Rejects when the store is away. */
  async #read(keyId?: string): Promise<ReadonlyMap<string, BanRecord>> {
    const kept = await this.#store.load(keyId)
    for (const [key, ban] of kept) this.merge(key, ban)
    return kept
  }

  /** Writes in the background; a ban that the store did not take is written when the store is back. */
  save(keyId: string, ban: BanRecord): void {
    const write = this.#store.save(keyId, ban).catch((cause: unknown) => this.#failed(cause))
    this.#work = this.#work.then(() => write)
  }

  /** Waits for writes under way. The store stays open. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#rounds)
    clearTimeout(this.#retry)
    await this.#work
  }

  /** Runs a round, one at a time, and again a second after anything failed, until one succeeds. */
  #run(): void {
    if (this.#isClosed || this.#isAsked) return
    this.#isAsked = true
    const round = this.#work.then(() => this.#round())
    this.#work = round.catch((cause: unknown) => this.#failed(cause))
  }

  async #round(): Promise<void> {
    this.#isAsked = false
    const kept = await this.#read()
    this.#forgetOld()
    this.#loaded.resolve()
    for (const [keyId, ban] of this.#bans) {
      const there = kept.get(keyId)
      if (!there || !isSameBan(there, ban)) await this.#store.save(keyId, ban)
    }
    if (this.#failures > 1) this.#options.observer?.storeBack()
    this.#failures = 0
  }

  #failed(cause: unknown): void {
    if (this.#isClosed) return
    if (++this.#failures === 2) this.#options.observer?.storeLost(cause)
    clearTimeout(this.#retry)
    this.#retry = setTimeout(() => this.#run(), RETRY_MS).unref()
  }

  /** Removes the bans that need no longer be remembered, here and from the store. */
  #forgetOld(): void {
    const { nowMs } = this
    for (const [keyId, ban] of this.#bans) {
      if (!isForgotten(ban, nowMs, this.forgetAfterMs)) continue
      this.#bans.delete(keyId)
      this.#store.forget(keyId, ban).catch((cause: unknown) => this.#failed(cause))
    }
  }
}
