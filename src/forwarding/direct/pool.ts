/** The connections to one backend: the one used last is taken first, and no more than so many are open. */
import type { Backend } from '../../backends/backend.ts'
import { clockTickMs, type Http1Clock } from './clock.ts'
import { Http1Connection, type Carried, type ConnectionOwner } from './connection.ts'

/** What waits for a connection, and is then carried by it. */
export interface Waiting extends Carried {
  /** Nobody waits for it any more. */
  readonly settled: boolean
}

export interface PoolOptions {
  readonly connections: number
  readonly connectMs: number
  readonly idleMs: number
}

/** Between what the backend says it keeps an idle connection for and what is believed of it. */
const KEEP_ALIVE_MARGIN_MS = 1_000

export class Http1Pool implements ConnectionOwner {
  readonly backend: Backend
  session: Buffer | undefined
  readonly clock: Http1Clock
  readonly #options: PoolOptions
  readonly #open: Http1Connection[] = []
  readonly #idle: Http1Connection[] = []
  #waiting: Waiting[] = []
  /** Idle connections taken in this turn of the event loop, and for whom. */
  #taken: Http1Connection[] = []
  #takers: Waiting[] = []

  constructor(backend: Backend, options: PoolOptions, clock: Http1Clock) {
    this.backend = backend
    this.#options = options
    this.clock = clock
  }

  get isUnused(): boolean {
    return this.#open.length === 0 && this.#waiting.length === 0
  }

  /** onReady of what waits follows, in a later turn; onLost when no connection can be made. */
  take(waiting: Waiting): void {
    const idle = this.#idle.pop()
    if (idle !== undefined) this.#startSoon(idle, waiting)
    else if (this.#open.length < this.#options.connections) this.#connect(waiting)
    else this.#waiting.push(waiting)
  }

  onConnected(connection: Http1Connection): void {
    const waiting = connection.carried as Waiting | undefined
    if (waiting !== undefined && !waiting.settled) return connection.start(waiting)
    connection.carried = undefined
    this.onFree(connection)
  }

  onFree(connection: Http1Connection): void {
    const next = this.#nextWaiting()
    if (next !== undefined) return this.#startSoon(connection, next)
    const { idleMs } = this.#options
    const { keepAliveSeconds } = connection
    const keptMs =
      keepAliveSeconds === undefined
        ? idleMs
        : Math.min(keepAliveSeconds * 1_000 - KEEP_ALIVE_MARGIN_MS, idleMs)
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

  /** nowMs: on the clock. */
  tick(nowMs: number): void {
    if (this.#waiting.length > 0) {
      for (const waiting of this.#waiting.slice()) waiting.onTick(nowMs)
      this.#waiting = this.#waiting.filter(({ settled }) => !settled)
    }
    for (const connection of this.#open.slice()) {
      if (nowMs < connection.deadlineMs) connection.carried?.onTick(nowMs)
      else if (connection.connected) connection.close()
      else connection.lose('ECONNECT_TIMEOUT', 'no connection in time')
    }
  }

  closeAll(): void {
    for (const connection of this.#open.slice()) connection.close()
  }

  #connect(waiting: Waiting): void {
    const connection = new Http1Connection(this)
    connection.carried = waiting
    connection.deadlineMs = this.clock.nowMs + this.#options.connectMs + clockTickMs
    this.#open.push(connection)
    this.clock.start()
  }

  /**
   * A request goes out on an idle connection only after what the backend has sent unasked meanwhile, or its end, had its
   * turn of the event loop to be read: it would be taken for the answer. One immediate for all of the turn.
   */
  #startSoon(connection: Http1Connection, waiting: Waiting): void {
    this.#takers.push(waiting)
    if (this.#taken.push(connection) === 1) setImmediate(startTaken, this)
  }

  startTaken(): void {
    const taken = this.#taken
    const takers = this.#takers
    this.#taken = []
    this.#takers = []
    for (let at = 0; at < taken.length; at++) {
      const connection = taken[at]
      const waiting = takers[at]
      if (connection === undefined || waiting === undefined) continue
      if (waiting.settled) {
        if (!connection.closed) this.onFree(connection)
      } else if (connection.closed) this.take(waiting)
      else connection.start(waiting)
    }
  }

  #nextWaiting(): Waiting | undefined {
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
