/** Counts strikes per key over all processes, and says when a key has earned a ban. */
import type { BansConfig } from '../config/config.ts'
import type { Counter } from '../counters/counter.ts'
import { isBanEarned } from '../rules/ban-policy.ts'

type StrikePolicy = Pick<BansConfig, 'strikes' | 'withinMs'>

export interface StrikesOptions {
  readonly policy: StrikePolicy
  /** Of this process, of the workers of this machine, or of all hosts. */
  readonly counter: Counter
  readonly onBan: (keyId: string) => void
}

/** What this process knows of one key. Kept over many strikes, so that one of them costs a look-up and an addition. */
interface Tally {
  readonly keyId: string
  /** Of performance.now(): its count has ended by then. */
  readonly untilMs: number
  /** As the counter last said, strikes of other processes included. Written by #count, as is startedMs. */
  total: number
  /** Of performance.now(): when the count began. */
  startedMs: number
  /** Strikes the counter has not heard of. Written by strike and #count. */
  unreported: number
  /** Written by #report. */
  isCalling: boolean
}

/** Keys counted at once in this process; strikes of further keys are let go until others are forgotten. */
const MAX_KEYS = 10_000
/** A flood of strikes is reported in one call per key and tick, unless it may be the ban's last one: that is reported at once. */
const TICK_MS = 100

/** `withinMs` runs from a key's first strike, in whole seconds (rounded up). */
export class Strikes {
  policy: StrikePolicy
  readonly #options: StrikesOptions
  /** In the order in which they end. Written by #tallyOf alone. */
  readonly #tallies = new Map<string, Tally>()
  /** Those to be reported with the next tick, and its timer. Written by #reportLater and #flush. */
  readonly #late = new Set<Tally>()
  #tick: NodeJS.Timeout | undefined
  /** Calls to the counter. Written by #report alone. */
  readonly #underway = new Set<Promise<void>>()

  constructor(options: StrikesOptions) {
    this.#options = options
    this.policy = options.policy
  }

  /** Counts one strike. Never throws, never waits. */
  strike(keyId: string): void {
    const nowMs = performance.now()
    const tally = this.#tallyOf(keyId, nowMs)
    if (tally === undefined) return
    tally.unreported += 1
    if (tally.isCalling) return
    // The first one at once, so that other processes know of the key.
    if (tally.total === 0 || this.#mayBan(tally, nowMs)) this.#report(tally)
    else this.#reportLater(tally)
  }

  /** Resolves when every strike so far has been counted. */
  async settled(): Promise<void> {
    for (this.#flush(); this.#underway.size > 0; this.#flush()) await Promise.all(this.#underway)
  }

  #tallyOf(keyId: string, nowMs: number): Tally | undefined {
    const known = this.#tallies.get(keyId)
    if (known !== undefined && nowMs < known.untilMs) return known
    for (const [oldest, { untilMs }] of this.#tallies) {
      if (nowMs < untilMs) break
      this.#tallies.delete(oldest)
    }
    if (this.#tallies.size >= MAX_KEYS) return undefined
    const untilMs = nowMs + this.policy.withinMs + 1_000
    const tally = { keyId, untilMs, total: 0, startedMs: nowMs, unreported: 0, isCalling: false }
    this.#tallies.set(keyId, tally)
    return tally
  }

  #mayBan({ total, unreported, startedMs }: Tally, nowMs: number): boolean {
    const counted = { total: total + unreported, forMs: nowMs - startedMs }
    return isBanEarned(counted, this.policy)
  }

  #report(tally: Tally): void {
    tally.isCalling = true
    const call = this.#count(tally)
      // Strikes that neither the store nor memory could count are let go: the requests they stand for were refused all the same.
      .catch(() => void (tally.unreported = 0))
      .then(() => {
        tally.isCalling = false
        this.#underway.delete(call)
        if (tally.unreported > 0) this.#reportLater(tally)
      })
    this.#underway.add(call)
  }

  async #count(tally: Tally): Promise<void> {
    const { counter, onBan } = this.#options
    do {
      const points = tally.unreported
      tally.unreported = 0
      const counted = await counter.add(tally.keyId, points)
      tally.total = counted.total
      tally.startedMs = performance.now() - counted.forMs
      if (isBanEarned(counted, this.policy)) {
        tally.unreported = 0
        tally.total = 0
        onBan(tally.keyId)
        await counter.reset(tally.keyId)
      }
    } while (tally.unreported > 0 && this.#mayBan(tally, performance.now()))
  }

  #reportLater(tally: Tally): void {
    this.#late.add(tally)
    this.#tick ??= setTimeout(() => this.#flush(), TICK_MS).unref()
  }

  #flush(): void {
    clearTimeout(this.#tick)
    this.#tick = undefined
    const due = [...this.#late]
    this.#late.clear()
    for (const tally of due) if (!tally.isCalling && tally.unreported > 0) this.#report(tally)
  }
}
