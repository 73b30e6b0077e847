/** What the quota says of a request. A denial is a result, not an error. */
import type { OutageMode } from '../../config/config.ts'
import type { PerWindow, WindowName } from '../../config/time.ts'
import type { WindowReply } from '../../state/quota.ts'

/** A client's standing in one window, as the headers state it. */
export interface WindowView {
  readonly limit: number
  readonly remaining: number
  /** Unix time in seconds at which the window ends, on the store's clock. */
  readonly resetAtSeconds: number
  /** Whole seconds until then, rounded up, at least 1. */
  readonly resetAfterSeconds: number
}

export type QuotaView = PerWindow<WindowView>

/** Names a window in which a request was charged, for its refund. */
export type ChargedWindow = Pick<WindowReply, 'index' | 'resetMs'>

interface Decided {
  /** undefined in a degraded mode, and where others may take tokens unnoticed, so that headers are true or absent. */
  readonly view: QuotaView | undefined
  /** The store was away or late, and store.onOutage decided the request. */
  readonly degraded: boolean
}

/** The charge of an admitted request. */
export interface Admission extends Decided {
  readonly kind: 'admitted'
  readonly charged: PerWindow<ChargedWindow>
}

export interface Denial extends Decided {
  readonly kind: 'refused'
  /** The exhausted window with the longest wait. */
  readonly window: WindowName
  readonly limit: number
  readonly retryAfterSeconds: number
}

/** unavailable: the store is away, late or just back, and store.onOutage does not let this process spend more of the limit. */
export type QuotaDecision = Admission | Denial | { readonly kind: 'unavailable' }

/** What the quota reports to the metrics. Every method must be cheap and must not throw. */
export interface QuotaObserver {
  /** A request was decided. window: the one that refused it, or none. */
  decision(window: WindowName | 'none', outcome: 'admitted' | 'refused' | 'unavailable'): void
  /** A call to a remote authority ended; seconds: since it was sent. */
  storeCall(outcome: 'ok' | 'timeout' | 'error', seconds: number): void
  /** A request was decided without the authority, in this mode. */
  degraded(mode: OutageMode): void
}
