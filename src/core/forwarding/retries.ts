/** Limits how often one request is repeated, and the share of repeats: failing backends must not get twice the load. */
import type { Asker } from '../backends/balancer.ts'
import type { Config } from '../../config/config.ts'
import { keepLatest } from '../../state/memory/recency-table.ts'
import { isStale, mayRepeat, type FailedAttempt } from '../rules/backend-failure.ts'

/** Repeats that are always allowed per second, even if the share of few requests is smaller. */
const minPerSecond = 10

/** A client whose repeat failed as well gets one repeat per interval. */
const spacingMs = 1_000
/** Time without a repeat after which this limit ends. */
const forgottenMs = 10_000
/** Largest number of such clients; the oldest is forgotten. */
const maxClients = 256

export class Retries {
  readonly #retry: Config['upstream']['retry']
  readonly #hasOthers: boolean
  /** Largest number of repeats in a burst. */
  readonly #burst: number
  #budget: number
  /** Number of requests since the budget was last updated. */
  #begun = 0
  #updatedMs = 0
  /** Clients whose repeat failed as well, with the time of their last repeat: requests that fail everywhere must not use up the repeats of all. */
  readonly #failedRepeats = new Map<string, number>()

  constructor(upstream: Pick<Config['upstream'], 'retry' | 'connections' | 'urls'>) {
    const { retry, connections, urls } = upstream
    this.#retry = retry
    this.#hasOthers = urls.length > 1
    // One backend that dies can fail this many requests at once.
    this.#burst = retry.budget === 0 ? 0 : Math.max(connections, minPerSecond)
    this.#budget = this.#burst
  }

  begun(): void {
    this.#begun++
  }

  /** Decides whether a failed request is sent again; repeated: the number of repeats so far. */
  allows(
    { method, clientId }: Asker['job'],
    failed: FailedAttempt,
    repeated: number,
    nowMs = performance.now(),
  ): boolean {
    if (!mayRepeat(method, failed)) return false
    if (repeated > 0 && failed.phase === 'sent')
      keepLatest(this.#failedRepeats, clientId, nowMs, maxClients)
    if (repeated >= this.#retry.attempts) return false
    // A stale connection allows a repeat even at the only backend; other failures do not.
    if (isStale(failed)) return true
    return this.#hasOthers && this.#mayRepeatAgain(clientId, nowMs) && this.#spend(nowMs)
  }

  #mayRepeatAgain(clientId: string, nowMs: number): boolean {
    const lastMs = this.#failedRepeats.get(clientId)
    if (lastMs === undefined) return true
    if (nowMs - lastMs < spacingMs) return false
    if (nowMs - lastMs < forgottenMs) this.#failedRepeats.set(clientId, nowMs)
    else this.#failedRepeats.delete(clientId)
    return true
  }

  #spend(nowMs: number): boolean {
    const seconds = (nowMs - this.#updatedMs) / 1000
    const earned = this.#begun * this.#retry.budget + seconds * minPerSecond
    this.#budget = Math.min(this.#burst, this.#budget + earned)
    this.#begun = 0
    this.#updatedMs = nowMs
    if (this.#budget < 1) return false
    this.#budget--
    return true
  }
}
