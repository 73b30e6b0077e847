/** The embedded authority: the counters of all clients in this process, answered at once. */
import { DAY_MS, type Authority, type TakeReply, type TakeRequest } from './protocol.ts'
import { createRecencyTable } from './recency-table.ts'
import {
  emptyClientState,
  EXPIRY_AFTER_DAY_MS,
  transition,
  type ClientState,
} from './transition.ts'

export interface MemoryAuthority extends Authority {
  take(request: TakeRequest): TakeReply
  /** Clients whose counters are kept. */
  readonly size: number
}

const SWEEP_EVERY_MS = 600_000

/**
 * clock.epochMs: Unix time in ms; decides the windows.
 * maxClients: when more are counted, the counters of those not seen lately are dropped.
 */
export function createMemoryAuthority({
  clock,
  maxClients = 200_000,
}: {
  clock: { epochMs(): number }
  maxClients?: number
}): MemoryAuthority {
  const clients = createRecencyTable<ClientState>({ maxEntries: maxClients, mayDrop: () => true })
  let sweepAtMs = 0

  const sweep = (nowMs: number): void => {
    sweepAtMs = nowMs + SWEEP_EVERY_MS
    for (const [client, state] of clients.entries())
      if (nowMs >= (state.dayIndex + 1) * DAY_MS + EXPIRY_AFTER_DAY_MS) clients.delete(client)
  }

  return {
    get size() {
      return clients.size
    },
    take: (request) => {
      const nowMs = clock.epochMs()
      if (nowMs >= sweepAtMs) sweep(nowMs)
      let state = clients.get(request.client)
      if (state === undefined) {
        state = emptyClientState()
        clients.add(request.client, state)
      }
      return transition(state, request, nowMs)
    },
    close: async () => undefined,
  }
}
