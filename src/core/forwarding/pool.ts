/**
 * The pool holds a limited number of connections to one backend. A connection rests for a turn of the event loop after each
 * answer, and sometimes longer: an unannounced close or surplus bytes then show before the next request.
 */
import type { Backend } from '../backends/backend.ts'
import { clockTickMs, type CoarseClock } from '../backends/coarse-clock.ts'
import { TurnStage } from '../http/turn-stages.ts'
import type { Attempt } from './attempt.ts'
import { fault, type Connection } from './connection.ts'
import type { Rests } from './connection-life.ts'
import type { EngineOptions } from './engine.ts'

/** Idle connections are closed this much earlier than the backend announced. */
const KEEP_ALIVE_MARGIN_MS = 1_000

/** For this long after a reused connection was found closed, requests avoid connections that may be closed as well. */
const NO_REPEAT_MS = 1_000

/** A connection free for this long is preferred. A request that cannot be repeated takes a younger one only where no more may be opened. */
const TRUSTED_AFTER_MS = 10

export class ConnectionPool {
  readonly backend: Backend
  /** The last TLS session, which new connections resume. */
  session: Buffer | undefined
  readonly clock: CoarseClock
  readonly #options: EngineOptions
  readonly rests: Rests
  readonly #open: Connection[] = []
  /** Connections that have rested, in the order in which their rests ended. */
  readonly #idle: Connection[] = []
  #waiting: Attempt[] = []
  #freed: Connection[] = []
  /** Connections that became free in the previous turn. */
  #resting: Connection[] = []
  #turnDue = false
  #isClosed = false
  /** The time on the clock until which no request counts on being repeated. */
  #noRepeatUntilMs = 0

  constructor(backend: Backend, options: EngineOptions, rests: Rests, clock: CoarseClock) {
    this.backend = backend
    this.#options = options
    this.rests = rests
    this.clock = clock
  }

  /** Gives the attempt a connection at the end of this turn, or as soon as there is one: its onReady follows, or its onError when none can be made. */
  take(waiting: Attempt): void {
    this.#waiting.push(waiting)
    this.#actSoon()
  }

  onConnected(connection: Connection): void {
    const waiting = connection.user
    if (waiting !== undefined && !waiting.settled) return connection.start(waiting)
    connection.user = undefined
    this.onFree(connection)
  }

  onFree(connection: Connection): void {
    const { life, keepAliveSeconds = Infinity } = connection
    const nowMs = performance.now()
    const restMs = life.end(nowMs)
    const announcedMs = keepAliveSeconds * 1_000 - KEEP_ALIVE_MARGIN_MS
    const keptMs = Math.min(announcedMs, this.#options.timeouts.idleMs, life.retiresMs - nowMs)
    if (keptMs <= 0 || restMs === Infinity || this.#isClosed) return connection.close()
    connection.deadlineMs = this.clock.nowMs + keptMs
    if (restMs === 0) return this.#restTurn(connection)
    setTimeout(() => {
      if (!connection.closed && life.rested()) this.#restTurn(connection)
      else connection.close()
    }, restMs)
  }

  #restTurn(connection: Connection): void {
    this.#freed.push(connection)
    this.#actSoon()
  }

  /** A reused connection was closed before any byte of the answer. */
  onStale(): void {
    this.#noRepeatUntilMs = this.clock.nowMs + NO_REPEAT_MS
  }

  onClosed(connection: Connection): void {
    remove(this.#open, connection)
    for (const free of [this.#idle, this.#resting, this.#freed]) remove(free, connection)
    if (this.#waiting.length > 0) this.#actSoon()
  }

  /** Ends what is overdue at nowMs on the clock; returns whether the clock is still needed. */
  tick(nowMs: number): boolean {
    if (this.#waiting.length > 0) {
      for (const waiting of this.#waiting.slice()) waiting.onTick(nowMs)
      this.#waiting = this.#waiting.filter(({ settled }) => !settled)
    }
    for (const connection of this.#open.slice()) {
      const { connected, user } = connection
      // Its client has left: until the backend takes it, it would keep the place of a connection for others.
      if (!connected && user?.settled === true) connection.close()
      else if (nowMs < connection.deadlineMs) user?.onTick(nowMs)
      else if (connected) connection.close()
      else
        connection.lose(fault('ECONNECT_TIMEOUT', 'no connection within upstream.timeouts.connect'))
    }
    return this.#open.length > 0 || this.#waiting.length > 0
  }

  /** Closes idle connections, and each other one at the end of its answer. */
  close(): void {
    this.#isClosed = true
    for (const connection of this.#open.slice())
      if (connection.user === undefined || connection.user.settled) connection.close()
  }

  #connect(waiting: Attempt): void {
    const connection = waiting.connect()
    connection.user = waiting
    connection.deadlineMs = this.clock.nowMs + this.#options.timeouts.connectMs + clockTickMs
    this.#open.push(connection)
    this.clock.start()
  }

  /** Decides whether to open a connection: a request that can be repeated waits for a resting one if one is left for it. */
  #mayOpen(mayRepeat: boolean): boolean {
    if (this.#open.length >= this.#options.connections) return false
    return !mayRepeat || this.#freed.length + this.#resting.length <= this.#waiting.length
  }

  #takeIdle(mayRepeat: boolean): Connection | undefined {
    const idle = this.#idle
    const longestFree = idle[0]
    if (longestFree === undefined || (mayRepeat && idle.length === 1)) return idle.pop()
    const latestMs = performance.now() - TRUSTED_AFTER_MS
    if (longestFree.life.freeSinceMs <= latestMs) {
      const at = idle.findLastIndex(({ life }) => life.freeSinceMs <= latestMs)
      return idle.splice(at, 1)[0]
    }
    return mayRepeat || this.#open.length >= this.#options.connections ? idle.shift() : undefined
  }

  #actSoon(): void {
    if (this.#turnDue) return
    this.#turnDue = true
    sendRequests.add(this)
  }

  /** Hands out connections after this turn's reads: surplus bytes or an end have shown by now. */
  endTurn(): void {
    this.#turnDue = false
    for (const rested of this.#resting) this.#idle.push(rested)
    this.#resting = this.#freed
    this.#freed = []
    if (this.#resting.length > 0) this.#actSoon()
    const waiting = this.#waiting
    this.#waiting = []
    for (const attempt of waiting)
      if (!attempt.settled && !this.#serve(attempt)) this.#waiting.push(attempt)
  }

  /** Returns false if the attempt has to wait. */
  #serve(attempt: Attempt): boolean {
    const mayRepeat = attempt.mayRepeat && this.clock.nowMs >= this.#noRepeatUntilMs
    const idle = this.#takeIdle(mayRepeat)
    if (idle !== undefined) idle.start(attempt)
    else if (this.#mayOpen(mayRepeat)) this.#connect(attempt)
    else return false
    return true
  }
}

const sendRequests = new TurnStage<ConnectionPool>('send requests', (pool) => pool.endTurn())

function remove<Item>(items: Item[], item: Item): void {
  const at = items.lastIndexOf(item)
  if (at >= 0) items.splice(at, 1)
}
