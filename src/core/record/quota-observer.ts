/** Counts the events of the quota. */
import type { QuotaObserver } from '../../state/quota.ts'
import type { newState } from './metric-families.ts'

export const quotaObserver = (state: ReturnType<typeof newState>) =>
  ({
    decision: (window, outcome) => void state.decisions[window][outcome]++,
    storeCall(outcome, seconds) {
      state.storeCalls[outcome]++
      state.storeSeconds.observe(seconds)
    },
    /** The store was lost (false) or is back (true). Called on changes only. */
    outage(available: boolean) {
      state.storeUp = available
      if (!available) state.storeOutages++
    },
    degraded: (mode) => void state.degraded[mode]++,
    /** Counts a request that shadow limits would have refused, or could not judge. */
    shadowRefused(plan: string, by: 'minute' | 'day' | 'unjudged') {
      const counts = state.shadowRefusals.get(plan) ?? { minute: 0, day: 0, unjudged: 0 }
      counts[by]++
      state.shadowRefusals.set(plan, counts)
    },
  }) satisfies QuotaObserver & Record<'outage' | 'shadowRefused', unknown>
