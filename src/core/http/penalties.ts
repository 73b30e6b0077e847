/**
 * Addresses whose connections of HTTP/2 had to be ended for abuse, again and again. They are never refused: others have the
 * same address, and nothing sets them apart before their first request. For a while their new connections get HTTP/1.1, where
 * none of that is possible. A client that speaks HTTP/2 alone gets it late: such a connection can cost as much as ten
 * requests before it is ended, so they begin one by one, in the order in which they came.
 */

const ENDS = 5
const WITHIN_MS = 10_000
const FOR_MS = 10_000
/** The oldest is forgotten. */
const ADDRESSES_AT_MOST = 10_000
/** No HTTP/2 of the address begins sooner: whoever has a few connections ended comes back fewer times a second. */
const WAIT_AT_LEAST_MS = 300
/** Time between two beginnings of one address. */
const APART_MS = 20

interface Record {
  ends: number
  sinceMs: number
  untilMs: number
}

interface Beginning {
  readonly dueMs: number
  begin(): void
}

export class Penalties {
  readonly #records = new Map<string, Record>()
  /** Connections that wait for their turn, by address, in the order in which they came. */
  readonly #waiting = new Map<string, Set<Beginning>>()
  #timer: NodeJS.Timeout | undefined

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

  /** Connections of the address were ended for abuse lately, again and again. undefined: of a trusted proxy, which has no record. */
  holds(addressKey: string | undefined, nowMs: number): boolean {
    if (addressKey === undefined || this.#records.size === 0) return false
    const record = this.#records.get(addressKey)
    return record !== undefined && nowMs < record.untilMs
  }

  /** Calls begin when it is its turn, unless what is returned has been called before. */
  beginLate(addressKey: string, begin: () => void): () => void {
    const beginning = { dueMs: performance.now() + WAIT_AT_LEAST_MS, begin }
    const line = this.#waiting.get(addressKey) ?? new Set()
    this.#waiting.set(addressKey, line.add(beginning))
    this.#timer ??= setInterval(() => this.#beginNext(performance.now()), APART_MS).unref()
    return () => void line.delete(beginning)
  }

  /** One of each address. */
  #beginNext(nowMs: number): void {
    for (const [addressKey, line] of this.#waiting) {
      const [first] = line
      if (first === undefined) this.#waiting.delete(addressKey)
      else if (first.dueMs <= nowMs) {
        line.delete(first)
        first.begin()
      }
    }
    if (this.#waiting.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}
