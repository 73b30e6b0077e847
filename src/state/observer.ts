/** What the quota reports to the metrics. Every method must be cheap and must not throw. */
import type { OutageMode } from '../config/config.ts'
import { StoreUnavailable } from './store-unavailable.ts'

export interface QuotaObserver {
  /** A request was decided. window: the one that refused it, or none. */
  decision(window: 'minute' | 'day' | 'none', outcome: 'admitted' | 'refused' | 'unavailable'): void
  /** A call to a remote authority ended; seconds: since it was sent. */
  storeCall(outcome: 'ok' | 'timeout' | 'error', seconds: number): void
  /** A request was decided without the authority, in this mode. */
  degraded(mode: OutageMode): void
}

export type CallObserver = Pick<QuotaObserver, 'storeCall'> | undefined

/** Waits for a call of a remote authority, reports its outcome to the observer, and returns the reply as `parse` reads it. */
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
