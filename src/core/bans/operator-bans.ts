/** Lists, imposes and lifts bans for operators: the store is read first and written first, so that answers hold for all processes that share it. */
import { imposedBan, liftOf } from '../rules/ban-policy.ts'
import { mayBeDone } from '../../state/contract.ts'
import type { BanRecord } from '../../state/bans.ts'
import type { BanTable } from './ban-table.ts'

export interface BanAct {
  /** The ban that ran before; undefined: none did. */
  readonly before: BanRecord | undefined
  /** The ban that runs now; undefined: none does. */
  readonly after: BanRecord | undefined
}

/** Every call rejects when the store is away. An act has then changed nothing here, nor in the store unless the error is MayBeDone. */
export class OperatorBans {
  readonly #table: BanTable

  constructor(table: BanTable) {
    this.#table = table
  }

  /** Running bans, in the order of their ends. */
  async list(): Promise<readonly [keyId: string, ban: BanRecord][]> {
    await this.#table.read()
    return this.known()
  }

  /** Running bans that this process knows, in the order of their ends. */
  known(): readonly [keyId: string, ban: BanRecord][] {
    return this.#table.allRunning()
  }

  /** The store's Unix time, by which bans end. */
  get nowMs(): number {
    return this.#table.now()
  }

  /** All bans that this process knows, ended ones included. */
  get all(): ReadonlyMap<string, BanRecord> {
    return this.#table.all
  }

  /** Bans the key for forMs from now on, in place of any other ban. */
  async impose(
    keyId: string,
    ban: { readonly forMs: number; readonly reason: string | undefined },
  ): Promise<BanAct> {
    await this.#table.read(keyId)
    const { nowMs } = this
    const { forgetAfterMs } = this.#table
    const imposed = imposedBan(this.all.get(keyId), ban, { nowMs, forgetAfterMs })
    return this.#apply(keyId, imposed, nowMs)
  }

  /** undefined: the key is not banned. */
  async lift(keyId: string): Promise<BanAct | undefined> {
    await this.#table.read(keyId)
    const { nowMs } = this
    const before = this.#table.running(keyId, nowMs)
    return before && this.#apply(keyId, liftOf(before, nowMs), nowMs)
  }

  async #apply(keyId: string, ban: BanRecord, nowMs: number): Promise<BanAct> {
    const before = this.#table.running(keyId, nowMs)
    await this.#table.store.save(keyId, ban).catch(mayBeDone)
    this.#table.merge(keyId, ban)
    return { before, after: this.#table.running(keyId, nowMs) }
  }
}
