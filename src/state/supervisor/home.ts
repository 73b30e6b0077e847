/** The state that all workers of a machine share, as their supervisor keeps it and as they reach it. */
import type { BanRecord, BanStore, BanStoreListener } from '../bans.ts'
import { StoreUnavailable, type Count, type State } from '../contract.ts'
import type { AddressCount, CountedAddress } from '../memory/addresses.ts'
import { createMemoryCounter } from '../memory/counter.ts'
import type { Authority, Beat, Beats, TakeReply, TakeRequest } from '../quota.ts'
import { StoreClock } from '../store-clock.ts'
import type { IpcCalls } from '../calls.ts'

/** The calls of a worker's lessee to the supervisor. */
export interface QuotaCalls {
  take(request: TakeRequest): TakeReply
  beat(beat: Beat): Beats
}

/** The calls of a worker's ban book to the supervisor. */
export interface BanCalls {
  loadBans(nothing: undefined): ReadonlyMap<string, BanRecord>
  saveBan(kept: { readonly keyId: string; readonly ban: BanRecord }): void
}

/** The calls of a worker's counters to the supervisor. */
export interface CounterCalls {
  /** Adds strikes to a key for all workers; the count begins anew once the key has earned a ban. */
  addStrikes(strikes: { readonly keyId: string; readonly points: number }): Count
  /** Adds requests without a valid credential to an address. */
  countAddress(count: Omit<AddressCount, 'limit'>): CountedAddress
}

interface QuotaOptions {
  readonly calls: IpcCalls<QuotaCalls>
  /** Registers a listener for the supervisor's notices. */
  readonly onNotice: NonNullable<Authority['onNotice']>
}

/** Also receives news of bans through the supervisor: `banned` for one by another worker, `stale` where some could not be reported. */
type IpcBanStore = BanStore & Pick<BanStoreListener, 'banned' | 'stale'>

/** Bans wait for the supervisor's disk, and quota must not wait with them. The calls stay open, as they belong to the caller. */
export function openSupervisorState(
  options: QuotaOptions & { readonly calls: IpcCalls<QuotaCalls & CounterCalls> },
  banCalls: IpcCalls<BanCalls>,
): State & { readonly bans: IpcBanStore } {
  const { calls } = options
  return {
    authority: createIpcAuthority(options),
    embedded: undefined,
    bans: createIpcBanStore(banCalls),
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
  }
}

/** take() throws StoreUnavailable at once while the supervisor is silent or gone, else rejects with it. */
export function createIpcAuthority({ calls, onNotice }: QuotaOptions): Authority {
  // Thrown for every request while the supervisor does not answer. It is made once, since a stack trace costs more than the
  // decision.
  const away = new StoreUnavailable('error')
  return {
    take: (request) => {
      if (!calls.available) throw away
      return calls.call('take', request)
    },
    beat: (beat) => calls.call('beat', beat),
    onReturn: (listener) => calls.onRecovered(listener),
    onNotice,
  }
}

function createIpcBanStore(calls: IpcCalls<BanCalls>): IpcBanStore {
  let listener: BanStoreListener | undefined
  return {
    watch: (newListener) => {
      listener = newListener
      calls.onRecovered(() => listener?.stale())
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
