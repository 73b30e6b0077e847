/** Keeps each client's latest result at one backend. A client counts once, however many requests it sends. */

/** Clients that have an entry of their own; all others share one. */
const MOST_CLIENTS = 64

interface Latest {
  hasFailed: boolean
  atMs: number
}

export class ClientOutcomes {
  readonly #latest = new Map<string, Latest>()
  /** Time at which a client without an entry was last served. */
  #othersServedMs = -Infinity

  /** Returns whether the client's previous request had failed. */
  served(clientId: string, nowMs: number): boolean {
    const latest = this.#latest.get(clientId)
    if (latest === undefined) {
      if (this.#latest.size < MOST_CLIENTS)
        this.#latest.set(clientId, { hasFailed: false, atMs: nowMs })
      else this.#othersServedMs = nowMs
      return false
    }
    const { hasFailed } = latest
    latest.hasFailed = false
    latest.atMs = nowMs
    return hasFailed
  }

  failed(clientId: string, nowMs: number, sinceMs: number): void {
    const latest = this.#latest.get(clientId)
    if (latest !== undefined) {
      latest.hasFailed = true
      latest.atMs = nowMs
      return
    }
    if (this.#latest.size >= MOST_CLIENTS)
      for (const [id, { atMs }] of this.#latest) if (atMs < sinceMs) this.#latest.delete(id)
    if (this.#latest.size < MOST_CLIENTS)
      this.#latest.set(clientId, { hasFailed: true, atMs: nowMs })
  }

  hasFailed(clientId: string, sinceMs: number): boolean {
    const latest = this.#latest.get(clientId)
    return latest !== undefined && latest.hasFailed && latest.atMs >= sinceMs
  }

  /** Reports whether a client was served that has not failed since. */
  servesAny(sinceMs: number): boolean {
    if (this.#othersServedMs >= sinceMs) return true
    for (const { hasFailed, atMs } of this.#latest.values())
      if (!hasFailed && atMs >= sinceMs) return true
    return false
  }

  /** Counts clients that have failed and were not served since. */
  failures(sinceMs: number): number {
    let count = 0
    for (const { hasFailed, atMs } of this.#latest.values())
      if (hasFailed && atMs >= sinceMs) count++
    return count
  }

  /** Reports whether a client outside the given set was served or failed. */
  hasOther(sinceMs: number, isOneOfThose: (clientId: string) => boolean): boolean {
    if (this.#othersServedMs >= sinceMs) return true
    for (const [id, { atMs }] of this.#latest) if (atMs >= sinceMs && !isOneOfThose(id)) return true
    return false
  }
}
