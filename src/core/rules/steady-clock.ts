/**
 * Time that passes while the machine is suspended, too, when its monotonic clock may stand still: else a lease would be spent in a
 * later window than it was granted in. Whatever the Unix clock gains on the monotonic one counts as passed; it is early at worst.
 */

/** Less than the moment by which a lease ends early. */
const DRIFT_MS = 4

/** monotonicMs and epochMs: of this machine. The result never goes back. */
export function createSteadyClock({
  monotonicMs,
  epochMs,
}: {
  monotonicMs(): number
  epochMs(): number
}): () => number {
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
