/** State that the supervisor keeps for all workers of the machine, and its answers to their calls. */
import type { BanRecord } from '../../state/bans.ts'
import { BanTable } from '../../core/bans/ban-table.ts'
import type { CallHandlers } from '../../state/calls.ts'
import { createMemoryCounter } from '../../state/memory/counter.ts'
import type { Config } from '../../config/config.ts'
import type { EmbeddedAuthority } from '../../state/memory/authority.ts'
import type { createAddressCounter } from '../../state/memory/addresses.ts'
import type { SharedCalls } from '../../state/supervisor/home.ts'
import { perWindow } from '../../config/time.ts'
import type { ClientNotice } from './messages.ts'
import type { State } from '../../state/contract.ts'
import { isBanEarned } from '../../core/rules/ban-policy.ts'
import { whenKnown } from '../../core/rules/when-known.ts'

export type SharedState = ReturnType<typeof createSharedState>

interface SharedStateParts {
  readonly config: Config
  readonly addresses: ReturnType<typeof createAddressCounter>
  /** embedded: undefined with Redis, which workers ask themselves. */
  readonly stores: Pick<State, 'embedded' | 'bans' | 'clock'>
  /** Called with each ban that all workers have to receive; with Redis they receive it from there. */
  onBan(keyId: string, ban: BanRecord): void
}

export function createSharedState(parts: SharedStateParts) {
  const { config, addresses } = parts
  const { embedded, bans: banStore, clock } = parts.stores
  let policy = config.bans
  const strikes = createMemoryCounter(policy.withinMs)
  const authority = (): EmbeddedAuthority => {
    if (embedded === undefined) throw new Error('the quota authority is Redis')
    return embedded
  }
  const table = new BanTable({
    store: banStore,
    clock,
    forgetAfterMs: policy.forgetAfterMs,
    onChange: (keyId, ban) => embedded && parts.onBan(keyId, ban),
    onLift: (keyId) => strikes.reset(keyId),
  })
  return {
    /** Answers the calls of one worker. onNotice: passes a notice on to the others. */
    handlers: (onNotice: (notice: ClientNotice) => void): CallHandlers<SharedCalls> => ({
      // Answers at once where the authority knows at once, so that the answer goes out with the first message.
      take: (request) =>
        whenKnown(authority().take(request), (reply) => {
          const { notice } = reply
          if (notice === undefined) return reply
          const totals = perWindow(({ name }) => reply[name])
          onNotice({ client: request.client, notice, totals })
          return reply
        }),
      beat: (beat) => authority().beat(beat),
      addStrikes: ({ keyId, points: added }) => {
        const counted = strikes.add(keyId, added, Date.now())
        if (isBanEarned(counted.total, policy)) strikes.reset(keyId)
        return counted
      },
      countAddress: (count) => addresses.add(count),
      loadBans: () => table.all,
      saveBan: ({ keyId, ban }) => {
        const known = table.all.get(keyId)
        const merged = table.merge(keyId, ban)
        if (merged !== known) table.save(keyId, merged)
      },
    }),
    operatorBans: table,
    /** Applies the ban policy to strikes and bans after this call. */
    use({ bans: next }: Config): void {
      policy = next
      strikes.useTime(next.withinMs)
      table.forgetAfterMs = next.forgetAfterMs
    },
    /** Resolves when the stored bans have been read, or have had their time to be. */
    ready: () => table.ready(config.store.timeoutMs),
    /** Writes what is not stored yet. */
    close: () => table.close(),
  }
}
