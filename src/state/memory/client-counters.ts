/** Reads the authority's counters of one client for operators, and sets them back to 0. counters.lua is this file's twin. */
import type { CounterStore } from '../counters.ts'
import type { NoticeListener, WindowReply } from '../quota.ts'
import type { EmbeddedAuthority } from './authority.ts'
import { rollOver, type ClientState } from './transition.ts'

/**
 * Returns the id under which the authority counts a client's shadow limits. No configuration or token can name a client with a
 * space in it.
 */
export const shadowId = (client: string): string => `shadow ${client}`

export type Window = 'minute' | 'day'

/** The authority's counters of one window of a client. */
type WindowCounters = Pick<WindowReply, 'index' | 'taken' | 'used'>

export interface ClientCounters {
  /** Unix time in ms by the authority's clock. */
  readonly nowMs: number
  readonly minute: WindowCounters
  readonly day: WindowCounters
}

/** Reads the counters; charges and changes nothing. */
export function look(state: ClientState, nowMs: number): ClientCounters {
  const now = Object.assign(Object.create(null) as ClientState, state, { processes: new Map() })
  rollOver(now, nowMs)
  const of = (window: Window): WindowCounters => ({
    index: now[`${window}Index`],
    taken: now[`${window}Taken`],
    used: now[`${window}Used`],
  })
  return { nowMs: Math.floor(nowMs), minute: of('minute'), day: of('day') }
}

/**
 * Sets the use of these windows back to 0. Tokens that are held stay taken, and so does what a process's latest call brought:
 * the requests that waited for it may be admitted only now. What a process has spent after that call it states with the next
 * one, as new.
 */
export function reset(state: ClientState, windows: readonly Window[], nowMs: number): void {
  // Nothing of this day is counted yet.
  if (!state.isKnown || look(state, nowMs).day.index !== state.dayIndex) return
  rollOver(state, nowMs)
  state.isExhausted = false
  for (const window of windows) {
    let old = state[`${window}Used`]
    for (const record of state.processes.values()) {
      if (window === 'minute' && record.minuteIndex !== state.minuteIndex) continue
      record.status = 'stale'
      const inHand = Math.max(0, record[`${window}Held`] - record[`${window}Used`])
      record[`${window}Held`] = inHand + record.spent
      record[`${window}Used`] = record.spent
      old -= record.spent
    }
    state[`${window}Taken`] = Math.max(0, state[`${window}Taken`] - old)
    state[`${window}Used`] = Math.max(0, state[`${window}Used`] - old)
    state[`${window}Unstated`] = 0
    // The time of a reset rises even if the clock goes back.
    state[`${window}ResetMs`] = Math.max(Math.floor(nowMs), state[`${window}ResetMs`] + 1)
  }
}

/** The counters that this process keeps itself. notify: sends a notice to all processes that take tokens from this authority. */
export const createEmbeddedCounters = (
  authority: Pick<EmbeddedAuthority, 'attend'>,
  notify: NoticeListener,
): CounterStore => ({
  attend: async ({ id, limits }, windows) =>
    authority.attend(id, limits, (state, nowMs) => {
      const before = look(state, nowMs)
      reset(state, windows, nowMs)
      return { before, after: look(state, nowMs) }
    }),
  announceReset: async (client) => notify(client, 'reset'),
})
