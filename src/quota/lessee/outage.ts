/**
 * Decides requests while the authority is away, by store.onOutage, and for a second after it is back keeps this process within
 * its share, until the others have had time to state what they spent meanwhile.
 */
import type { Limits, OutageMode } from '../../config/config.ts'
import type { Client } from './client.ts'
import type { Lease } from './lease.ts'
import type { LeaseWindow } from './lease-window.ts'
import type { QuotaObserver } from '../observer.ts'
import type { QuotaDecision } from '../protocol.ts'

/** Every process finds the store again within half a second, and states its use at once. */
const SETTLED_AFTER_MS = 1000

export class Outage {
  readonly #mode: OutageMode
  readonly #localAfterMs: number
  readonly #observe: QuotaObserver | undefined
  /** When a call first failed since the latest reply; undefined: none has. */
  #silentSinceMs: number | undefined
  /** The authority has been back since less than SETTLED_AFTER_MS before this. */
  #settlingUntilMs = -Infinity
  /** As many processes as were last known to share any client. */
  #sharers = 1

  /** localAfterMs: mode local begins after a silence of this length; until then what is not in hand is refused as in mode closed. */
  constructor(mode: OutageMode, localAfterMs: number, observe: QuotaObserver | undefined) {
    this.#mode = mode
    this.#localAfterMs = localAfterMs
    this.#observe = observe
  }

  /**
   * Decides a request that the authority did not answer. local: admits up to this process's last known share of each window. open:
   * admits all. closed: admits none. Every admission is counted as used, so that the authority hears the true use when it is back.
   * storeNowMs: the authority's Unix time as far as it is known.
   */
  decide(lease: Lease, limits: Limits, nowMs: number, storeNowMs: number): QuotaDecision {
    this.#silentSinceMs ??= nowMs
    const isEarly = nowMs - this.#silentSinceMs < this.#localAfterMs
    const mode = isEarly && this.#mode === 'local' ? 'closed' : this.#mode
    this.#observe?.degraded(mode)
    if (mode === 'closed') return { kind: 'unavailable' }
    const windows = [lease.day, lease.minute]
    for (const window of windows) window.rollOver(nowMs, storeNowMs)
    const blocked =
      mode === 'local'
        ? windows.find((window) => !hasShareLeft(window, limits, lease.activeProcesses))
        : undefined
    return blocked ? lease.refuse(blocked, limits, nowMs, true) : lease.spend(limits, nowMs, true)
  }

  /** The authority has answered a call. */
  answered(): void {
    this.#silentSinceMs = undefined
  }

  /** The authority is back, or has lost its data. activeProcesses: as many as were last known to share any client. */
  settle(activeProcesses: number, nowMs: number): void {
    // Nobody else is known: a start, or a client of this process alone.
    if (activeProcesses === 1) return
    const isSettling = nowMs < this.#settlingUntilMs
    this.#sharers = isSettling ? Math.max(this.#sharers, activeProcesses) : activeProcesses
    this.#settlingUntilMs = nowMs + SETTLED_AFTER_MS
  }

  /** A call for this client failed: the same as settle, for it alone and with the processes that share it. */
  suspect(client: Client, nowMs: number): void {
    client.suspectUntilMs = nowMs + SETTLED_AFTER_MS
  }

  /**
   * The refusal of a request beyond this process's share, whatever the authority would grant; undefined when it may be asked. Only
   * in mode local: in the others nobody spends what the authority was not asked for, or all is admitted anyway.
   */
  refusal({ lease, pending, suspectUntilMs }: Client, limits: Limits, nowMs: number) {
    const isSettling = nowMs < this.#settlingUntilMs
    if (this.#mode !== 'local' || !(isSettling || nowMs < suspectUntilMs)) return undefined
    const sharers = Math.max(lease.activeProcesses, isSettling ? this.#sharers : 1)
    if (sharers === 1) return undefined
    const blocked = [lease.day, lease.minute].find((window) => {
      const used = nowMs < window.endsByMs ? window.used : 0
      return used + pending >= Math.floor(window.limitOf(limits) / sharers)
    })
    return blocked && lease.refuse(blocked, limits, nowMs, true)
  }
}

function hasShareLeft(window: LeaseWindow, limits: Limits, activeProcesses: number): boolean {
  const limit = window.limitOf(limits)
  const spentBeyondHold = window.used - window.held
  if (spentBeyondHold < 0) return true
  if (window.taken !== undefined && spentBeyondHold >= limit - window.taken) return false
  return window.used < Math.floor(limit / activeProcesses)
}
