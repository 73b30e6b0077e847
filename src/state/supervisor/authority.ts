/** The embedded authority of the supervisor, as workers reach it. */
import { StoreUnavailable } from '../contract.ts'
import type { IpcCalls } from './calls.ts'
import { observedCall, type CallObserver } from '../quota.ts'
import type { Authority, Beat, Beats, TakeReply, TakeRequest } from '../quota.ts'

/** The calls of a worker's lessee to the supervisor. */
export interface QuotaCalls {
  take(request: TakeRequest): TakeReply
  beat(beat: Beat): Beats
}

/**
 * onNotice: registers a listener for the supervisor's notices.
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
  // Thrown for every request while the supervisor does not answer. It is made once, since a stack trace costs more than the
  // decision.
  const away = new StoreUnavailable('error')

  return {
    take: (request) => {
      if (!calls.available) throw away
      return observedCall(calls.call('take', request), observe)
    },
    beat: (beat) => calls.call('beat', beat),
    onReturn: (listener) => calls.onRecovered(listener),
    onNotice,
    close: async () => undefined,
  }
}
