/** After an outage: keeps this process within its share until the others have had time to state what they spent in it. */
import type { Limits, OutageMode } from '../../config/config.ts'
import type { Client } from '../client.ts'
import { shareRefusal } from './outage-count.ts'
import type { QuotaDecision } from '../protocol.ts'

/** Every process finds the store again within half a second, and states its use at once. */
const SETTLED_AFTER_MS = 1000

export interface AfterOutage {
  /** The authority is back, or has lost its data. activeProcesses: as many as were last known to share any client. */
  begin(activeProcesses: number, nowMs: number): void
  /** A call for this client failed: the same for it alone, with the processes that share it. */
  suspect(client: Client, nowMs: number): void
  /** The refusal of a request beyond this process's share; undefined when the authority may be asked. */
  refusal(client: Client, limits: Limits, nowMs: number): QuotaDecision | undefined
}

/** Only in mode local: in the others nobody spends what the authority was not asked for, or all is admitted anyway. */
export function createAfterOutage(mode: OutageMode): AfterOutage {
  let untilMs = -Infinity
  let sharers = 1
  return {
    begin: (activeProcesses, nowMs) => {
      // Nobody else is known: a start, or a client of this process alone.
      if (activeProcesses === 1) return
      sharers = nowMs < untilMs ? Math.max(sharers, activeProcesses) : activeProcesses
      untilMs = nowMs + SETTLED_AFTER_MS
    },
    suspect: (client, nowMs) => {
      client.suspectUntilMs = nowMs + SETTLED_AFTER_MS
    },
    refusal: (client, limits, nowMs) => {
      const isSuspect = mode === 'local' && nowMs < Math.max(untilMs, client.suspectUntilMs)
      if (!isSuspect) return undefined
      const { lease, pending } = client
      const among = Math.max(lease.activeProcesses, nowMs < untilMs ? sharers : 1)
      return among > 1 ? shareRefusal(lease, limits, { nowMs, sharers: among, pending }) : undefined
    },
  }
}
