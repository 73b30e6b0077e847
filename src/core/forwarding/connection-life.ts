/**
 * Decides how long a connection to a backend is used, and when it rests. A surplus answer would be taken for
 * that of the next request, and each later answer for the one after: its bytes can be recognized only while no request is under way.
 */
import type { EngineOptions } from './engine.ts'

/** A connection that is never idle rests once per interval. */
const REST_EVERY_MS = 500

/** Shortest rest. A rest lasts as long as the slowest answer since the last rest took: a surplus answer may take as long. */
const MIN_REST_MS = 5

/** Longest rest. A connection that needs a longer one rests for the shortest time and is then closed. */
const MAX_REST_MS = 50

/** Limit of closed connections: each keeps its port for a minute (TIME-WAIT, RFC 9293 section 3.6.1), of some 28,000 ports. */
const CLOSED_PER_SECOND = 16

/** A connection that stays open because too many were closed is used for this long before it rests again. */
const REST_AGAIN_MS = 100

/** The connections to one backend share their limits and what their answers showed. */
export class Rests {
  readonly options: EngineOptions
  readonly #onSurplus: () => void
  /** Time of the last surplus answer: each connection that has not rested since then rests. */
  alarmMs = -Infinity
  // The next three values belong to the current second, and the fourth to the second before it.
  #beganMs = -Infinity
  #closed = 0
  #fastestMs = Infinity
  #fastestBeforeMs = 0

  constructor(options: EngineOptions, onSurplus: () => void) {
    this.options = options
    this.#onSurplus = onSurplus
  }

  /** Surplus bytes came; their connection is closed. */
  surplus(nowMs = performance.now()): void {
    // A backend that always sends surplus bytes must not keep all its connections at rest.
    if (nowMs - this.alarmMs >= REST_EVERY_MS) this.alarmMs = nowMs
    this.#onSurplus()
  }

  /** Reports an answer faster than all others of this second and the previous one: it may belong to an earlier request. */
  isSuspiciouslyFast(waitMs: number, nowMs: number): boolean {
    this.#advanceSecond(nowMs)
    if (waitMs >= this.#fastestMs) return false
    this.#fastestMs = waitMs
    return waitMs < this.#fastestBeforeMs
  }

  mayClose(nowMs: number): boolean {
    this.#advanceSecond(nowMs)
    return this.#closed++ < CLOSED_PER_SECOND
  }

  #advanceSecond(nowMs: number): void {
    const ageMs = nowMs - this.#beganMs
    if (ageMs < 1_000) return
    this.#fastestBeforeMs = ageMs < 2_000 ? this.#fastestMs : 0
    this.#fastestMs = Infinity
    this.#closed = 0
    this.#beganMs = nowMs
  }
}

/** Use and rests of one connection. All times are on performance.now(). */
export class ConnectionLife {
  readonly #rests: Rests
  /** Time after which the connection is closed at the end of its answer. */
  readonly retiresMs: number
  uses = 0
  /** Time at which its last answer ended. */
  freeSinceMs: number
  #startedMs = 0
  /** Time to the slowest answer since the last rest. */
  #slowestMs = 0
  #restedMs = 0
  #dueMs = 0

  constructor(rests: Rests, nowMs = performance.now()) {
    this.#rests = rests
    // A random part of a tenth keeps connections that opened together from closing together.
    this.retiresMs = nowMs + rests.options.connectionAgeMs * (1 - Math.random() / 10)
    this.freeSinceMs = nowMs
    this.#hasRested(nowMs)
  }

  start(nowMs = performance.now()): void {
    if (nowMs - this.freeSinceMs >= this.#restMs) this.#hasRested(nowMs)
    this.uses++
    this.#startedMs = nowMs
  }

  answer(nowMs = performance.now()): void {
    const waitMs = nowMs - this.#startedMs
    this.#slowestMs = Math.max(this.#slowestMs, waitMs)
    if (this.#rests.isSuspiciouslyFast(waitMs, nowMs)) this.#dueMs = nowMs
  }

  /** The answer has ended. Returns how many ms the connection rests; Infinity: it must be closed at once. */
  end(nowMs = performance.now()): number {
    this.freeSinceMs = nowMs
    if (this.uses >= this.#rests.options.connectionUses || nowMs >= this.retiresMs) return Infinity
    if (nowMs < this.#dueMs && this.#restedMs >= this.#rests.alarmMs) return 0
    return this.#restMs <= MAX_REST_MS ? Math.ceil(this.#restMs) : MIN_REST_MS
  }

  /** The rest that end() asked for is over, and no bytes came. Returns whether the connection may be used again. */
  rested(nowMs = performance.now()): boolean {
    if (this.#restMs <= MAX_REST_MS) this.#hasRested(nowMs)
    else if (this.#rests.mayClose(nowMs)) return false
    else {
      this.#restedMs = nowMs
      this.#dueMs = nowMs + REST_AGAIN_MS
    }
    return true
  }

  #hasRested(nowMs: number): void {
    this.#slowestMs = 0
    this.#restedMs = nowMs
    this.#dueMs = nowMs + REST_EVERY_MS
  }

  get #restMs(): number {
    return Math.max(MIN_REST_MS, this.#slowestMs)
  }
}
