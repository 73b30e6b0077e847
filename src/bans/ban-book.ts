/** The bans known to this process: answers from memory, keeps them in a store, and makes new ones from strikes. */
import type { BansConfig } from '../config/config.ts'
import {
  isBanned,
  isForgotten,
  isSameBan,
  isSameWindow,
  isStrike,
  mergeBans,
  nextBan,
  type BanRecord,
} from '../rules/ban-policy.ts'
import type { BanStore } from './ban-store.ts'
import type { Strikes } from './strikes.ts'

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

export interface BanObserver {
  /** A request of the key was counted as a strike. */
  strike(keyId: string): void
  /** A ban was made here. */
  banned(keyId: string, ban: BanRecord): void
  /** The store of bans was lost (told once), and is back. Bans hold from memory in between. */
  storeLost(cause: unknown): void
  storeBack(): void
  /** Data that is not a ban was found in the store and passed over. */
  malformed(where: string): void
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

/** Keys whose first 429 is remembered, and bans remembered: the oldest goes when a new one comes. Keys are issued, so this is far away. */
const maxKeys = 100_000
const retryMs = 1_000
const sweepMs = 60_000

/** Nothing here touches quota counters: a ban never costs quota, and its end never gives any back. */
export function createBanBook(options: BanBookOptions): BanBook {
  const { policy, store, observer, now = Date.now } = options
  const bans = new Map<string, BanRecord>()
  const firstRefusals = new Map<string, { readonly windowEndMs: number; readonly atMs: number }>()
  const synchroniser = createSynchroniser({ bans, store, observer, policy, now })

  const ban = (keyId: string): void => {
    const nowMs = now()
    const previous = bans.get(keyId)
    // Strikes counted by two processes may both reach the limit; the second must not make the ban longer.
    if (previous && isBanned(previous, nowMs)) return
    const record = nextBan(previous, nowMs, policy)
    setBounded(bans, keyId, record)
    observer?.banned(keyId, record)
    synchroniser.save(keyId, record)
  }
  const strikes = options.createStrikes(ban)

  return {
    check: (keyId, nowMs) => {
      const record = bans.get(keyId)
      return record && isBanned(record, nowMs) ? record : undefined
    },
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
      const nowMs = now()
      let banned = 0
      for (const record of bans.values()) if (isBanned(record, nowMs)) banned++
      return banned
    },
    close: async () => {
      await strikes.settled()
      await synchroniser.close()
    },
  }
}

/** Makes memory and store agree, both ways. */
function createSynchroniser({
  bans,
  store,
  observer,
  policy: { forgetAfterMs },
  now,
}: Required<Pick<BanBookOptions, 'policy' | 'store' | 'now'>> & {
  readonly bans: Map<string, BanRecord>
  readonly observer: BanObserver | undefined
}) {
  const loaded = Promise.withResolvers<void>()
  const saving = new Set<Promise<void>>()
  const merge = (keyId: string, ban: BanRecord): void => {
    const known = bans.get(keyId)
    setBounded(bans, keyId, known ? mergeBans(known, ban, forgetAfterMs) : ban)
  }
  const forgetOld = (): void => {
    const nowMs = now()
    for (const [keyId, ban] of bans) {
      if (!isForgotten(ban, nowMs, forgetAfterMs)) continue
      bans.delete(keyId)
      store.forget(keyId, ban).catch(rounds.failed)
    }
  }
  const rounds = createRounds(observer, async () => {
    const kept = await store.load()
    for (const [keyId, ban] of kept) merge(keyId, ban)
    forgetOld()
    loaded.resolve()
    for (const [keyId, ban] of bans) {
      const there = kept.get(keyId)
      if (!there || !isSameBan(there, ban)) await store.save(keyId, ban)
    }
  })
  const sweep = setInterval(forgetOld, sweepMs).unref()
  store.watch({
    banned: merge,
    stale: rounds.run,
    malformed: (where) => observer?.malformed(where),
  })

  return {
    /** Resolves when the store has been read for the first time. */
    loaded: loaded.promise,
    save: (keyId: string, ban: BanRecord): void => {
      const write = store
        .save(keyId, ban)
        .catch(rounds.failed)
        .then(() => void saving.delete(write))
      saving.add(write)
    },
    close: async (): Promise<void> => {
      clearInterval(sweep)
      await rounds.close()
      await Promise.all(saving)
      await store.close()
    },
  }
}

/** Runs a round of synchronising when asked, one at a time, and a second after anything failed, until one succeeds. */
function createRounds(observer: BanObserver | undefined, round: () => Promise<void>) {
  let isLost = false
  let isClosed = false
  let retry: NodeJS.Timeout | undefined
  let current: Promise<void> | undefined
  let isAskedAgain = false

  const failed = (cause: unknown): void => {
    if (isClosed) return
    if (!isLost) observer?.storeLost(cause)
    isLost = true
    clearTimeout(retry)
    retry = setTimeout(run, retryMs).unref()
  }
  const succeeded = (): void => {
    if (isLost) observer?.storeBack()
    isLost = false
  }
  const run = (): void => {
    if (isClosed) return
    isAskedAgain = current !== undefined
    current ??= round()
      .then(succeeded, failed)
      .then(() => {
        current = undefined
        if (isAskedAgain) run()
      })
  }
  return {
    run,
    failed,
    close: async (): Promise<void> => {
      isClosed = true
      clearTimeout(retry)
      await current
    },
  }
}

function setBounded<T>(map: Map<string, T>, key: string, value: T): void {
  if (map.size >= maxKeys && !map.has(key)) {
    const oldest = map.keys().next()
    if (!oldest.done) map.delete(oldest.value)
  }
  map.set(key, value)
}
