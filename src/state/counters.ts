/** Reads the authority's counters for operators, and sets them back to 0. counters.lua is the twin of `look` and `reset`. */
import type { Limits } from '../config/config.ts'
import { mapWindows, type PerWindow, type WindowName } from '../config/time.ts'
import type { EmbeddedAuthority } from './memory/authority.ts'
import { rollOver, stateAt, type ClientState } from './memory/transition.ts'
import type { NoticeListener, WindowReply } from './quota.ts'

/** Returns the id under which a client's shadow limits are counted: no configuration or token can name a client with a space. */
export const shadowId = (client: string): string => `shadow ${client}`

export interface ClientCounters extends PerWindow<Pick<WindowReply, 'index' | 'taken' | 'used'>> {
  /** Unix time in ms by the authority's clock. */
  readonly nowMs: number
}

export interface CountedClient {
  readonly id: string
  readonly limits: Limits
}

/** The part of the authority that serves operators. Its calls reject while it is away. */
export interface CounterStore {
  /** Reads the counters, and in the same step sets the use of `windows` back to 0. */
  attend(
    client: CountedClient,
    windows: readonly WindowName[],
  ): Promise<{ readonly before: ClientCounters; readonly after: ClientCounters }>
  /** Has all processes return what they hold of this client, state what they have used, and forget refusals. */
  announceReset(client: string): Promise<void>
}

export function look(state: ClientState, nowMs: number): ClientCounters {
  const { counts } = stateAt(state, nowMs)
  const counters = mapWindows(counts, ({ index, taken, used }) => ({ index, taken, used }))
  return { nowMs: Math.floor(nowMs), ...counters }
}

/**
 * Sets the use of these windows back to 0. Held tokens stay taken, and so do those that a process's latest call brought, as its
 * requests may be admitted only now; what it has spent since then it states with its next call, as new.
 */
export function reset(state: ClientState, windows: readonly WindowName[], nowMs: number): void {
  // Nothing of this day is counted yet.
  if (stateAt(state, nowMs).counts.day.index !== state.counts.day.index) return
  rollOver(state, nowMs)
  state.isExhausted = false
  for (const window of windows) {
    const counts = state.counts[window]
    let old = counts.used
    for (const record of state.processes.values()) {
      const holding = record.holdings[window]
      if (holding.index !== counts.index) continue
      record.status = 'stale'
      holding.held = Math.max(0, holding.held - holding.used) + record.spent
      holding.used = record.spent
      old -= record.spent
    }
    counts.taken = Math.max(0, counts.taken - old)
    counts.used = Math.max(0, counts.used - old)
    counts.unstated = 0
    // The time of a reset rises even if the clock goes back.
    counts.resetMs = Math.max(Math.floor(nowMs), counts.resetMs + 1)
  }
}

/** The counters that this process keeps itself. notify: sends a notice to all processes that take tokens from this authority. */
export const createEmbeddedCounters = (
  authority: Pick<EmbeddedAuthority, 'attend'>,
  notify: NoticeListener,
): CounterStore => ({
  attend: async ({ id, limits }, windows) => {
    const task = (state: ClientState, nowMs: number) => {
      const before = look(state, nowMs)
      reset(state, windows, nowMs)
      return { before, after: look(state, nowMs) }
    }
    return authority.attend(id, limits, task, windows.length > 0)
  },
  announceReset: async (client) => notify(client, 'reset'),
})
