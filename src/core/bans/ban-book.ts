/** The table of bans of a process that serves: it counts the strikes of each key over all processes, and makes bans from them. */
import type { BansConfig } from '../../config/config.ts'
import type { Count, Counter } from '../../state/contract.ts'
import { isBanEarned, isSameWindow, nextBan } from '../rules/ban-policy.ts'
import type { BanRecord } from '../../state/bans.ts'
import { RecencyTable } from '../../state/memory/recency-table.ts'
import { BanTable, MAX_KEYS, type BanStoreObserver, type BanTableOptions } from './ban-table.ts'

/** A counter that could not forget strikes is asked again so often. */
const RETRY_MS = 1_000

export interface BanObserver extends BanStoreObserver {
  /** A request of the key was counted as a strike. */
  strike(keyId: string): void
  /** A ban was made here, for so many strikes. */
  banned(keyId: string, ban: BanRecord, strikes: number): void
}

export interface BanBookOptions extends Pick<BanTableOptions, 'store' | 'clock'> {
  readonly policy: BansConfig
  /** Counts strikes for this process, for the workers of this machine, or for all hosts. */
  readonly counter: Counter
  readonly observer: BanObserver
}

/** What this process knows of a refused key. It is kept over many strikes, so that each costs a look-up and an addition. */
class RefusedKey {
  readonly keyId: string
  /** The end of the newest window that refused the key, and its first 429 in that window. Written by refused and #forgetCauses. */
  windowEndMs = -Infinity
  firstRefusedAtMs = -Infinity
  /** Unix time of the latest report to the counter; all strikes end `bans.within` after it. Written by #report. */
  reportedMs = -Infinity
  /** Strikes by the counter's last answer, those of other processes included. Written by #applyCount. */
  total = 0
  /** Strikes that were not reported to the counter yet. Written by refused, #report and #applyCount. */
  unreported = 0
  /** A shared counter has yet to answer the latest report; strikes that come meanwhile go with the next one. Written by #report. */
  isCalling = false

  constructor(keyId: string) {
    this.keyId = keyId
  }
}

/** Nothing here touches quota counters: a ban never costs quota, and its end never gives any back. */
export class BanBook extends BanTable {
  readonly #observer: BanObserver
  readonly #counter: Counter
  #policy: BansConfig
  /** Written by refused and #forgetCauses. */
  readonly #refused = new RecencyTable<RefusedKey>({ maxEntries: MAX_KEYS, mayDrop: () => true })
  /** Calls to the counter. Written by #report alone. */
  readonly #underway = new Set<Promise<void>>()

  constructor({ policy, counter, observer, ...table }: BanBookOptions) {
    const onLift: BanTableOptions['onLift'] = (keyId, lift) => this.#forgetCauses(keyId, lift)
    super({ ...table, observer, forgetAfterMs: policy.forgetAfterMs, onLift })
    this.#observer = observer
    this.#counter = counter
    this.#policy = policy
  }

  /** Sets the policy of further strikes and bans; existing ones stay. */
  use(policy: BansConfig): void {
    this.#policy = policy
    this.forgetAfterMs = policy.forgetAfterMs
    this.#counter.useTime(policy.withinMs)
  }

  /**
   * Called on each 429 for quota. Never throws, never waits. windowEndMs, the end of the exhausted window, and nowMs are the
   * store's Unix time.
   */
  refused(keyId: string, windowEndMs: number, nowMs: number): void {
    const key = this.#refused.get(keyId) ?? this.#refused.add(keyId, new RefusedKey(keyId))
    if (!isSameWindow(key.windowEndMs, windowEndMs))
      Object.assign(key, { windowEndMs, firstRefusedAtMs: nowMs })
    else if (nowMs - key.firstRefusedAtMs > this.#policy.graceMs) {
      // The key has had the grace period to notice its first 429 of the window.
      this.#observer.strike(keyId)
      key.unreported += 1
      if (!key.isCalling) this.#report(key, nowMs)
    }
  }

  /** The strikes of the key by the latest answer of the counter; counts nothing. */
  strikesOf(keyId: string, nowMs = this.nowMs): number {
    const { reportedMs, total, unreported } = this.#refused.peek(keyId) ?? new RefusedKey(keyId)
    // They end, too, when the clock is set back by more than `bans.within`.
    return Math.abs(nowMs - reportedMs) < this.#policy.withinMs ? total + unreported : 0
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

  /** Resolves when every strike so far has been counted. */
  async settled(): Promise<void> {
    while (this.#underway.size > 0) await Promise.all(this.#underway)
  }

  override async close(): Promise<void> {
    await this.settled()
    await super.close()
  }

  /** A key has at most `bans.strikes` reports within `bans.within`, then it is banned; and one at a time. */
  #report(key: RefusedKey, nowMs: number): void {
    const { keyId, unreported: points } = key
    key.reportedMs = nowMs
    key.unreported = 0
    const counted = this.#counter.add(keyId, points, nowMs)
    if (!(counted instanceof Promise)) return void this.#applyCount(key, counted, nowMs)
    key.isCalling = true
    const call = counted
      .then((count) => this.#applyCount(key, count, this.nowMs))
      // Strikes that neither the store nor memory could count are dropped: the requests they stand for were refused all the same.
      .catch(() => void (key.unreported = 0))
      .then(() => {
        key.isCalling = false
        this.#underway.delete(call)
        if (key.unreported > 0 && this.#isKept(key)) this.#report(key, this.nowMs)
      })
    this.#underway.add(call)
  }

  #isKept(key: RefusedKey): boolean {
    return this.#refused.peek(key.keyId) === key
  }

  /** Applies an answer of the counter; a promise resolves when the count was reset for a ban. */
  #applyCount(key: RefusedKey, counted: Count, nowMs: number): void | Promise<void> {
    if (!this.#isKept(key)) return undefined
    key.total = counted.total
    if (!isBanEarned(counted.total, this.#policy)) return undefined
    Object.assign(key, { total: 0, unreported: 0 })
    this.ban(key.keyId, counted, nowMs)
    return this.#reset(key.keyId)
  }

  /**
   * Strikes that have led to a ban, or were lifted with one, must not lead to the next: a store that cannot forget them is asked again
   * every second, until they have ended by themselves. Never rejects.
   */
  async #reset(keyId: string, sinceMs = performance.now()): Promise<void> {
    try {
      await this.#counter.reset(keyId)
    } catch {
      if (performance.now() - sinceMs < this.#policy.withinMs)
        setTimeout(() => void this.#reset(keyId, sinceMs), RETRY_MS).unref()
    }
  }

  /** Forgets what led to the key's ban, as an operator has lifted it, and answers of the counter that are still to come. */
  #forgetCauses(keyId: string, { startedMs }: BanRecord): void {
    const key = this.#refused.peek(keyId)
    if (this.nowMs - startedMs < this.#policy.withinMs) {
      this.#refused.delete(keyId)
      void this.#reset(keyId)
    }
    // An older lift clears no strikes: those from before it have ended by themselves, and those still counted came after it.
    else if (key !== undefined) key.windowEndMs = -Infinity
  }
}
