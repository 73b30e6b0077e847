/** Keeps the bans of all workers of the machine, in their supervisor. */
import { isSameBan } from '../rules/ban-policy.ts'
import type { CallHandlers } from '../../state/calls.ts'
import type { BanCalls } from '../../state/supervisor/home.ts'
import type { BanStore, BanRecord } from '../../state/bans.ts'
import { BanTable } from './ban-table.ts'
import { OperatorBans } from './operator-bans.ts'

const LOAD_AGAIN_AFTER_MS = 1_000

export interface SharedBansParts {
  readonly store: BanStore
  readonly forgetAfterMs: number
  /** Called with each ban that all workers have to receive. */
  onBan(keyId: string, ban: BanRecord): void
  /** Called once for each lift: the strikes of the key have to be forgotten. */
  onLift(keyId: string): void
  /** Called when data in the store is not a ban and was skipped. */
  onMalformed(where: string): void
}

export class SharedBans {
  readonly #parts: SharedBansParts
  readonly #table: BanTable
  /** Keys whose ban the store did not take: the next save is no repeat. Written by #save alone. */
  readonly #unsaved = new Set<string>()

  readonly operators: OperatorBans

  /** Answers the calls of the workers. */
  readonly handlers: CallHandlers<BanCalls> = {
    loadBans: () => ({ bans: this.#table.all, nowMs: Date.now() }),
    saveBan: ({ keyId, ban }) => this.#save(keyId, ban),
    forgetBan: async ({ keyId, ban }) => {
      if (this.#table.remove(keyId, ban)) await this.#parts.store.forget(keyId, ban)
    },
  }

  constructor(parts: SharedBansParts) {
    this.#parts = parts
    const { store, onBan: onAct, onLift } = parts
    const table = new BanTable(parts.forgetAfterMs, (keyId) => onLift(keyId))
    this.#table = table
    this.operators = new OperatorBans({ table, store, now: Date.now, onAct })
  }

  set forgetAfterMs(ms: number) {
    this.#table.forgetAfterMs = ms
  }

  /** Reads the kept bans, now or when the store can be read. */
  async ready(): Promise<void> {
    const { store, onMalformed: malformed } = this.#parts
    // Nobody else writes this store, so all it can report is data that cannot be read.
    store.watch({ banned: () => undefined, stale: () => undefined, malformed })
    await this.#load()
  }

  async #load(): Promise<void> {
    const { store, onBan } = this.#parts
    try {
      // Workers that started while the store was away receive all of them.
      for (const [keyId, ban] of await store.load()) onBan(keyId, this.#table.merge(keyId, ban))
    } catch {
      setTimeout(() => void this.#load(), LOAD_AGAIN_AFTER_MS).unref()
    }
  }

  async #save(keyId: string, ban: BanRecord): Promise<void> {
    const { store, onBan } = this.#parts
    const known = this.#table.all.get(keyId)
    const merged = this.#table.merge(keyId, ban)
    if (known !== undefined && isSameBan(known, merged) && !this.#unsaved.has(keyId)) return
    onBan(keyId, merged)
    this.#unsaved.add(keyId)
    await store.save(keyId, merged)
    this.#unsaved.delete(keyId)
  }
}
