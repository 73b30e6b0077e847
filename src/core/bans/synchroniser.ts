/** Makes the bans in memory and those in the store agree, both ways, whenever the store can be reached. */
import { isSameBan } from '../rules/ban-policy.ts'
import type { BanStore, BanRecord } from '../../state/bans.ts'
import type { BanTable } from './ban-table.ts'

export interface SyncObserver {
  /** The store of bans was lost (reported once), or is back. Bans hold from memory in between. */
  storeLost(cause: unknown): void
  storeBack(): void
  /** Data in the store is not a ban and was skipped. */
  malformed(where: string): void
}

interface SynchroniserParts {
  readonly table: BanTable
  readonly store: BanStore
  readonly observer: SyncObserver
  /** Unix time in ms. */
  now(): number
}

const RETRY_MS = 1_000
const SWEEP_MS = 60_000

export class Synchroniser {
  readonly #parts: SynchroniserParts
  /** Resolves when the store has been read for the first time. */
  readonly #loaded = Promise.withResolvers<void>()
  readonly #sweep: NodeJS.Timeout
  /** Writes under way. Written by save alone. */
  readonly #saving = new Set<Promise<void>>()
  /** Failures in a row. One is normal at a start: a store signals changes shortly before it can be read. Written by #failed and #round. */
  #failures = 0
  /** Written by close alone. */
  #isClosed = false
  /** Written by #failed alone. */
  #retry: NodeJS.Timeout | undefined
  /** The round that runs, and whether another was asked for meanwhile. Both are written by #run alone. */
  #current: Promise<void> | undefined
  #isAskedAgain = false

  constructor(parts: SynchroniserParts) {
    const { table, store, observer } = parts
    this.#parts = parts
    this.#sweep = setInterval(() => this.#forgetOld(), SWEEP_MS).unref()
    store.watch({
      banned: (keyId, ban) => void table.merge(keyId, ban),
      stale: () => this.#run(),
      malformed: (where) => observer.malformed(where),
    })
  }

  /** Resolves when the store has been read for the first time, or after timeoutMs. */
  async ready(timeoutMs: number): Promise<void> {
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(resolve, timeoutMs)
    await Promise.race([this.#loaded.promise, promise])
    clearTimeout(timer)
  }

  /** Writes in the background; a ban that the store did not take is written when the store is back. */
  save(keyId: string, ban: BanRecord): void {
    const write = this.#parts.store
      .save(keyId, ban)
      .catch((cause: unknown) => this.#failed(cause))
      .then(() => void this.#saving.delete(write))
    this.#saving.add(write)
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#sweep)
    clearTimeout(this.#retry)
    await Promise.all([this.#current, ...this.#saving])
    await this.#parts.store.close()
  }

  /** Runs a round, one at a time, and again a second after anything failed, until one succeeds. */
  #run(): void {
    if (this.#isClosed) return
    this.#isAskedAgain = this.#current !== undefined
    this.#current ??= this.#round()
      .catch((cause: unknown) => this.#failed(cause))
      .then(() => {
        this.#current = undefined
        if (this.#isAskedAgain) this.#run()
      })
  }

  async #round(): Promise<void> {
    const { store, table, observer } = this.#parts
    const kept = await store.load()
    for (const [keyId, ban] of kept) table.merge(keyId, ban)
    this.#forgetOld()
    this.#loaded.resolve()
    for (const [keyId, ban] of table.all) {
      const there = kept.get(keyId)
      if (!there || !isSameBan(there, ban)) await store.save(keyId, ban)
    }
    if (this.#failures > 1) observer.storeBack()
    this.#failures = 0
  }

  #failed(cause: unknown): void {
    if (this.#isClosed) return
    if (++this.#failures === 2) this.#parts.observer.storeLost(cause)
    clearTimeout(this.#retry)
    this.#retry = setTimeout(() => this.#run(), RETRY_MS).unref()
  }

  #forgetOld(): void {
    const { store, table, now } = this.#parts
    for (const [keyId, ban] of table.forgetOld(now()))
      store.forget(keyId, ban).catch((cause: unknown) => this.#failed(cause))
  }
}
