/** The counters that this process keeps itself, for its workers or alone. */
import type { EmbeddedAuthority } from './authority.ts'
import type { NoticeListener } from '../quota.ts'
import { look, reset } from './client-counters.ts'
import type { CounterStore } from '../counters.ts'

/** notify: sends a notice to all processes that take tokens from this authority. */
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
