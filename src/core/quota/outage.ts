/**
 * Decides requests while the authority is away, by store.onOutage. The process stays within its share for a second after the
 * authority's return, until the others have had time to state what they spent meanwhile. A late authority is not away: it may
 * have granted to others what a share would spend, so that no process may spend its share.
 */
import type { Limits, OutageMode } from '../../config/config.ts'
import type { Lease } from './lease.ts'
import type { Membership } from './membership.ts'
import type { QuotaDecision, QuotaObserver } from './decision.ts'

/** Every process notices within half a second that the store is back, and states its use at once. */
const SETTLED_AFTER_MS = 1000

const UNAVAILABLE = { kind: 'unavailable' } as const
/** The counts of a window that has ended. */
const NOTHING = { used: 0, held: 0, taken: 0, refunded: 0 }

export interface OutageOptions {
  readonly mode: OutageMode
  readonly membership: Membership
  readonly observe: Partial<QuotaObserver> | undefined
}

export class Outage {
  /** When the authority was last seen to be back; other processes may not have stated yet what they spent. Written by lessee.ts. */
  backMs = -Infinity
  readonly #options: OutageOptions

  constructor(options: OutageOptions) {
    this.#options = options
  }

  /**
   * Decides a request that the authority did not. local, and only while the authority is away: admits what is held, and more up
   * to this process's share of each window and of what the authority's latest reply left of it. open: admits all. closed: admits
   * none. Every admission counts as use, so that the authority gets the true use when it is back. storeNowMs: the authority's
   * Unix time as far as it is known.
   */
  decide(
    lease: Lease,
    limits: Limits,
    { nowMs, storeNowMs, isAway }: { nowMs: number; storeNowMs: number; isAway: boolean },
  ): QuotaDecision {
    const { mode: configured, observe } = this.#options
    const mode = configured === 'local' && !isAway ? 'closed' : configured
    observe?.degraded?.(mode)
    if (mode === 'closed') return UNAVAILABLE
    for (const window of lease.windows) window.rollOver(nowMs, storeNowMs)
    if (mode === 'open') return lease.spend(limits, nowMs, true)
    return this.#denial(lease, limits, nowMs) ?? lease.spend(limits, nowMs, true)
  }

  /** Returns the refusal of a request beyond this process's share; undefined where the authority may be asked. Only mode local has shares. */
  refusal(lease: Lease, limits: Limits, nowMs: number) {
    const { mode, membership } = this.#options
    // By then the others have stated what they spent.
    if (nowMs >= this.backMs + SETTLED_AFTER_MS) return undefined
    if (mode !== 'local' || membership.isAlone) return undefined
    return this.#denial(lease, limits, nowMs, lease.waiting.length)
  }

  /**
   * Returns undefined for a request within the share. pending: other requests that may be charged before it. The answer is 429
   * only where this process itself has admitted all of the limit, in a window that certainly runs.
   */
  #denial(lease: Lease, limits: Limits, nowMs: number, pending = 0): QuotaDecision | undefined {
    const windows = lease.windows.toReversed().map((window) => {
      const isOver = nowMs >= window.endsByMs
      const { used, held: inHand, taken = 0, refunded } = isOver ? NOTHING : window
      const limit = window.limitOf(limits)
      // Tokens granted under a higher limit count as returned; refunded ones do not yet.
      const held = limit < window.grantedLimit ? Math.min(used, inHand) : inHand + refunded
      return { window, limit, used, held, taken: taken - inHand + held }
    })
    for (const { window, used, limit } of windows)
      if (used >= limit && nowMs < window.spendUntilMs)
        return lease.refuse(window, limits, nowMs, true)
    const { membership } = this.#options
    const isWithin = windows.every(({ limit, used, held, taken }) => {
      const charged = used + pending
      if (charged < held) return true
      return (
        charged < membership.shareOf(limit) && charged - held < membership.shareOf(limit - taken)
      )
    })
    return isWithin ? undefined : UNAVAILABLE
  }
}
