/** Lists, imposes and lifts bans for operators: the store is read first and written first, so that answers hold for all processes that share it. */
import { imposedBan, liftOf } from '../rules/ban-policy.ts'
import { mayBeDone } from '../../state/contract.ts'
import type { BanStore, BanRecord } from '../../state/bans.ts'
import type { BanTable } from './ban-table.ts'

export interface OperatorBansParts {
  readonly table: BanTable
  readonly store: Pick<BanStore, 'load' | 'save'>
  /** The store's Unix time in ms. */
  now(): number
}

export interface BanAct {
  /** The ban that ran before; undefined: none did. */
  readonly before: BanRecord | undefined
  /** The ban that runs now; undefined: none does. */
  readonly after: BanRecord | undefined
}

/** Every call rejects when the store is away. An act has then changed nothing here, nor in the store unless the error is MayBeDone. */
export class OperatorBans {
  readonly #parts: OperatorBansParts

  constructor(parts: OperatorBansParts) {
    this.#parts = parts
  }

  /** Running bans, in the order of their ends. */
  async list(): Promise<readonly [keyId: string, ban: BanRecord][]> {
    await this.#readStore()
    return this.known()
  }

  /** Running bans that this process knows, in the order of their ends. */
  known(): readonly [keyId: string, ban: BanRecord][] {
    return this.#parts.table.allRunning(this.#parts.now())
  }

  /** The store's Unix time, by which bans end. */
  get nowMs(): number {
    return this.#parts.now()
  }

  /** All bans that this process knows, ended ones included. */
  get all(): ReadonlyMap<string, BanRecord> {
    return this.#parts.table.all
  }

  /** Bans the key for forMs from now on, in place of any other ban. */
  async impose(
    keyId: string,
    ban: { readonly forMs: number; readonly reason: string | undefined },
  ): Promise<BanAct> {
    const { table, now } = this.#parts
    await this.#readStore(keyId)
    const nowMs = now()
    const before = table.running(keyId, nowMs)
    const { forgetAfterMs } = table
    const imposed = imposedBan(table.all.get(keyId), ban, { nowMs, forgetAfterMs })
    await this.#apply(keyId, imposed)
    return { before, after: table.running(keyId, nowMs) }
  }

  /** undefined: the key is not banned. */
  async lift(keyId: string): Promise<BanAct | undefined> {
    const { table, now } = this.#parts
    await this.#readStore(keyId)
    const nowMs = now()
    const before = table.running(keyId, nowMs)
    if (before === undefined) return undefined
    await this.#apply(keyId, liftOf(before, nowMs))
    return { before, after: table.running(keyId, nowMs) }
  }

  async #readStore(wanted?: string): Promise<void> {
    const { table, store } = this.#parts
    for (const [keyId, ban] of await store.load(wanted)) table.merge(keyId, ban)
  }

  async #apply(keyId: string, ban: BanRecord): Promise<void> {
    const { table, store } = this.#parts
    await store.save(keyId, ban).catch(mayBeDone)
    table.merge(keyId, ban)
  }
}
