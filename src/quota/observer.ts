/** What the quota reports to the metrics. Types only; every method must be cheap and must not throw. */
import type { OutageMode } from '../config/config.ts'

export interface QuotaObserver {
  /** A request was decided. window: the one that refused it, none otherwise. */
  decision(window: 'minute' | 'day' | 'none', outcome: 'admitted' | 'refused' | 'unavailable'): void
  /** A call to a remote authority ended; `seconds` since it was sent. */
  storeCall(outcome: 'ok' | 'timeout' | 'error', seconds: number): void
  /** The authority was lost (false) or is back (true). Called on changes only. */
  outage(available: boolean): void
  /** A request was decided without the authority, in this mode. */
  degraded(mode: OutageMode): void
}
