/** What operators ask and do about bans: the store is asked first and told first, so that what they hear is true for all who share it. */
import { imposedBan, liftOf } from '../rules/ban-policy.ts'
import { mayBeDone } from '../../state/store-unavailable.ts'
import type { BanStore, BanRecord } from '../../state/bans.ts'
import type { BanTable } from './ban-table.ts'

export interface OperatorBansParts {
  readonly table: BanTable
  readonly store: Pick<BanStore, 'load' | 'save'>
  /** The store's Unix time in ms. */
  now(): number
  /** What holds of a key from now on, which processes that do not hear of it from the store are to be told. */
  onAct?(keyId: string, ban: BanRecord): void
}

export interface BanAct {
  /** The ban that ran; undefined: none did. */
  readonly before: BanRecord | undefined
  /** That which runs now. */
  readonly after: BanRecord | undefined
}

/** Every call rejects when the store is away, and an act has then changed nothing here; in the store neither, unless it is MayBeDone. */
export class OperatorBans {
  readonly #parts: OperatorBansParts

  constructor(parts: OperatorBansParts) {
    this.#parts = parts
  }

  /** Bans that run, the one that ends first first. */
  async list(): Promise<readonly [keyId: string, ban: BanRecord][]> {
    await this.#look()
    return this.known()
  }

  /** The same as far as this process knows. */
  known(): readonly [keyId: string, ban: BanRecord][] {
    return this.#parts.table.allRunning(this.#parts.now())
  }

  /** The store's Unix time, by which bans end. */
  get nowMs(): number {
    return this.#parts.now()
  }

  /** All that this process knows of, ended ones too. */
  get all(): ReadonlyMap<string, BanRecord> {
    return this.#parts.table.all
  }

  /** For so long from now on, whatever ban there was. */
  async impose(
    keyId: string,
    ban: { readonly forMs: number; readonly reason: string | undefined },
  ): Promise<BanAct> {
    const { table, now } = this.#parts
    await this.#look(keyId)
    const nowMs = now()
    const before = table.running(keyId, nowMs)
    const { forgetAfterMs } = table
    const imposed = imposedBan(table.all.get(keyId), ban, { nowMs, forgetAfterMs })
    await this.#settle(keyId, imposed)
    return { before, after: table.running(keyId, nowMs) }
  }

  /** undefined: the key is not banned. */
  async lift(keyId: string): Promise<BanAct | undefined> {
    const { table, now } = this.#parts
    await this.#look(keyId)
    const nowMs = now()
    const before = table.running(keyId, nowMs)
    if (before === undefined) return undefined
    await this.#settle(keyId, liftOf(before, nowMs))
    return { before, after: table.running(keyId, nowMs) }
  }

  async #look(wanted?: string): Promise<void> {
    const { table, store } = this.#parts
    for (const [keyId, ban] of await store.load(wanted)) table.merge(keyId, ban)
  }

  async #settle(keyId: string, ban: BanRecord): Promise<void> {
    const { table, store, onAct } = this.#parts
    await store.save(keyId, ban).catch(mayBeDone)
    const merged = table.merge(keyId, ban)
    onAct?.(keyId, merged)
  }
}
