/** Holds the bans that a process knows: merges further ones, bounds their number, and forgets old ones. */
import { isBanned, isForgotten, isLift, isSameBan, mergeBans } from '../rules/ban-policy.ts'
import type { BanRecord } from '../../state/bans.ts'

/** Keys remembered; beyond it a new key replaces the oldest. All keys were issued, so this is rarely reached. */
const MAX_KEYS = 100_000

export interface BanTableHooks {
  /** Called with each ban that has become the one that holds for its key. */
  onChange?(keyId: string, ban: BanRecord): void
  /** Called once for each lift that an operator has made, here or elsewhere. */
  onLift?(keyId: string, lift: BanRecord): void
}

export class BanTable {
  forgetAfterMs: number
  /** Running and ended bans, as the next ban of the key depends on them. Written by merge, remove and forgetOld alone. */
  readonly #bans = new Map<string, BanRecord>()
  /** Unix time in ms of the latest operator's act on each key. It outlives the ban, as others may know an older ban. Written by merge. */
  readonly #acts = new Map<string, number>()
  readonly #hooks: BanTableHooks

  constructor(forgetAfterMs: number, hooks: BanTableHooks = {}) {
    this.forgetAfterMs = forgetAfterMs
    this.#hooks = hooks
  }

  get all(): ReadonlyMap<string, BanRecord> {
    return this.#bans
  }

  /** The running ban of the key. */
  running(keyId: string, nowMs: number): BanRecord | undefined {
    const ban = this.#bans.get(keyId)
    return ban !== undefined && isBanned(ban, nowMs) ? ban : undefined
  }

  /** Unix time in ms of the latest act of an operator on this key, whether or not its ban is remembered. */
  latestActMs(keyId: string): number | undefined {
    return this.#acts.get(keyId)
  }

  /** Merges a ban into what is known; returns the ban that holds from now on. */
  merge(keyId: string, ban: BanRecord): BanRecord {
    const known = this.#bans.get(keyId)
    const merged = known === undefined ? ban : mergeBans(known, ban, this.forgetAfterMs)
    setBounded(this.#bans, keyId, merged)
    const epochMs = Math.max(merged.epochMs ?? 0, this.#acts.get(keyId) ?? 0)
    if (epochMs > 0) setBounded(this.#acts, keyId, epochMs)
    if (merged !== known) this.#hooks.onChange?.(keyId, merged)
    if (isLift(merged) && merged.epochMs !== known?.epochMs) this.#hooks.onLift?.(keyId, merged)
    return merged
  }

  /** Removes this very ban; returns whether it was there. */
  remove(keyId: string, ban: BanRecord): boolean {
    const known = this.#bans.get(keyId)
    return known !== undefined && isSameBan(known, ban) && this.#bans.delete(keyId)
  }

  /** Removes and returns the bans that need no longer be remembered. */
  forgetOld(nowMs: number): [keyId: string, ban: BanRecord][] {
    const old = [...this.#bans].filter(([, ban]) => isForgotten(ban, nowMs, this.forgetAfterMs))
    for (const [keyId] of old) this.#bans.delete(keyId)
    return old
  }

  /** Running bans, in the order of their ends. */
  allRunning(nowMs: number): [keyId: string, ban: BanRecord][] {
    return [...this.#bans]
      .filter(([, ban]) => isBanned(ban, nowMs))
      .sort(([, one], [, other]) => one.untilMs - other.untilMs)
  }

  /** Keys banned at this moment. */
  count(nowMs: number): number {
    let banned = 0
    for (const ban of this.#bans.values()) if (isBanned(ban, nowMs)) banned++
    return banned
  }
}

/** Sets a value for one of at most MAX_KEYS keys. */
export function setBounded<T>(map: Map<string, T>, key: string, value: T): void {
  if (map.size >= MAX_KEYS && !map.has(key)) {
    const oldest = map.keys().next()
    if (!oldest.done) map.delete(oldest.value)
  }
  map.set(key, value)
}
