/** The embedded authority: the counters of all clients in this process. It answers at once, except where it has to wait for its journal. */
import type { CountedClient as Counted, Journal, Row } from '../sqlite/quota-journal.ts'
import type { Limits } from '../../config/config.ts'
import { DAY_MS, perWindow } from '../../config/time.ts'
import type { UnsavedCounters } from '../contract.ts'
import type { Authority, Beat, Beats, TakeReply, TakeRequest } from '../quota.ts'
import { RecencyTable } from './recency-table.ts'
import { ClientState, transition, windowAt } from './transition.ts'

export type EmbeddedAuthority = Authority & ReturnType<typeof createEmbeddedAuthority>

/** A task on an unknown client changes nothing that is kept. One that sets counts back is a reset, which a crash may not undo. */
type Task<Result> = (state: ClientState, nowMs: number) => Result

interface MemoryOptions {
  /** Unix time in ms; decides the windows. */
  readonly clock: { epochMs(): number }
  /** With more clients, those not seen lately are forgotten; without a keeper their counts begin anew. */
  readonly maxClients?: number | undefined
  /** See transition; true only where it stands for an authority elsewhere. */
  readonly losesData?: boolean
  /** Called the first time a client is forgotten without a keeper. */
  readonly onForgotten?: (lost: UnsavedCounters) => void
}

/** The beat of a process is reported for so long after the process has fallen silent. */
export const BEAT_KEPT_MS = 60_000
export const MAX_CLIENTS = 200_000
const SWEEP_EVERY_MS = 600_000
/** A client's counters are useless this long after the end of their day. */
const EXPIRY_AFTER_DAY_MS = 3_600_000

/** Returns the first day whose counters are still of use. */
export function firstKeptDay(nowMs: number): number {
  return Math.floor((nowMs - EXPIRY_AFTER_DAY_MS) / DAY_MS)
}

/** keeper: keeps the counters, including those of clients that memory has forgotten; without it all answers come at once. */
export function createEmbeddedAuthority(options: MemoryOptions & { readonly keeper?: Journal }) {
  const { clock, maxClients = MAX_CLIENTS, losesData = false, keeper, onForgotten } = options
  /** Some clients are not in memory; with a keeper the file has their rows. */
  let hasForgotten = false
  const mayDrop = (client: Counted): boolean => keeper?.mayForget(client) ?? true
  const clients = new RecencyTable<Counted>({
    maxEntries: maxClients,
    mayDrop: (client) => {
      if (!mayDrop(client)) return false
      if (keeper === undefined && !hasForgotten) onForgotten?.(tooMany(maxClients))
      hasForgotten = true
      return true
    },
  })
  const add = (id: string, row?: Row) => clients.get(id) ?? clients.add(id, countedFrom(id, row))
  let sweepAtMs = 0
  /** Returns a client; its row is read back first where memory may have forgotten it, while another call may add it. */
  const counted = (id: string): Counted | undefined | Promise<Counted | undefined> => {
    const client = clients.get(id)
    if (client !== undefined || !hasForgotten || keeper === undefined) return client
    return keeper.find(id).then((row) => (row ? add(id, row) : clients.get(id)))
  }
  const carryOut = (request: TakeRequest, client: Counted = add(request.client)) => {
    const reply = transition(client.state, request, clock.epochMs(), losesData)
    // A reply that a crash could undo waits until it is kept.
    return keeper?.carriedOut(client, request.limits)?.then(() => reply) ?? reply
  }
  return {
    isEmbedded: true,
    /** Takes the rows that an earlier process has left; called before the first call, if at all. */
    restore(rows: readonly Row[]): void {
      for (const row of rows) add(row.client, row)
      hasForgotten ||= rows.length >= maxClients
    },
    get size() {
      return clients.size
    },
    get unsaved(): UnsavedCounters | undefined {
      if (keeper !== undefined) return keeper.unsaved
      return hasForgotten ? tooMany(maxClients) : undefined
    },
    take(request: TakeRequest): TakeReply | Promise<TakeReply> {
      const nowMs = clock.epochMs()
      if (nowMs >= sweepAtMs) sweepAtMs = sweep(clients, mayDrop, nowMs)
      const client = counted(request.client)
      if (!(client instanceof Promise)) return carryOut(request, client)
      return client.then((late) => carryOut(request, late))
    },
    /** Runs the task on a client's counters; its changes are kept like those of calls. */
    attend: async <Result>(id: string, limits: Limits, task: Task<Result>, isReset?: boolean) => {
      const client = await counted(id)
      const result = task(client?.state ?? new ClientState(), clock.epochMs())
      await (client && keeper?.carriedOut(client, limits, isReset))
      return result
    },
    beat: createBeats(clock),
    close: async () => keeper?.close(),
  }
}

const countedFrom = (id: string, row: Row | undefined): Counted => ({
  id,
  state: row ? restoredState(row) : new ClientState(),
  row,
  ahead: 0,
})

/** Forgets days that have ended; returns when to sweep again. */
function sweep(
  clients: RecencyTable<Counted>,
  mayDrop: (client: Counted) => boolean,
  nowMs: number,
): number {
  const firstDay = firstKeptDay(nowMs)
  for (const [id, client] of clients.entries())
    if (client.state.counts.day.index < firstDay && mayDrop(client)) clients.delete(id)
  return nowMs + SWEEP_EVERY_MS
}

/**
 * Counts all that was taken as used, as the processes that held tokens are gone; where only memory had forgotten the client, what
 * they state is part of that. Indexes stay, so that a window that had ended stays so even if the clock went back.
 */
function restoredState(row: Row): ClientState {
  const counts = perWindow(({ name }) => {
    const taken = row[`${name}Taken`]
    return Object.assign(windowAt(row[`${name}Index`]), { taken, used: taken, unstated: taken })
  })
  return Object.assign(new ClientState(), { counts })
}

function tooMany(maxClients: number): UnsavedCounters {
  const warning = `more than ${maxClients} clients have come: those not seen lately are counted anew; set store.file or store.redis`
  return { seconds: 0, warning }
}

function createBeats(clock: { epochMs(): number }) {
  const beats = new Map<string, number>()
  return async ({ process, isLast }: Beat): Promise<Beats> => {
    const nowMs = clock.epochMs()
    if (isLast) beats.delete(process)
    else beats.set(process, nowMs)
    for (const [name, atMs] of beats) if (nowMs - atMs > BEAT_KEPT_MS) beats.delete(name)
    return new Map(beats)
  }
}
