/** Keeps the bans known to this process, in memory and in a store, and makes new ones from strikes. */
import type { BansConfig } from '../../config/config.ts'
import type { Count, Counter } from '../../state/contract.ts'
import { isBanned, isSameWindow, isStrike, nextBan } from '../rules/ban-policy.ts'
import type { BanStore, BanRecord } from '../../state/bans.ts'
import { BanTable, setBounded, type BanStoreObserver } from './ban-table.ts'
import { OperatorBans } from './operator-bans.ts'
import { Strikes } from './strikes.ts'

export interface BanObserver extends BanStoreObserver {
  /** A request of the key was counted as a strike. */
  strike(keyId: string): void
  /** A ban was made here, for so many strikes; undefined: they were not counted. */
  banned(keyId: string, ban: BanRecord, strikes: number | undefined): void
}

export interface BanBookOptions {
  /** Initial policy. */
  readonly policy: BansConfig
  readonly store: BanStore
  /** Counts strikes. */
  readonly counter: Counter
  /** store.timeout: how long a start waits for a store that does not answer. */
  readonly loadTimeoutMs: number
  readonly observer: BanObserver
  /** The store's Unix time in ms. */
  readonly now: () => number
  /** The store's Unix time in ms at this Unix time of the process's own clock. */
  readonly nowAt: (ownMs: number) => number
}

/** Nothing here touches quota counters: a ban never costs quota, and its end never gives any back. */
export class BanBook {
  readonly strikes: Strikes
  readonly operators: OperatorBans
  readonly #options: BanBookOptions
  #policy: BansConfig
  /** The store's Unix time in ms, by which bans end. */
  readonly now: () => number
  readonly nowAt: BanBookOptions['nowAt']
  readonly #table: BanTable
  /** The first 429 of each key's newest window. Written by refused and #onLift. */
  readonly #firstRefusals = new Map<string, { windowEndMs: number; atMs: number }>()

  constructor(options: BanBookOptions) {
    const { policy, counter, store, observer, now, nowAt } = options
    this.#options = options
    this.#policy = policy
    this.now = now
    this.nowAt = nowAt
    this.#table = new BanTable({
      store,
      observer,
      now,
      forgetAfterMs: policy.forgetAfterMs,
      onLift: (keyId, lift) => this.#onLift(keyId, lift),
    })
    this.operators = new OperatorBans(this.#table)
    this.strikes = new Strikes({
      policy,
      counter,
      now,
      onBan: (keyId, counted, nowMs) => this.ban(keyId, counted, nowMs),
    })
  }

  /** Sets the policy of further strikes and bans; existing ones stay. */
  use(policy: BansConfig): void {
    this.#policy = policy
    this.#table.forgetAfterMs = policy.forgetAfterMs
    this.#options.counter.useTime(policy.withinMs)
    this.strikes.policy = policy
  }

  /** Keys banned now. */
  get size(): number {
    const nowMs = this.now()
    return [...this.#table.all.values()].filter((ban) => isBanned(ban, nowMs)).length
  }

  /** Strikes toward a ban of the key, by the latest answer of the counter. */
  knownStrikes(keyId: string): number {
    return this.strikes.known(keyId, this.now())
  }

  /** The running ban of the key, from memory alone. */
  check(keyId: string): BanRecord | undefined {
    return this.#table.running(keyId)
  }

  /** Called on each 429 for quota. Never throws. windowEndMs, the end of the exhausted window, and nowMs are the store's Unix time. */
  refused(keyId: string, windowEndMs: number, nowMs: number): void {
    const { observer } = this.#options
    const { graceMs } = this.#policy
    const first = this.#firstRefusals.get(keyId)
    if (!first || !isSameWindow(first.windowEndMs, windowEndMs)) {
      this.#firstRefusals.delete(keyId)
      setBounded(this.#firstRefusals, keyId, { windowEndMs, atMs: nowMs })
    } else if (isStrike({ nowMs, firstRefusedAtMs: first.atMs, graceMs })) {
      observer.strike(keyId)
      this.strikes.strike(keyId, nowMs)
    }
  }

  /** Bans the key from now on, unless it is banned already. Never throws; the store is written in the background. */
  ban(keyId: string, counted?: Count, nowMs = this.now()): void {
    // Strikes counted by two processes may both reach the limit; the second must not make the ban longer.
    if (this.#table.running(keyId, nowMs) !== undefined) return
    const reason = counted && `${counted.total} strikes in ${Math.ceil(counted.forMs / 1000)} s`
    const next = nextBan(this.#table.all.get(keyId), nowMs, this.#policy, reason)
    const record = this.#table.merge(keyId, { ...next, epochMs: this.#table.latestActMs(keyId) })
    this.#options.observer.banned(keyId, record, counted?.total)
    this.#table.save(keyId, record)
  }

  /** Resolves when the store's bans have been read, or after `loadTimeoutMs`; in that case they are merged when the store is back. */
  ready(): Promise<void> {
    return this.#table.ready(this.#options.loadTimeoutMs)
  }

  /** Resets what led to the key's ban, as an operator has lifted it. */
  #onLift(keyId: string, { startedMs }: BanRecord): void {
    this.#firstRefusals.delete(keyId)
    // An older lift clears nothing: strikes from before it have ended by themselves, and those still counted came after it.
    if (this.now() - startedMs < this.#policy.withinMs) this.strikes.forget(keyId)
  }

  /** Waits for writes under way, then closes the ban store. */
  async close(): Promise<void> {
    await this.strikes.settled()
    await this.#table.close()
  }
}
