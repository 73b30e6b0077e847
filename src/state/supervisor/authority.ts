/** The embedded authority of the supervisor, as its workers reach it. */
import { StoreUnavailable } from '../store-unavailable.ts'
import type { IpcCalls } from './calls.ts'
import { observedCall, type CallObserver } from '../observer.ts'
import type { Authority, Beat, Beats, TakeReply, TakeRequest } from '../quota.ts'

/** What the lessee of a worker asks of the supervisor. */
export interface QuotaCalls {
  take(request: TakeRequest): TakeReply
  beat(beat: Beat): Beats
}

/**
 * onNotice: registers who is to have the supervisor's notices.
 * take() throws StoreUnavailable at once while the supervisor is silent or gone, else rejects with it.
 */
export function createIpcAuthority({
  calls,
  onNotice,
  observe,
}: {
  calls: IpcCalls<QuotaCalls>
  onNotice: NonNullable<Authority['onNotice']>
  observe?: CallObserver
}): Authority {
  // Thrown for every request while nobody answers: made once, since a stack trace costs more than the decision.
  const away = new StoreUnavailable('error')

  return {
    take: (request) => {
      if (!calls.available) throw away
      return observedCall(calls.call('take', request), (reply) => reply, observe)
    },
    beat: (beat) => calls.call('beat', beat),
    onReturn: (listener) => calls.onRecovered(listener),
    onNotice,
    close: async () => undefined,
  }
}
