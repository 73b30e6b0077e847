/** The bans that a process knows, in memory: how news of a ban is merged, how many are kept, and when one is forgotten. */
import { isBanned, isForgotten, isLift, isSameBan, mergeBans } from '../rules/ban-policy.ts'
import type { BanRecord } from '../../state/bans.ts'

/** Keys remembered: the oldest goes when a new one comes. Keys are issued, so this is far away. */
const MAX_KEYS = 100_000

export class BanTable {
  forgetAfterMs: number
  /** Ended ones too, as the next ban of the key depends on them. Written by merge, remove and forgetOld alone. */
  readonly #bans = new Map<string, BanRecord>()
  /** The latest act of an operator on each key, longer than its ban is remembered: others may still know an older one. Written by merge. */
  readonly #acts = new Map<string, number>()
  readonly #onLift: ((keyId: string, lift: BanRecord) => void) | undefined

  /** onLift: called once for each lift that an operator has made, here or elsewhere. */
  constructor(forgetAfterMs: number, onLift?: (keyId: string, lift: BanRecord) => void) {
    this.forgetAfterMs = forgetAfterMs
    this.#onLift = onLift
  }

  get all(): ReadonlyMap<string, BanRecord> {
    return this.#bans
  }

  /** The ban of the key that runs. */
  running(keyId: string, nowMs: number): BanRecord | undefined {
    const ban = this.#bans.get(keyId)
    return ban !== undefined && isBanned(ban, nowMs) ? ban : undefined
  }

  /** Of an operator on this key, whether or not its ban is remembered: Unix time. */
  latestActMs(keyId: string): number | undefined {
    return this.#acts.get(keyId)
  }

  /** Takes news of a ban; the result is what holds from now on. */
  merge(keyId: string, ban: BanRecord): BanRecord {
    const known = this.#bans.get(keyId)
    const merged = known === undefined ? ban : mergeBans(known, ban, this.forgetAfterMs)
    setBounded(this.#bans, keyId, merged)
    const epochMs = Math.max(merged.epochMs ?? 0, this.#acts.get(keyId) ?? 0)
    if (epochMs > 0) setBounded(this.#acts, keyId, epochMs)
    if (isLift(merged) && merged.epochMs !== known?.epochMs) this.#onLift?.(keyId, merged)
    return merged
  }

  /** Whether it was there, this very one. */
  remove(keyId: string, ban: BanRecord): boolean {
    const known = this.#bans.get(keyId)
    return known !== undefined && isSameBan(known, ban) && this.#bans.delete(keyId)
  }

  /** Those whose time of remembrance is over, which are gone then. */
  forgetOld(nowMs: number): [keyId: string, ban: BanRecord][] {
    const old = [...this.#bans].filter(([, ban]) => isForgotten(ban, nowMs, this.forgetAfterMs))
    for (const [keyId] of old) this.#bans.delete(keyId)
    return old
  }

  /** Bans that run, the one that ends first first. */
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
