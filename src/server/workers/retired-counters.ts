/** The counters of workers that have ended, so that no sum falls with them. */
import {
  countersOf,
  sumSnapshots,
  type MetricsSnapshot,
} from '../../core/record/metric-registry.ts'

/** Older ones are summed into one: a crash loop must not fill the memory. */
const KEPT_APART = 8

export function createRetiredCounters() {
  let kept: readonly MetricsSnapshot[] = []
  let isSumming = false

  const sum = async (): Promise<void> => {
    isSumming = true
    const summed = kept
    const one = await sumSnapshots(summed)
    kept = [one, ...kept.slice(summed.length)]
    isSumming = false
  }
  return {
    /** Adds the last values of a worker that has ended; its gauges ended with it. */
    add: (last: MetricsSnapshot | undefined) => {
      if (last === undefined) return
      kept = [...kept, countersOf(last)]
      if (kept.length > KEPT_APART && !isSumming) void sum()
    },
    snapshots: () => kept,
  }
}
