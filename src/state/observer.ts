/** What the quota reports to the metrics. Every method must be cheap and must not throw. */
import type { OutageMode } from '../config/config.ts'
import { StoreUnavailable } from './store-unavailable.ts'

export interface QuotaObserver {
  /** A request was decided. window: the one that refused it, none otherwise. */
  decision(window: 'minute' | 'day' | 'none', outcome: 'admitted' | 'refused' | 'unavailable'): void
  /** A call to a remote authority ended; `seconds` since it was sent. */
  storeCall(outcome: 'ok' | 'timeout' | 'error', seconds: number): void
  /** A request was decided without the authority, in this mode. */
  degraded(mode: OutageMode): void
}

export type CallObserver = Pick<QuotaObserver, 'storeCall'> | undefined

/** The reply to a call of a remote authority that begins now, as `parse` reads it; tells the observer how it ended. */
export async function observedCall<Raw, Reply>(
  call: Promise<Raw>,
  parse: (raw: Raw) => Reply,
  observe: CallObserver,
): Promise<Reply> {
  const sentMs = performance.now()
  let outcome: 'ok' | 'timeout' | 'error' = 'ok'
  try {
    return parse(await call)
  } catch (fault) {
    outcome = fault instanceof StoreUnavailable ? fault.reason : 'error'
    throw fault
  } finally {
    observe?.storeCall(outcome, (performance.now() - sentMs) / 1000)
  }
}
