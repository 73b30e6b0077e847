/**
 * A clock that also advances while the machine is suspended, when the monotonic clock may stand still: else a lease would be spent
 * in a later window than it was granted in. All that the Unix clock gains on the monotonic one counts; leases end early at worst.
 */

/** Tolerated drift; it is less than the time by which a lease ends early. */
const DRIFT_MS = 4

/** monotonicMs and epochMs: clocks of this machine. The result never goes back. */
export function createSteadyClock(monotonicMs: () => number, epochMs: () => number): () => number {
  let epochAheadMs = epochMs() - monotonicMs()
  let suspendedMs = 0
  return () => {
    const nowMs = monotonicMs()
    const gainedMs = epochMs() - nowMs - epochAheadMs
    if (gainedMs > DRIFT_MS || gainedMs < -DRIFT_MS) {
      epochAheadMs += gainedMs
      if (gainedMs > 0) suspendedMs += gainedMs
    }
    return nowMs + suspendedMs
  }
}
