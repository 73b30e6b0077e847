/** The ban store of the supervisor, as workers reach it. */
import type { BanStore, BanStoreListener, BanRecord } from '../bans.ts'
import type { IpcCalls } from './calls.ts'
import type { StoreClock } from '../store-clock.ts'

/** The calls of a worker's ban book to the supervisor. */
export interface BanCalls {
  /** nowMs: Unix time in ms of the supervisor. */
  loadBans(nothing: undefined): { bans: ReadonlyMap<string, BanRecord>; nowMs: number }
  saveBan(kept: { readonly keyId: string; readonly ban: BanRecord }): void
  forgetBan(kept: { readonly keyId: string; readonly ban: BanRecord }): void
}

/** Also receives news of bans through the supervisor: `banned` for one by another worker, `stale` where some could not be reported. */
export type IpcBanStore = BanStore & Pick<BanStoreListener, 'banned' | 'stale'>

/** clock: is set by the supervisor's time. */
export function createIpcBanStore(calls: IpcCalls<BanCalls>, clock: StoreClock): IpcBanStore {
  let listener: BanStoreListener | undefined
  return {
    watch: (newListener) => {
      listener = newListener
      calls.onRecovered(() => listener?.stale())
      listener.stale()
    },
    banned: (keyId, ban) => listener?.banned(keyId, ban),
    stale: () => listener?.stale(),
    load: async () => {
      const askedMs = performance.now()
      const { bans, nowMs } = await calls.call('loadBans', undefined)
      clock.set(nowMs, performance.now() - askedMs)
      return bans
    },
    save: (keyId, ban) => calls.call('saveBan', { keyId, ban }),
    forget: (keyId, ban) => calls.call('forgetBan', { keyId, ban }),
    close: () => Promise.resolve(),
  }
}
