/**
 * Decides requests while the authority is away, by store.onOutage, and for a second after it is back keeps this process within
 * its share, until the others have had time to state what they spent meanwhile. An authority that is late is not away: it may
 * have granted to others what a share would spend, so its share is nobody's.
 */
import type { Limits, OutageMode } from '../../config/config.ts'
import type { Client } from './client.ts'
import type { Lease } from './lease.ts'
import type { Membership } from './membership.ts'
import type { QuotaObserver } from '../../state/observer.ts'
import type { QuotaDecision } from '../../state/quota.ts'

/** Every process finds the store again within half a second, and states its use at once. */
const SETTLED_AFTER_MS = 1000

const UNAVAILABLE = { kind: 'unavailable' } as const
/** Of a window that is over. */
const NOTHING = { used: 0, held: 0, taken: 0, refunded: 0 }

export interface OutageOptions {
  readonly mode: OutageMode
  readonly membership: Membership
  readonly observe: QuotaObserver | undefined
}

export class Outage {
  readonly #options: OutageOptions
  /** When the authority was last found to be back. */
  #backMs = -Infinity

  constructor(options: OutageOptions) {
    this.#options = options
  }

  /**
   * Decides a request that the authority did not. local: admits up to this process's share of each window, and of what was left of
   * it when the authority last spoke, but only while that is away. open: admits all. closed: admits none. Every admission is counted
   * as used, so that the authority hears the true use when it is back. storeNowMs: its Unix time as far as it is known.
   */
  decide(
    { lease }: Client,
    limits: Limits,
    { nowMs, storeNowMs, isAway }: { nowMs: number; storeNowMs: number; isAway: boolean },
  ): QuotaDecision {
    const { mode: configured, observe } = this.#options
    const mode = configured === 'local' && !isAway ? 'closed' : configured
    observe?.degraded(mode)
    if (mode === 'closed') return UNAVAILABLE
    for (const window of [lease.day, lease.minute]) window.rollOver(nowMs, storeNowMs)
    if (mode === 'open') return lease.spend(limits, nowMs, true)
    return this.#denial(lease, limits, nowMs) ?? lease.spend(limits, nowMs, true)
  }

  /** The authority is back, and others may not have stated yet what they spent. */
  settle(nowMs: number): void {
    this.#backMs = nowMs
  }

  /**
   * The answer to a request beyond this process's share, whatever the authority would grant; undefined when it may be asked. Only
   * in mode local: in the others nobody spends what the authority was not asked for, or all is admitted anyway.
   */
  refusal({ lease, pending }: Client, limits: Limits, nowMs: number) {
    const { mode, membership } = this.#options
    // Afterwards others have stated what they spent.
    if (nowMs >= this.#backMs + SETTLED_AFTER_MS) return undefined
    if (mode !== 'local' || membership.isAlone) return undefined
    return this.#denial(lease, limits, nowMs, pending)
  }

  /**
   * What a request beyond this process's share is answered; undefined for one within it. pending: others that may be charged
   * before it. A 429 only where this process has admitted all of the limit itself, in a window that runs for certain.
   */
  #denial(lease: Lease, limits: Limits, nowMs: number, pending = 0): QuotaDecision | undefined {
    const windows = [lease.day, lease.minute].map((window) => {
      const isOver = nowMs >= window.endsByMs
      const { used, held: inHand, taken = 0, refunded } = isOver ? NOTHING : window
      const limit = window.limitOf(limits)
      // What was granted under a higher limit is as good as returned; what was refunded is not yet.
      const held = limit < window.grantedLimit ? Math.min(used, inHand) : inHand + refunded
      return { window, limit, used, held, taken: taken - inHand + held }
    })
    for (const { window, used, limit } of windows)
      if (used >= limit && nowMs < window.spendUntilMs)
        return lease.refuse(window, limits, nowMs, true)
    const shareOf = this.#options.membership.shareOf(lease.client)
    const isWithin = windows.every(({ limit, used, held, taken }) => {
      const charged = used + pending
      return charged < held || (charged < shareOf(limit) && charged - held < shareOf(limit - taken))
    })
    return isWithin ? undefined : UNAVAILABLE
  }
}
