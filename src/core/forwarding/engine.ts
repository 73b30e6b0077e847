/** Engines send a request to a backend: what they are given, whom they report to, and the pools of connections that all of them have. */
import type { Readable } from 'node:stream'
import type { Backend } from '../backends/backend.ts'
import type { Balancer } from '../backends/balancer.ts'
import { CoarseClock } from '../backends/coarse-clock.ts'
import type { Config } from '../../config/config.ts'
import type { FailedAttempt } from '../rules/backend-failure.ts'
import type { Attempt } from './attempt.ts'
import { Rests } from './connection-life.ts'
import { ConnectionPool } from './pool.ts'

/** Receives the result of one attempt. The last call is exactly one of end and fail; head comes at most once before. */
export interface AttemptSink {
  /** Takes the final status and the header fields as a flat name, value array, exactly as received. 1xx answers are not passed on. Must not throw. */
  head(status: number, headers: string[]): void
  /** Takes a piece of the body; false asks the engine to pause until resume() of the attempt. */
  data(chunk: Buffer): boolean
  end(): void
  fail(failed: FailedAttempt): void
}

export interface ReceivedBody {
  readonly bytes: Buffer
  readonly isWhole: boolean
}

export interface ForwardJob {
  /** The balancer counts permits and failures by client. startedMs: performance.now(). */
  readonly clientId: string
  readonly startedMs: number
  readonly method: string
  /** Target in origin form, byte for byte as it was routed. */
  readonly target: string
  /** Header fields for the backend as a flat name, value array. Host is absent if the backend's own is to be used; of the framing fields only Content-Length is kept, when the body has a known length. */
  readonly headers: string[]
  /** The client's body behind what was received; undefined: the request has none. One without a known length is counted against bodyLimitBytes. */
  readonly body: Readable | undefined
  /** The part of the body that was read before a backend was chosen. */
  readonly received?: ReceivedBody | undefined
  readonly bodyLimitBytes: number
  readonly responseTimeoutMs: number
}

/**
 * What is set for connections: each setting of `upstream` that is not named here, so that a new one arrives by itself.
 * connections: limit per backend; a request that gets no connection within its response timeout fails as connect_timeout.
 * connectionUses, connectionAgeMs: a connection that has reached either limit is closed at the end of its answer.
 */
export type EngineOptions = Omit<
  Config['upstream'],
  'urls' | 'host' | 'tls' | 'engine' | 'balance' | 'eject' | 'health' | 'retry' | 'breaker'
>

/** Longest head of an answer, and longest trailer section. */
export const maxAnswerHeadBytes = 32 * 1024

/** What the sender of a request may do with its attempt. */
export type AttemptHandle = Pick<Attempt, 'abort' | 'resume'>

type AttemptClass<Sink extends AttemptSink> = new (
  ...parts: ConstructorParameters<typeof Attempt<Sink>>
) => Attempt<Sink>

/** Sends one request to one given backend, by an attempt of its class; chooses no backend and repeats nothing. */
export class Engine<Sink extends AttemptSink = AttemptSink> {
  readonly #attempt: AttemptClass<Sink>
  readonly #options: EngineOptions
  readonly #balancer: Balancer
  readonly #pools = new Map<Backend, ConnectionPool>()
  #isClosed = false
  readonly #clock = new CoarseClock((nowMs) =>
    Array.from(this.#pools.values(), (pool) => pool.tick(nowMs)).includes(true),
  )

  constructor(attempt: AttemptClass<Sink>, options: EngineOptions, balancer: Balancer) {
    this.#attempt = attempt
    this.#options = options
    this.#balancer = balancer
  }

  /** Never throws; the sink is called only after this call has returned. */
  send(backend: Backend, job: ForwardJob, sink: Sink): AttemptHandle {
    let pool = this.#pools.get(backend)
    if (pool === undefined) {
      const rests = new Rests(this.#options, () => this.#balancer.surplus(backend))
      pool = new ConnectionPool(backend, this.#options, rests, this.#clock)
      this.#pools.set(backend, pool)
      if (this.#isClosed) pool.close()
    }
    const attempt = new this.#attempt(job, sink, pool)
    pool.take(attempt)
    return attempt
  }

  /** Keeps no idle connection any more; requests that are under way, or still to be sent, have theirs. */
  close(): void {
    this.#isClosed = true
    for (const pool of this.#pools.values()) pool.close()
  }
}
