/** After an outage: keeps this process within its share until the others have had time to state what they spent in it. */
import type { Limits, OutageMode } from '../config/config.ts'
import type { Client } from './client.ts'
import { shareRefusal } from './outage-count.ts'
import type { QuotaDecision } from './protocol.ts'

/** Every process finds the store again within half a second, and states its use at once. */
const SETTLED_AFTER_MS = 1000

export interface AfterOutage {
  /** The authority did not answer, or is back. activeProcesses: as many as were last known to share a client. */
  begin(activeProcesses: number, nowMs: number): void
  /** The refusal of a request beyond this process's share; undefined when the authority may be asked. */
  refusal(client: Client, limits: Limits, nowMs: number): QuotaDecision | undefined
}

/** Only in mode local: in the others nobody spends what the authority was not asked for, or all is admitted anyway. */
export function createAfterOutage(mode: OutageMode): AfterOutage {
  let untilMs = -Infinity
  let sharers = 1
  return {
    begin: (activeProcesses, nowMs) => {
      sharers = nowMs < untilMs ? Math.max(sharers, activeProcesses) : activeProcesses
      untilMs = nowMs + SETTLED_AFTER_MS
    },
    refusal: (client, limits, nowMs) =>
      mode === 'local' && sharers > 1 && nowMs < untilMs
        ? shareRefusal(client.lease, limits, { nowMs, sharers, pending: client.pending })
        : undefined,
  }
}
