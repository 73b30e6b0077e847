/** Counts strikes per key over all processes, and says when a key has earned a ban. */
import type { BansConfig } from '../../config/config.ts'
import type { Count, Counter } from '../../state/contract.ts'
import { keepLatest } from '../../state/memory/recency-table.ts'
import { isBanEarned } from '../rules/ban-policy.ts'

type StrikePolicy = Pick<BansConfig, 'strikes' | 'withinMs'>

interface StrikesOptions {
  readonly policy: StrikePolicy
  /** Counts for this process, for the workers of this machine, or for all hosts. */
  readonly counter: Counter
  /** nowMs: Unix time of the strike, or of the counter's answer to it. */
  readonly onBan: (keyId: string, counted: Count, nowMs: number) => void
  /** Unix time in ms. */
  readonly now: () => number
}

/** What this process knows of one key. It is kept over many strikes, so that each costs a look-up and an addition. */
interface Tally {
  readonly keyId: string
  /** Unix time of the latest report to the counter; all strikes end `bans.within` after it. Written by #report. */
  reportedMs: number
  /** Strikes by the counter's last answer, those of other processes included. Written by #applyCount. */
  total: number
  /** Strikes that were not reported to the counter yet. Written by strike, #report and #applyCount. */
  unreported: number
  /** A shared counter has yet to answer the latest report; strikes that come meanwhile go with the next one. Written by #report. */
  isCalling: boolean
}

/** Keys beyond which the one reported longest ago is forgotten here; the counter still has its strikes. */
const MAX_KEYS = 10_000
const RETRY_MS = 1_000

export class Strikes {
  #policy: StrikePolicy
  readonly #options: StrikesOptions
  /** Written by #report and forget. */
  readonly #tallies = new Map<string, Tally>()
  /** Calls to the counter. Written by #report alone. */
  readonly #underway = new Set<Promise<void>>()

  constructor(options: StrikesOptions) {
    this.#options = options
    this.#policy = options.policy
  }

  /** Sets the policy of further strikes. */
  use(policy: StrikePolicy): void {
    this.#policy = policy
    this.#options.counter.useTime(policy.withinMs)
  }

  /** Counts one strike at this Unix time in ms. Never throws, never waits. */
  strike(keyId: string, nowMs: number): void {
    const tally = this.#running(keyId, nowMs) ?? {
      keyId,
      reportedMs: nowMs,
      total: 0,
      unreported: 0,
      isCalling: false,
    }
    tally.unreported += 1
    if (!tally.isCalling) this.#report(tally, nowMs)
  }

  /** The strikes of the key by the latest answer of the counter; counts nothing. */
  known(keyId: string, nowMs = this.#options.now()): number {
    const { total, unreported } = this.#running(keyId, nowMs) ?? { total: 0, unreported: 0 }
    return total + unreported
  }

  /** Discards the strikes of the key so far, and answers of the counter that are still to come. */
  forget(keyId: string): void {
    this.#tallies.delete(keyId)
    void this.#reset(keyId)
  }

  /** Resolves when every strike so far has been counted. */
  async settled(): Promise<void> {
    while (this.#underway.size > 0) await Promise.all(this.#underway)
  }

  /** The tally that still counts. It ends, too, when the clock is set back by more than `bans.within`. */
  #running(keyId: string, nowMs: number): Tally | undefined {
    const tally = this.#tallies.get(keyId)
    const isOver = tally && Math.abs(nowMs - tally.reportedMs) >= this.#policy.withinMs
    return isOver ? undefined : tally
  }

  /** A key has at most `bans.strikes` reports within `bans.within`, then it is banned; and one at a time. */
  #report(tally: Tally, nowMs: number): void {
    const { keyId, unreported: points } = tally
    Object.assign(tally, { reportedMs: nowMs, unreported: 0 })
    keepLatest(this.#tallies, keyId, tally, MAX_KEYS)
    const counted = this.#options.counter.add(keyId, points, nowMs)
    if (!(counted instanceof Promise)) return void this.#applyCount(tally, counted, nowMs)
    tally.isCalling = true
    const call = counted
      .then((count) => this.#applyCount(tally, count, this.#options.now()))
      // Strikes that neither the store nor memory could count are dropped: the requests they stand for were refused all the same.
      .catch(() => void (tally.unreported = 0))
      .then(() => {
        tally.isCalling = false
        this.#underway.delete(call)
        if (tally.unreported > 0 && this.#isKept(tally)) this.#report(tally, this.#options.now())
      })
    this.#underway.add(call)
  }

  #isKept(tally: Tally): boolean {
    return this.#tallies.get(tally.keyId) === tally
  }

  /** Applies an answer of the counter; a promise resolves when the count was reset for a ban. */
  #applyCount(tally: Tally, counted: Count, nowMs: number): void | Promise<void> {
    if (!this.#isKept(tally)) return undefined
    tally.total = counted.total
    if (!isBanEarned(counted.total, this.#policy)) return undefined
    Object.assign(tally, { total: 0, unreported: 0 })
    this.#options.onBan(tally.keyId, counted, nowMs)
    return this.#reset(tally.keyId)
  }

  /**
   * Strikes that have led to a ban, or were lifted with one, must not lead to the next: a store that cannot forget them is asked again
   * every second, until they have ended by themselves. Never rejects.
   */
  async #reset(keyId: string, sinceMs = performance.now()): Promise<void> {
    try {
      await this.#options.counter.reset(keyId)
    } catch {
      if (performance.now() - sinceMs < this.#policy.withinMs)
        setTimeout(() => void this.#reset(keyId, sinceMs), RETRY_MS).unref()
    }
  }
}
