/** The bans known to this process: answers from memory, keeps them in a store, and makes new ones from strikes. */
import type { BansConfig } from '../config/config.ts'
import { isSameWindow, isStrike, nextBan, type BanRecord } from '../rules/ban-policy.ts'
import type { BanStore } from './ban-store.ts'
import { BanTable, setBounded } from './ban-table.ts'
import type { Strikes } from './strikes.ts'
import { Synchroniser, type SyncObserver } from './synchroniser.ts'

export interface BanBook {
  /** The ban of the key that runs at `nowMs` (Unix time in ms), from memory alone. */
  check(keyId: string, nowMs: number): BanRecord | undefined
  /** To be called on each 429 for quota. `windowEndMs`: Unix time in ms at which the exhausted window ends. Never throws. */
  refused(refusal: { keyId: string; windowEndMs: number; nowMs: number }): void
  /** Bans the key from now on, unless it is banned already. Never throws; the store is told in the background. */
  ban(keyId: string): void
  /** Resolves when the store's bans have been read, or after `loadTimeoutMs`; they are then merged when the store is back. */
  ready(): Promise<void>
  /** Keys banned now. */
  readonly size: number
  /** Waits for writes under way, then closes the ban store. */
  close(): Promise<void>
}

export interface BanObserver extends SyncObserver {
  /** A request of the key was counted as a strike. */
  strike(keyId: string): void
  /** A ban was made here. */
  banned(keyId: string, ban: BanRecord): void
}

export interface BanBookOptions {
  readonly policy: BansConfig
  readonly store: BanStore
  readonly createStrikes: (onBan: (keyId: string) => void) => Strikes
  /** store.timeout: how long a start waits for a store that does not answer. */
  readonly loadTimeoutMs: number
  readonly observer?: BanObserver | undefined
  /** Unix time in ms. */
  readonly now?: () => number
}

/** Nothing here touches quota counters: a ban never costs quota, and its end never gives any back. */
export function createBanBook(options: BanBookOptions): BanBook {
  const { policy, store, observer, now = Date.now } = options
  const table = new BanTable(policy.forgetAfterMs)
  const synchroniser = new Synchroniser({ table, store, observer, now })
  const firstRefusals = new Map<string, { readonly windowEndMs: number; readonly atMs: number }>()

  const ban = (keyId: string): void => {
    const nowMs = now()
    // Strikes counted by two processes may both reach the limit; the second must not make the ban longer.
    if (table.running(keyId, nowMs) !== undefined) return
    const record = table.merge(keyId, nextBan(table.all.get(keyId), nowMs, policy))
    observer?.banned(keyId, record)
    synchroniser.save(keyId, record)
  }
  const strikes = options.createStrikes(ban)

  return {
    check: (keyId, nowMs) => table.running(keyId, nowMs),
    refused: ({ keyId, windowEndMs, nowMs }) => {
      const first = firstRefusals.get(keyId)
      if (!first || !isSameWindow(first.windowEndMs, windowEndMs)) {
        firstRefusals.delete(keyId)
        setBounded(firstRefusals, keyId, { windowEndMs, atMs: nowMs })
      } else if (isStrike({ nowMs, firstRefusedAtMs: first.atMs, graceMs: policy.graceMs })) {
        observer?.strike(keyId)
        strikes.strike(keyId)
      }
    },
    ban,
    ready: () => {
      const { promise, resolve } = Promise.withResolvers<void>()
      const timer = setTimeout(resolve, options.loadTimeoutMs)
      void synchroniser.loaded.then(resolve)
      return promise.finally(() => clearTimeout(timer))
    },
    get size() {
      return table.count(now())
    },
    close: async () => {
      await strikes.settled()
      await synchroniser.close()
    },
  }
}
