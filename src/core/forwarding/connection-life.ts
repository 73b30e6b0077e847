/**
 * How long a connection to a backend is used, and when it rests; the same for both engines. An answer that nobody asked for
 * is taken for that of the next request, and so on for ever: it shows only while no request is under way.
 */
import type { Backend } from '../backends/backend.ts'
import type { EngineOptions } from './engine.ts'

/** A connection that is never idle rests once in this time. */
const REST_EVERY_MS = 500

/** A rest is as long as the slowest answer since the last one took, since that long the one that is still owed may take. */
const LEAST_REST_MS = 5

/** A connection that would have to rest for longer rests for the least time, and is then closed. */
const MOST_REST_MS = 50

/** Each connection that we close keeps its port for a minute (TIME-WAIT, RFC 9293 section 3.6.1), and there are some 28,000. */
const CLOSED_PER_SECOND = 16

/** A connection that is not closed since too many were goes on for so long. */
const AGAIN_MS = 100

/** What the connections to one backend have in common. */
export class Rests {
  readonly options: EngineOptions
  readonly #backend: Backend
  /** All that were not quiet since then rest, as one of them brought an answer that nobody asked for. */
  alarmMs = -Infinity
  /** These four are of one second. */
  #beganMs = -Infinity
  #closed = 0
  #quickestMs = Infinity
  #quickestBeforeMs = 0

  constructor(backend: Backend, options: EngineOptions) {
    this.#backend = backend
    this.options = options
  }

  /** Bytes came that nobody asked for; their connection is closed. */
  surplus(nowMs = performance.now()): void {
    // A backend that does so all the time must not keep all its connections at rest.
    if (nowMs - this.alarmMs >= REST_EVERY_MS) this.alarmMs = nowMs
    this.options.onSurplus(this.#backend)
  }

  /** Quicker than all answers of this second and the one before: it may have been under way before it was asked for. */
  isHasty(waitMs: number, nowMs: number): boolean {
    this.#turnPage(nowMs)
    if (waitMs >= this.#quickestMs) return false
    this.#quickestMs = waitMs
    return waitMs < this.#quickestBeforeMs
  }

  mayClose(nowMs: number): boolean {
    this.#turnPage(nowMs)
    return this.#closed++ < CLOSED_PER_SECOND
  }

  #turnPage(nowMs: number): void {
    const ageMs = nowMs - this.#beganMs
    if (ageMs < 1_000) return
    this.#quickestBeforeMs = ageMs < 2_000 ? this.#quickestMs : 0
    this.#quickestMs = Infinity
    this.#closed = 0
    this.#beganMs = nowMs
  }
}

/** One connection. All times are on performance.now(). */
export class ConnectionLife {
  readonly #rests: Rests
  /** The connection is closed behind its answer from then on. */
  readonly retiresMs: number
  /** Requests that it was given. */
  uses = 0
  /** End of its last answer. */
  freeSinceMs: number
  /** It carries nothing more. */
  isLast = false
  #startedMs = 0
  /** The slowest answer since it rested last. */
  #slowestMs = 0
  #restedMs = 0
  /** When it is to rest again. */
  #dueMs = 0

  constructor(rests: Rests, nowMs = performance.now()) {
    this.#rests = rests
    // Up to a tenth earlier, so that those opened together do not go together.
    this.retiresMs = nowMs + rests.options.connectionAgeMs * (1 - Math.random() / 10)
    this.freeSinceMs = nowMs
    this.#hasRested(nowMs)
  }

  /** A request goes out on it. */
  start(nowMs = performance.now()): void {
    if (nowMs - this.freeSinceMs >= this.#restMs) this.#hasRested(nowMs)
    this.uses++
    this.#startedMs = nowMs
  }

  /** The answer begins. */
  answer(nowMs = performance.now()): void {
    const waitMs = nowMs - this.#startedMs
    this.#slowestMs = Math.max(this.#slowestMs, waitMs)
    if (this.#rests.isHasty(waitMs, nowMs)) this.#dueMs = nowMs
  }

  /** Its answer has ended. Answers for how many ms it is to carry nothing; Infinity: it is to be closed at once. */
  end(nowMs = performance.now()): number {
    this.freeSinceMs = nowMs
    if (this.isLast || this.uses >= this.#rests.options.connectionUses || nowMs >= this.retiresMs)
      return Infinity
    if (nowMs < this.#dueMs && this.#restedMs >= this.#rests.alarmMs) return 0
    return this.#restMs <= MOST_REST_MS ? Math.ceil(this.#restMs) : LEAST_REST_MS
  }

  /** It has carried nothing for as long as end() said, and nothing came. Answers whether it may carry more. */
  rested(nowMs = performance.now()): boolean {
    if (this.#restMs <= MOST_REST_MS) this.#hasRested(nowMs)
    else if (this.#rests.mayClose(nowMs)) return false
    else {
      this.#restedMs = nowMs
      this.#dueMs = nowMs + AGAIN_MS
    }
    return true
  }

  #hasRested(nowMs: number): void {
    this.#slowestMs = 0
    this.#restedMs = nowMs
    this.#dueMs = nowMs + REST_EVERY_MS
  }

  get #restMs(): number {
    return Math.max(LEAST_REST_MS, this.#slowestMs)
  }
}
