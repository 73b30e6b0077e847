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

interface OutageTimes {
  /** Monotonic clock, as in the lease. */
  readonly nowMs: number
  /** The authority's Unix time as far as it can be known: by its latest reply, else this machine's. */
  readonly storeNowMs: number
}

export interface OutageOptions {
  readonly mode: OutageMode
  /** Mode local begins after a silence of this length; until then what is not in hand is refused as in mode closed. */
  readonly localAfterMs: number
  readonly observe: QuotaObserver | undefined
}

export class Outage {
  readonly #options: OutageOptions
  /** When a call first failed since the latest reply; undefined: none has. */
  #silentSinceMs: number | undefined
  /** The authority has been back since less than SETTLED_AFTER_MS before this. */
  #settlingUntilMs = -Infinity
  /** As many processes as were last known to share any client. */
  #sharers = 1

  constructor(options: OutageOptions) {
    this.#options = options
  }

  /** Decides a request that the authority did not answer. */
  decide(lease: Lease, limits: Limits, times: OutageTimes): QuotaDecision {
    this.#silentSinceMs ??= times.nowMs
    const { localAfterMs, observe } = this.#options
    const isEarly = times.nowMs - this.#silentSinceMs < localAfterMs
    const mode = isEarly && this.#options.mode === 'local' ? 'closed' : this.#options.mode
    observe?.degraded(mode)
    return decideDuringOutage(lease, limits, { mode, times })
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
   * The refusal of a request beyond this process's share; undefined when the authority may be asked. Only in mode local: in the
   * others nobody spends what the authority was not asked for, or all is admitted anyway.
   */
  refusal({ lease, pending, suspectUntilMs }: Client, limits: Limits, nowMs: number) {
    const isSettling = nowMs < this.#settlingUntilMs
    if (this.#options.mode !== 'local' || !(isSettling || nowMs < suspectUntilMs)) return undefined
    const sharers = Math.max(lease.activeProcesses, isSettling ? this.#sharers : 1)
    return sharers > 1 ? shareRefusal(lease, limits, { nowMs, sharers, pending }) : undefined
  }
}

/**
 * local: admits up to this process's last known share of each window. open: admits all. closed: admits none.
 * Every admission is counted as used, so that the authority hears the true use when it is back.
 */
function decideDuringOutage(
  lease: Lease,
  limits: Limits,
  { mode, times }: { mode: OutageMode; times: OutageTimes },
): QuotaDecision {
  if (mode === 'closed') return { kind: 'unavailable' }
  const { minute, day, activeProcesses } = lease
  for (const window of [minute, day]) window.rollOver(times.nowMs, times.storeNowMs)
  if (mode === 'local') {
    const blocked = [day, minute].find(
      (window) => !hasShareLeft(window, window.limitOf(limits), activeProcesses),
    )
    if (blocked !== undefined) return lease.refuse(blocked, limits, times.nowMs, true)
  }
  return lease.spend(limits, times.nowMs, true)
}

/**
 * Refuses what is beyond the share of one of `sharers` processes, whatever the authority would grant.
 * pending: requests of the client that the authority is being asked for.
 */
function shareRefusal(
  lease: Lease,
  limits: Limits,
  { nowMs, sharers, pending }: { nowMs: number; sharers: number; pending: number },
): QuotaDecision | undefined {
  const blocked = [lease.day, lease.minute].find((window) => {
    const used = nowMs < window.endsByMs ? window.used : 0
    return used + pending >= Math.floor(window.limitOf(limits) / sharers)
  })
  return blocked && lease.refuse(blocked, limits, nowMs, true)
}

function hasShareLeft(window: LeaseWindow, limit: number, activeProcesses: number): boolean {
  const spentBeyondHold = window.used - window.held
  if (spentBeyondHold < 0) return true
  if (window.taken !== undefined && spentBeyondHold >= limit - window.taken) return false
  return window.used < Math.floor(limit / activeProcesses)
}
