/** The connections to one backend: the one used last is taken first, and no more than so many are open. */
import type { Backend } from '../../backends/backend.ts'
import type { EngineOptions } from '../engine.ts'
import { clockTickMs, type Http1Clock } from './clock.ts'
import { Http1Connection, type Carried, type ConnectionOwner } from './connection.ts'

/** Between what the backend says it keeps an idle connection for and what is believed of it. */
const KEEP_ALIVE_MARGIN_MS = 1_000

export class Http1Pool implements ConnectionOwner {
  readonly backend: Backend
  session: Buffer | undefined
  readonly clock: Http1Clock
  readonly #options: EngineOptions
  readonly #open: Http1Connection[] = []
  readonly #idle: Http1Connection[] = []
  #waiting: Carried[] = []
  /** In this turn of the event loop. */
  #taken: Http1Connection[] = []

  constructor(backend: Backend, options: EngineOptions, clock: Http1Clock) {
    this.backend = backend
    this.#options = options
    this.clock = clock
  }

  /** onReady of what waits follows, in a later turn; onLost when no connection can be made. */
  take(waiting: Carried): void {
    const idle = this.#idle.pop()
    if (idle !== undefined) this.#startSoon(idle, waiting)
    else if (this.#open.length < this.#options.connections) this.#connect(waiting)
    else this.#waiting.push(waiting)
  }

  onConnected(connection: Http1Connection): void {
    const waiting = connection.carried
    if (waiting !== undefined && !waiting.settled) return connection.start(waiting)
    connection.carried = undefined
    this.onFree(connection)
  }

  onFree(connection: Http1Connection): void {
    const next = this.#nextWaiting()
    if (next !== undefined) return this.#startSoon(connection, next)
    const toldMs = (connection.keepAliveSeconds ?? Infinity) * 1_000 - KEEP_ALIVE_MARGIN_MS
    const keptMs = Math.min(toldMs, this.#options.timeouts.idleMs)
    if (keptMs <= 0) return connection.close()
    connection.deadlineMs = this.clock.nowMs + keptMs
    this.#idle.push(connection)
  }

  onClosed(connection: Http1Connection): void {
    remove(this.#open, connection)
    remove(this.#idle, connection)
    const next = this.#nextWaiting()
    if (next !== undefined) this.#connect(next)
  }

  /** nowMs: on the clock. Answers whether it is needed any longer. */
  tick(nowMs: number): boolean {
    if (this.#waiting.length > 0) {
      for (const waiting of this.#waiting.slice()) waiting.onTick(nowMs)
      this.#waiting = this.#waiting.filter(({ settled }) => !settled)
    }
    for (const connection of this.#open.slice()) {
      if (nowMs < connection.deadlineMs) connection.carried?.onTick(nowMs)
      else if (connection.connected) connection.close()
      else connection.lose('ECONNECT_TIMEOUT', 'no connection in time')
    }
    return this.#open.length > 0 || this.#waiting.length > 0
  }

  closeAll(): void {
    for (const connection of this.#open.slice()) connection.close()
  }

  #connect(waiting: Carried): void {
    const connection = new Http1Connection(this)
    connection.carried = waiting
    connection.deadlineMs = this.clock.nowMs + this.#options.timeouts.connectMs + clockTickMs
    this.#open.push(connection)
    this.clock.start()
  }

  /**
   * A request goes out on an idle connection only after what the backend has sent unasked meanwhile, or its end, had its
   * turn of the event loop to be read: it would be taken for the answer. One immediate for all of the turn.
   */
  #startSoon(connection: Http1Connection, waiting: Carried): void {
    connection.takenFor = waiting
    if (this.#taken.push(connection) === 1) setImmediate(startTaken, this)
  }

  startTaken(): void {
    const taken = this.#taken
    this.#taken = []
    for (const connection of taken) {
      const waiting = connection.takenFor
      connection.takenFor = undefined
      if (waiting === undefined) continue
      if (waiting.settled) {
        if (!connection.closed) this.onFree(connection)
      } else if (connection.closed) this.take(waiting)
      else connection.start(waiting)
    }
  }

  #nextWaiting(): Carried | undefined {
    for (;;) {
      const next = this.#waiting.shift()
      if (next === undefined || !next.settled) return next
    }
  }
}

const startTaken = (pool: Http1Pool): void => pool.startTaken()

function remove<Item>(items: Item[], item: Item): void {
  const at = items.lastIndexOf(item)
  if (at >= 0) items.splice(at, 1)
}
