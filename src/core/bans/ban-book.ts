/** The table of bans of a process that serves: it makes new ones from strikes. */
import type { BansConfig } from '../../config/config.ts'
import type { Count, Counter } from '../../state/contract.ts'
import { isSameWindow, isStrike, nextBan } from '../rules/ban-policy.ts'
import type { BanRecord } from '../../state/bans.ts'
import { keepLatest } from '../../state/memory/recency-table.ts'
import { BanTable, MAX_KEYS, type BanStoreObserver, type BanTableOptions } from './ban-table.ts'
import { Strikes } from './strikes.ts'

export interface BanObserver extends BanStoreObserver {
  /** A request of the key was counted as a strike. */
  strike(keyId: string): void
  /** A ban was made here, for so many strikes. */
  banned(keyId: string, ban: BanRecord, strikes: number): void
}

export interface BanBookOptions extends Pick<BanTableOptions, 'store' | 'clock'> {
  /** Initial policy. */
  readonly policy: BansConfig
  /** Counts strikes. */
  readonly counter: Counter
  readonly observer: BanObserver
}

/** Nothing here touches quota counters: a ban never costs quota, and its end never gives any back. */
export class BanBook extends BanTable {
  readonly strikes: Strikes
  readonly #observer: BanObserver
  #policy: BansConfig
  /** The first 429 of each key's newest window. Written by refused and #forgetCauses. */
  readonly #firstRefusals = new Map<string, { windowEndMs: number; atMs: number }>()

  constructor({ policy, counter, observer, ...table }: BanBookOptions) {
    const onLift: BanTableOptions['onLift'] = (keyId, lift) => this.#forgetCauses(keyId, lift)
    super({ ...table, observer, forgetAfterMs: policy.forgetAfterMs, onLift })
    this.#observer = observer
    this.#policy = policy
    this.strikes = new Strikes({
      policy,
      counter,
      now: () => this.nowMs,
      onBan: (keyId, counted, nowMs) => this.ban(keyId, counted, nowMs),
    })
  }

  /** Sets the policy of further strikes and bans; existing ones stay. */
  use(policy: BansConfig): void {
    this.#policy = policy
    this.forgetAfterMs = policy.forgetAfterMs
    this.strikes.use(policy)
  }

  /** Called on each 429 for quota. Never throws. windowEndMs, the end of the exhausted window, and nowMs are the store's Unix time. */
  refused(keyId: string, windowEndMs: number, nowMs: number): void {
    const { graceMs } = this.#policy
    const first = this.#firstRefusals.get(keyId)
    if (!first || !isSameWindow(first.windowEndMs, windowEndMs)) {
      keepLatest(this.#firstRefusals, keyId, { windowEndMs, atMs: nowMs }, MAX_KEYS)
    } else if (isStrike({ nowMs, firstRefusedAtMs: first.atMs, graceMs })) {
      this.#observer.strike(keyId)
      this.strikes.strike(keyId, nowMs)
    }
  }

  /** Bans the key from now on, unless it is banned already. Never throws; the store is written in the background. */
  ban(keyId: string, { total, forMs }: Count, nowMs = this.nowMs): void {
    // Strikes counted by two processes may both reach the limit; the second must not make the ban longer.
    if (this.running(keyId, nowMs) !== undefined) return
    const reason = `${total} strikes in ${Math.ceil(forMs / 1000)} s`
    const record = this.merge(keyId, nextBan(this.all.get(keyId), nowMs, this.#policy, reason))
    this.#observer.banned(keyId, record, total)
    this.save(keyId, record)
  }

  /** Forgets what led to the key's ban, as an operator has lifted it. */
  #forgetCauses(keyId: string, { startedMs }: BanRecord): void {
    this.#firstRefusals.delete(keyId)
    // An older lift clears nothing: strikes from before it have ended by themselves, and those still counted came after it.
    if (this.nowMs - startedMs < this.#policy.withinMs) this.strikes.forget(keyId)
  }

  override async close(): Promise<void> {
    await this.strikes.settled()
    await super.close()
  }
}
