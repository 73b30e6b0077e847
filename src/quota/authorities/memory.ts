/** The embedded authority: the counters of all clients in this process, answered at once. */
import { firstKeptDay, restoredState, type KeptCounters } from '../journal/kept-counters.ts'
import type { Authority, Beat, Beats, TakeReply, TakeRequest } from '../protocol.ts'
import { RecencyTable } from '../recency-table.ts'
import { ClientState, transition } from './transition.ts'
import type { CountedClient, UnsavedClients } from '../journal/unsaved-clients.ts'
import type { UnsavedCounters } from '../journal/write-behind.ts'

export interface MemoryAuthority extends Authority {
  take(request: TakeRequest): TakeReply
  beat(beat: Beat): Promise<Beats>
  /** Clients whose counters are kept. */
  readonly size: number
  /** undefined: all is kept that has to be. */
  readonly unsaved?: UnsavedCounters | undefined
}

const SWEEP_EVERY_MS = 600_000
/** The beat of a process is told on for so long after it has fallen silent. */
export const BEAT_KEPT_MS = 60_000

/**
 * clock.epochMs: Unix time in ms; decides the windows.
 * maxClients: when more are counted, the counters of those not seen lately are dropped.
 * losesData: see transition; true only where it stands for an authority elsewhere.
 * restored: what an earlier boot had handed out. Its processes are gone, so all of it counts as spent.
 * unsaved: notes every change, for whoever keeps the counters over a restart.
 */
export function createMemoryAuthority({
  clock,
  maxClients = 200_000,
  losesData = false,
  restored = [],
  unsaved,
}: {
  clock: { epochMs(): number }
  maxClients?: number | undefined
  losesData?: boolean
  restored?: Iterable<KeptCounters>
  unsaved?: UnsavedClients | undefined
}): MemoryAuthority {
  const clients = new RecencyTable<CountedClient>({
    maxEntries: maxClients,
    mayDrop: (client) => {
      unsaved?.dropped(client)
      return true
    },
  })
  const add = (id: string, state: ClientState): CountedClient => {
    const client = { id, state, isUnsaved: false, isDropped: false }
    clients.add(id, client)
    return client
  }
  for (const kept of restored) add(kept.client, restoredState(kept))
  let sweepAtMs = 0
  const beats = new Map<string, number>()

  const sweep = (nowMs: number): void => {
    sweepAtMs = nowMs + SWEEP_EVERY_MS
    const firstDay = firstKeptDay(nowMs)
    for (const [id, { state }] of clients.entries())
      if (state.dayIndex < firstDay) clients.delete(id)
  }

  return {
    get size() {
      return clients.size
    },
    take: (request) => {
      const nowMs = clock.epochMs()
      if (nowMs >= sweepAtMs) sweep(nowMs)
      const client = clients.get(request.client) ?? add(request.client, new ClientState())
      unsaved?.changed(client)
      return transition(client.state, request, nowMs, losesData)
    },
    beat: async ({ process, isLast }) => {
      const nowMs = clock.epochMs()
      if (isLast) beats.delete(process)
      else beats.set(process, nowMs)
      for (const [name, atMs] of beats) if (nowMs - atMs > BEAT_KEPT_MS) beats.delete(name)
      return new Map(beats)
    },
    close: async () => undefined,
  }
}
