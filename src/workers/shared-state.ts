/** What the supervisor keeps for all workers of the machine, and how it answers their calls. */
import { createAddressCounter } from '../counters/anonymous-limiter.ts'
import type { BanStore } from '../bans/ban-store.ts'
import type { CallHandlers } from '../ipc/calls.ts'
import { createCounter } from '../counters/counter.ts'
import type { Config } from '../config/config.ts'
import type { MemoryAuthority } from '../quota/authorities/memory.ts'
import type { Reclaim, SharedCalls } from './messages.ts'
import { isSameBan, mergeBans, type BanRecord } from '../rules/ban-policy.ts'

export interface SharedState {
  /** The answers to one worker. onReclaim: the others are to hear of it. */
  handlers(onReclaim: (reclaim: Reclaim) => void): CallHandlers<SharedCalls>
  /** Reads the kept bans. */
  ready(): Promise<void>
  /** Writes what is not kept yet. */
  close(): Promise<void>
}

/** Bans remembered; keys are issued, so this is far away. */
const MAX_BANS = 100_000
const LOAD_AGAIN_AFTER_MS = 1_000

/**
 * embedded: undefined with Redis, which workers ask themselves. onBan: a ban that all workers are to hear of.
 * onMalformed: data that is not a ban was found in the store and passed over.
 */
export function createSharedState({
  config,
  embedded,
  onBan,
  onMalformed,
}: {
  config: Config
  embedded: { readonly authority: MemoryAuthority; readonly bans: BanStore } | undefined
  onBan(keyId: string, ban: BanRecord): void
  onMalformed(where: string): void
}): SharedState {
  const { strikes: strikesForBan, withinMs, forgetAfterMs } = config.bans
  const addresses = createAddressCounter()
  const strikes = createCounter({
    redis: undefined,
    keyPrefix: '',
    points: strikesForBan,
    lifetimeMs: withinMs,
    timeoutMs: config.store.timeoutMs,
  })
  const bans = new Map<string, BanRecord>()
  /** Bans that the store has refused to take: the next save is no repeat. */
  const unkept = new Set<string>()
  const merge = (keyId: string, ban: BanRecord): BanRecord => {
    const known = bans.get(keyId)
    const merged = known === undefined ? ban : mergeBans(known, ban, forgetAfterMs)
    bans.set(keyId, merged)
    const [oldest] = bans.size > MAX_BANS ? bans.keys() : []
    if (oldest !== undefined) bans.delete(oldest)
    return merged
  }
  const load = async (store: BanStore): Promise<void> => {
    try {
      // Workers that are there already, because the store was away at first, hear of all of them.
      for (const [keyId, ban] of await store.load()) onBan(keyId, merge(keyId, ban))
    } catch {
      setTimeout(() => void load(store), LOAD_AGAIN_AFTER_MS).unref()
    }
  }

  return {
    handlers: (onReclaim) => ({
      take: (request) => {
        if (embedded === undefined) throw new Error('the quota authority is Redis')
        const reply = embedded.authority.take(request)
        // A reclaim is for the tokens that the caller is short of, or for the use of a client that is unknown.
        if (reply.reclaim)
          onReclaim({ client: request.client, isUnknown: reply.status !== 'short' })
        return reply
      },
      addStrikes: async ({ keyId, points }) => {
        const total = await strikes.add(keyId, points)
        if (total >= strikesForBan) await strikes.reset(keyId)
        return total
      },
      countAddress: (count) => addresses.add(count),
      loadBans: () => bans,
      saveBan: async ({ keyId, ban }) => {
        const known = bans.get(keyId)
        const merged = merge(keyId, ban)
        if (known !== undefined && isSameBan(known, merged) && !unkept.has(keyId)) return
        onBan(keyId, merged)
        unkept.add(keyId)
        await embedded?.bans.save(keyId, merged)
        unkept.delete(keyId)
      },
      forgetBan: async ({ keyId, ban }) => {
        const known = bans.get(keyId)
        if (known === undefined || !isSameBan(known, ban)) return
        bans.delete(keyId)
        await embedded?.bans.forget(keyId, ban)
      },
    }),
    ready: async () => {
      if (embedded === undefined) return
      embedded.bans.watch({
        banned: merge,
        stale: () => undefined,
        malformed: onMalformed,
      })
      await load(embedded.bans)
    },
    close: async () => {
      await Promise.allSettled([embedded?.authority.close(), embedded?.bans.close()])
    },
  }
}
