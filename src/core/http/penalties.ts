/**
 * Keeps addresses whose HTTP/2 connections were repeatedly ended for abuse. They are never refused: others may have the same
 * address, and nothing distinguishes them before their first request. For a while their new connections get HTTP/1.1, where
 * such abuse is impossible. A client that speaks only HTTP/2 waits: such a connection can cost as much as ten requests
 * before it is ended, so they begin one by one, in order of arrival.
 */

const MAX_ENDS = 5
const WITHIN_MS = 10_000
const PENALTY_MS = 10_000
/** Limit of kept addresses; the oldest is dropped. */
const MAX_ADDRESSES = 10_000
/** Shortest wait of an HTTP/2 connection: a client whose connections are ended comes back less often. */
const WAIT_AT_LEAST_MS = 300
/** Interval between the starts of two connections of one address. */
const START_EVERY_MS = 20

export class Penalties {
  /** ends: how many in a row, each within the time of the one before. */
  readonly #records = new Map<string, { ends: number; lastMs: number }>()
  /** Waiting connections by address, in order of arrival: what begins each, and from when on it may. */
  readonly #waiting = new Map<string, Map<() => void, number>>()
  #timer: NodeJS.Timeout | undefined

  /** Notes that a connection of the address was ended for abuse. Times come from one monotonic clock. */
  add(addressKey: string, nowMs: number): void {
    const known = this.#records.get(addressKey)
    const before = known !== undefined && nowMs - known.lastMs < WITHIN_MS ? known.ends : 0
    this.#records.delete(addressKey)
    this.#records.set(addressKey, { ends: before + 1, lastMs: nowMs })
    if (this.#records.size <= MAX_ADDRESSES) return
    const [oldest] = this.#records.keys()
    if (oldest !== undefined) this.#records.delete(oldest)
  }

  /** Reports whether the address has a penalty. addressKey: undefined for a trusted proxy, which never has one. */
  holds(addressKey: string | undefined, nowMs: number): boolean {
    if (addressKey === undefined || this.#records.size === 0) return false
    const record = this.#records.get(addressKey)
    return record !== undefined && record.ends >= MAX_ENDS && nowMs - record.lastMs < PENALTY_MS
  }

  /** Calls begin when the connection's turn comes; the returned function cancels that. */
  beginInTurn(addressKey: string, begin: () => void): () => void {
    const line = this.#waiting.get(addressKey) ?? new Map<() => void, number>()
    this.#waiting.set(addressKey, line.set(begin, performance.now() + WAIT_AT_LEAST_MS))
    this.#timer ??= setInterval(() => this.#beginNext(performance.now()), START_EVERY_MS).unref()
    return () => void line.delete(begin)
  }

  /** Starts the first due connection of each address. */
  #beginNext(nowMs: number): void {
    for (const [addressKey, line] of this.#waiting) {
      const [first] = line
      if (first === undefined) {
        this.#waiting.delete(addressKey)
        continue
      }
      const [begin, dueMs] = first
      if (dueMs > nowMs) continue
      line.delete(begin)
      begin()
    }
    if (this.#waiting.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }
}
