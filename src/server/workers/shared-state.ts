/** State that the supervisor keeps for all workers of the machine, and its answers to their calls. */
import { createMemoryBanStore, type BanStore } from '../../state/bans.ts'
import { BanTable } from '../../core/bans/ban-table.ts'
import { OperatorBans } from '../../core/bans/operator-bans.ts'
import { SharedBans, type SharedBansParts } from '../../core/bans/shared-bans.ts'
import { Synchroniser } from '../../core/bans/synchroniser.ts'
import type { CallHandlers } from '../../state/calls.ts'
import { createMemoryCounter } from '../../state/memory/counter.ts'
import type { Config } from '../../config/config.ts'
import type { EmbeddedAuthority } from '../../state/memory/authority.ts'
import type { WorkersParts } from '../gateway/worker-link.ts'
import type { ClientNotice, SharedCalls } from './messages.ts'
import type { StoreClock } from '../../state/store-clock.ts'
import { isBanEarned } from '../../core/rules/ban-policy.ts'
import { whenKnown } from '../../core/rules/when-known.ts'

export type SharedState = ReturnType<typeof createSharedState>

interface SharedStateParts extends Pick<SharedBansParts, 'onBan' | 'onMalformed'> {
  readonly config: Config
  /** Counts the requests without a valid credential. */
  readonly addresses: WorkersParts['addresses']
  /** undefined with Redis, which workers ask themselves. */
  readonly embedded: EmbeddedAuthority | undefined
  /** The store of all bans, and its clock. */
  readonly banStore: BanStore
  readonly clock: StoreClock
}

export function createSharedState(parts: SharedStateParts) {
  const { config, embedded, banStore, clock, addresses } = parts
  let policy = config.bans
  const { forgetAfterMs, withinMs } = policy
  const strikes = createMemoryCounter(withinMs)
  const authority = (): EmbeddedAuthority => {
    if (embedded === undefined) throw new Error('the quota authority is Redis')
    return embedded
  }
  const store = embedded === undefined ? createMemoryBanStore() : banStore
  /** The bans that Redis keeps. */
  const table = new BanTable(forgetAfterMs)
  const inRedis = embedded === undefined ? keepUpWith(banStore, table, clock) : undefined
  const onLift = (keyId: string): void => strikes.reset(keyId)
  const bans = new SharedBans({ ...parts, store, forgetAfterMs, onLift })
  return {
    /** Answers the calls of one worker. onNotice: passes a notice on to the others. */
    handlers: (onNotice: (notice: ClientNotice) => void): CallHandlers<SharedCalls> => ({
      // Answers at once where the authority knows at once, so that the answer goes out with the first message.
      take: (request) =>
        whenKnown(authority().take(request), (reply) => {
          const { notice, minute, day } = reply
          if (notice !== undefined)
            onNotice({ client: request.client, notice, totals: { minute, day } })
          return reply
        }),
      beat: (beat) => authority().beat(beat),
      addStrikes: ({ keyId, points: added }) => {
        const counted = strikes.add(keyId, added, Date.now())
        if (isBanEarned(counted.total, policy)) strikes.reset(keyId)
        return counted
      },
      countAddress: (count) => addresses.add(count),
      ...bans.handlers,
    }),
    operatorBans:
      embedded === undefined
        ? new OperatorBans({ table, store: banStore, now: () => clock.nowMs() })
        : bans.operators,
    /** Applies the ban policy to strikes and bans after this call. */
    use({ bans: next }: Config): void {
      policy = next
      strikes.useTime(next.withinMs)
      table.forgetAfterMs = bans.forgetAfterMs = next.forgetAfterMs
    },
    /** Reads the stored bans. */
    ready: () => bans.ready(),
    /** Writes what is not stored yet. */
    close: async () => {
      await Promise.allSettled([store.close(), inRedis?.close()])
    },
  }
}

/** Lets operators see bans while the store is away. Workers report when that is, and what in it is no ban. */
function keepUpWith(store: BanStore, table: BanTable, clock: StoreClock): Synchroniser {
  const ignore = (): void => undefined
  const observer = { storeLost: ignore, storeBack: ignore, malformed: ignore }
  return new Synchroniser({ table, store, observer, now: () => clock.nowMs() })
}
