/** The state that all workers of a machine share, as their supervisor keeps it and as they reach it. */
import type { BanRecord, BanStore, BanStoreListener } from '../bans.ts'
import { StoreUnavailable, type Count, type State } from '../contract.ts'
import { createAddressCounter } from '../memory/addresses.ts'
import type { AddressCount, AddressCounter, CountedAddress } from '../memory/addresses.ts'
import { createMemoryCounter } from '../memory/counter.ts'
import type { Authority, Beat, Beats, TakeReply, TakeRequest } from '../quota.ts'
import { StoreClock } from '../store-clock.ts'
import type { IpcCalls } from '../calls.ts'

/** The calls of a worker to its supervisor. */
export interface SharedCalls {
  take(request: TakeRequest): TakeReply
  beat(beat: Beat): Beats
  loadBans(nothing: undefined): ReadonlyMap<string, BanRecord>
  saveBan(kept: { readonly keyId: string; readonly ban: BanRecord }): void
  /** Adds strikes to a key for all workers; the count begins anew once the key has earned a ban. */
  addStrikes(strikes: { readonly keyId: string; readonly points: number }): Count
  /** Adds requests without a valid credential to an address. */
  countAddress(count: Omit<AddressCount, 'limit'>): CountedAddress
}

export type QuotaCalls = Pick<SharedCalls, 'take' | 'beat'>

interface SupervisorLink<Calls> {
  readonly calls: IpcCalls<Calls>
  readonly onNotice: NonNullable<Authority['onNotice']>
}

export function openSupervisorState(supervisor: SupervisorLink<SharedCalls>) {
  const { calls } = supervisor
  return {
    authority: createIpcAuthority(supervisor),
    bans: createIpcBanStore(calls),
    clock: new StoreClock(),
    strikes: (withinMs) => {
      // Counts for this worker alone while the supervisor is silent.
      const own = createMemoryCounter(withinMs)
      return {
        ...own,
        // The supervisor itself resets the count once a ban is earned, so that no strike in between is lost.
        add: (keyId, points, nowMs) =>
          calls.available
            ? calls.call('addStrikes', { keyId, points }).catch(() => own.add(keyId, points, nowMs))
            : own.add(keyId, points, nowMs),
      }
    },
    ready: () => Promise.resolve(),
    close: () => Promise.resolve(),
  } satisfies State
}

export function createIpcAuthority({ calls, onNotice }: SupervisorLink<QuotaCalls>): Authority {
  // Made once, since a stack trace costs more than a decision.
  const away = new StoreUnavailable('error')
  return {
    take: (request) => {
      if (!calls.available) throw away
      return calls.call('take', request)
    },
    beat: (beat) => calls.call('beat', beat),
    onReturn: (listener) => calls.onState((available) => available && listener()),
    onNotice,
  }
}

/** Also receives news of bans through the supervisor: `banned` for one by another worker, `stale` where some could not be reported. */
function createIpcBanStore(calls: IpcCalls<SharedCalls>): BanStore & BanStoreListener {
  let listener: BanStoreListener | undefined
  return {
    watch: (newListener) => {
      listener = newListener
      calls.onState((available) => available && listener?.stale())
      listener.stale()
    },
    banned: (keyId, ban) => listener?.banned(keyId, ban),
    stale: () => listener?.stale(),
    load: () => calls.call('loadBans', undefined),
    save: (keyId, ban) => calls.call('saveBan', { keyId, ban }),
    // The supervisor forgets by itself.
    forget: () => Promise.resolve(),
  }
}

/** Questions a second and worker that anonymous requests may cost the supervisor. */
const ASKED_PER_SECOND = 5_000

/**
 * Counts requests of addresses without a credential over all workers. Such callers must not wear out the supervisor: an address
 * at its limit is answered from what this worker knows until the window ends, and so are others beyond a number a second.
 */
export function createSharedAddressCounter(
  calls: IpcCalls<SharedCalls>,
  now = Date.now,
): AddressCounter {
  const own = createAddressCounter({ now })
  let budget = { second: 0, left: ASKED_PER_SECOND }
  const mayAsk = (): boolean => {
    const second = Math.floor(now() / 1000)
    if (budget.second !== second) budget = { second, left: ASKED_PER_SECOND }
    return calls.available && budget.left-- > 0
  }
  return {
    add: async ({ address, points, limit }) => {
      const known = (): CountedAddress => own.add({ address, points: 0 })
      const isAsked = known().total < limit && mayAsk()
      const asked = isAsked ? calls.call('countAddress', { address, points }) : undefined
      const counted = await asked?.catch(() => undefined)
      if (counted === undefined) return own.add({ address, points })
      const { window, total } = known()
      if (window === counted.window && total < counted.total)
        own.add({ address, points: counted.total - total })
      return counted
    },
  }
}
