/** The bans of all workers of the machine, as their supervisor keeps them and answers for them. */
import { isSameBan } from '../rules/ban-policy.ts'
import type { CallHandlers } from '../../state/supervisor/calls.ts'
import type { BanCalls } from '../../state/supervisor/bans.ts'
import type { BanStore, BanRecord } from '../../state/bans.ts'
import { BanTable } from './ban-table.ts'
import { OperatorBans } from './operator-bans.ts'

const LOAD_AGAIN_AFTER_MS = 1_000

export interface SharedBansParts {
  readonly store: BanStore
  readonly forgetAfterMs: number
  /** A ban that all workers are to hear of. */
  onBan(keyId: string, ban: BanRecord): void
  /** Once for each: the strikes of the key are to be forgotten. */
  onLift(keyId: string): void
  /** Data that is not a ban was found in the store and passed over. */
  onMalformed(where: string): void
}

export class SharedBans {
  readonly #parts: SharedBansParts
  readonly #table: BanTable
  /** Bans that the store has refused to take: the next save is no repeat. Written by #save alone. */
  readonly #unkept = new Set<string>()

  readonly operators: OperatorBans

  /** The answers to every worker. */
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

  /** Reads the kept bans, now or when they can be read. */
  async ready(): Promise<void> {
    const { store, onMalformed: malformed } = this.#parts
    // Nobody else writes this store: all there is to hear is what cannot be read.
    store.watch({ banned: () => undefined, stale: () => undefined, malformed })
    await this.#load()
  }

  async #load(): Promise<void> {
    const { store, onBan } = this.#parts
    try {
      // Workers that are there already, because the store was away at first, hear of all of them.
      for (const [keyId, ban] of await store.load()) onBan(keyId, this.#table.merge(keyId, ban))
    } catch {
      setTimeout(() => void this.#load(), LOAD_AGAIN_AFTER_MS).unref()
    }
  }

  async #save(keyId: string, ban: BanRecord): Promise<void> {
    const { store, onBan } = this.#parts
    const known = this.#table.all.get(keyId)
    const merged = this.#table.merge(keyId, ban)
    if (known !== undefined && isSameBan(known, merged) && !this.#unkept.has(keyId)) return
    onBan(keyId, merged)
    this.#unkept.add(keyId)
    await store.save(keyId, merged)
    this.#unkept.delete(keyId)
  }
}
