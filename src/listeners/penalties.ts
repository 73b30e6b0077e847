/**
 * Addresses whose connections of HTTP/2 had to be ended for abuse, again and again. For a while their new connections get
 * HTTP/1.1, where none of that is possible, or get HTTP/2 late (see tls-server.ts). They are never refused: others have the
 * same address, and nothing sets them apart before their first request.
 */

const ENDS = 5
const WITHIN_MS = 10_000
const FOR_MS = 10_000
/** The oldest is forgotten. */
const ADDRESSES_AT_MOST = 10_000

interface Record {
  ends: number
  sinceMs: number
  untilMs: number
}

export class Penalties {
  readonly #records = new Map<string, Record>()

  /** A connection of the address was ended for abuse. Times are of one clock that never goes back. */
  add(addressKey: string, nowMs: number): void {
    const known = this.#records.get(addressKey)
    const record =
      known !== undefined && nowMs - known.sinceMs < WITHIN_MS
        ? known
        : { ends: 0, sinceMs: nowMs, untilMs: 0 }
    record.ends += 1
    if (record.ends >= ENDS) record.untilMs = nowMs + FOR_MS
    this.#records.delete(addressKey)
    this.#records.set(addressKey, record)
    if (this.#records.size <= ADDRESSES_AT_MOST) return
    const [oldest] = this.#records.keys()
    if (oldest !== undefined) this.#records.delete(oldest)
  }

  /** Connections of the address were ended for abuse lately, again and again. */
  holds(addressKey: string, nowMs: number): boolean {
    if (this.#records.size === 0) return false
    const record = this.#records.get(addressKey)
    return record !== undefined && nowMs < record.untilMs
  }
}
