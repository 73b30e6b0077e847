/** Makes the bans in memory and those in the store agree, both ways, whenever the store can be reached. */
import { isSameBan, type BanRecord } from '../rules/ban-policy.ts'
import type { BanStore } from './ban-store.ts'
import type { BanTable } from './ban-table.ts'

export interface SyncObserver {
  /** The store of bans was lost (said once), and is back. Bans hold from memory in between. */
  storeLost(cause: unknown): void
  storeBack(): void
  /** Data that is not a ban was found in the store and passed over. */
  malformed(where: string): void
}

export interface SynchroniserParts {
  readonly table: BanTable
  readonly store: BanStore
  readonly observer: SyncObserver | undefined
  /** Unix time in ms. */
  now(): number
}

const RETRY_MS = 1_000
const SWEEP_MS = 60_000

export class Synchroniser {
  readonly #parts: SynchroniserParts
  readonly #rounds: Rounds
  readonly #loaded = Promise.withResolvers<void>()
  readonly #sweep: NodeJS.Timeout
  /** Writes under way. Written by save alone. */
  readonly #saving = new Set<Promise<void>>()

  constructor(parts: SynchroniserParts) {
    const { table, store, observer } = parts
    this.#parts = parts
    this.#rounds = new Rounds(observer, () => this.#round())
    this.#sweep = setInterval(() => this.#forgetOld(), SWEEP_MS).unref()
    store.watch({
      banned: (keyId, ban) => void table.merge(keyId, ban),
      stale: () => this.#rounds.run(),
      malformed: (where) => observer?.malformed(where),
    })
  }

  /** Resolves when the store has been read for the first time. */
  get loaded(): Promise<void> {
    return this.#loaded.promise
  }

  save(keyId: string, ban: BanRecord): void {
    const write = this.#parts.store
      .save(keyId, ban)
      .catch((cause: unknown) => this.#rounds.failed(cause))
      .then(() => void this.#saving.delete(write))
    this.#saving.add(write)
  }

  async close(): Promise<void> {
    clearInterval(this.#sweep)
    await this.#rounds.close()
    await Promise.all(this.#saving)
    await this.#parts.store.close()
  }

  async #round(): Promise<void> {
    const { store, table } = this.#parts
    const kept = await store.load()
    for (const [keyId, ban] of kept) table.merge(keyId, ban)
    this.#forgetOld()
    this.#loaded.resolve()
    for (const [keyId, ban] of table.all) {
      const there = kept.get(keyId)
      if (!there || !isSameBan(there, ban)) await store.save(keyId, ban)
    }
  }

  #forgetOld(): void {
    const { store, table, now } = this.#parts
    for (const [keyId, ban] of table.forgetOld(now()))
      store.forget(keyId, ban).catch((cause: unknown) => this.#rounds.failed(cause))
  }
}

/** Runs a round when asked, one at a time, and a second after anything failed, until one succeeds. */
class Rounds {
  readonly #observer: SyncObserver | undefined
  readonly #round: () => Promise<void>
  /** Written by failed and #succeeded. */
  #isLost = false
  /** Written by close alone. */
  #isClosed = false
  /** Written by failed alone. */
  #retry: NodeJS.Timeout | undefined
  /** The round that runs, and whether another was asked for meanwhile. Both are written by run alone. */
  #current: Promise<void> | undefined
  #isAskedAgain = false

  constructor(observer: SyncObserver | undefined, round: () => Promise<void>) {
    this.#observer = observer
    this.#round = round
  }

  run(): void {
    if (this.#isClosed) return
    this.#isAskedAgain = this.#current !== undefined
    this.#current ??= this.#round()
      .then(
        () => this.#succeeded(),
        (cause: unknown) => this.failed(cause),
      )
      .then(() => {
        this.#current = undefined
        if (this.#isAskedAgain) this.run()
      })
  }

  failed(cause: unknown): void {
    if (this.#isClosed) return
    if (!this.#isLost) this.#observer?.storeLost(cause)
    this.#isLost = true
    clearTimeout(this.#retry)
    this.#retry = setTimeout(() => this.run(), RETRY_MS).unref()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#retry)
    await this.#current
  }

  #succeeded(): void {
    if (this.#isLost) this.#observer?.storeBack()
    this.#isLost = false
  }
}
