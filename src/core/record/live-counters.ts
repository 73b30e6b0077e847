/** A snapshot of the counters for the live view, where each second is the difference of two snapshots. */
import type { newState } from './metric-families.ts'

export type LiveCounters = ReturnType<typeof liveCounters>

export const liveCounters = (state: ReturnType<typeof newState>) => {
  const { requests, refusals, decisions, inFlight, eventLoopLagMs, storeSeconds } = state
  const series = [...requests.routes.values()]
  return {
    refusals,
    decisions,
    inFlight,
    connections: state.connections(),
    eventLoopLagMs,
    storeSeconds,
    backends: state.backends?.backends ?? [],
    gateway: series.map(({ gateway }) => gateway),
    backend: series.map(({ backend }) => backend),
  }
}
