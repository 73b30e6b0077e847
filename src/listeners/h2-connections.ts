/** Watches connections of HTTP/2: no option of Node's ends those that are idle or slow, or that send anything but requests. */
import { constants, type ServerHttp2Session } from 'node:http2'
import type { Socket } from 'node:net'
import type { Config } from '../config/config.ts'
import { allowedBytes, type Http2Abuse } from '../rules/http2-abuse.ts'
import type { ConnectionState, Entry, InFlight } from './connections.ts'
import { StreamRequest, type Carrier } from './h2-stream.ts'

/** isEnd: the connection was ended for it. */
export type OnAbuse = (kind: Http2Abuse, entry: Entry, isEnd: boolean) => void

const LOOK_EVERY_MS = 250
/** Between the last word on a connection and its end. */
const LINGER_MS = 1_000
const LAST_WORDS_MS = 50
/** Requests that may be taken back: a page does so with all it has asked for, twice. */
export const TAKEN_BACK_AT_ONCE = 200
export const TAKEN_BACK_A_SECOND = 20
/** Of answers that all clients together have not taken yet. */
const HELD_AT_MOST_BYTES = 128 * 1024 * 1024

const CALM_DOWN = new Error('ended for abuse')

export class Http2Connection<Request extends InFlight = InFlight> implements Carrier {
  readonly entry: Entry
  readonly session: ServerHttp2Session
  /** Not `session.socket`, which throws once the session has ended. */
  readonly socket: Socket
  readonly state: ConnectionState<Request>
  readonly startedMs = performance.now()
  /** Requests begun; of them with a body. */
  streams = 0
  bodies = 0
  bodyBytes = 0
  /** Of answers that wait for its client, at the last look. Written by Http2Connections alone, as the next two. */
  heldBytes = 0
  /** When it was last seen with a request under way. */
  busyMs = this.startedMs
  /** When its last word was said. */
  endedMs: number | undefined
  readonly #watch: Http2Connections

  constructor(
    watch: Http2Connections,
    {
      entry,
      session,
      socket,
      state,
    }: Pick<Http2Connection<Request>, 'entry' | 'session' | 'socket' | 'state'>,
  ) {
    this.entry = entry
    this.session = session
    this.socket = socket
    this.state = state
    this.#watch = watch
  }

  get proto(): 'http' | 'https' {
    return this.entry.proto
  }

  leave(): void {
    this.#watch.refused(this)
  }
}

export class Http2Connections {
  readonly all = new Set<Http2Connection>()
  /** Also of connections that there are already. */
  server: Pick<Config['server'], 'limits' | 'timeouts'>
  readonly #inFlight: readonly InFlight[]
  readonly #onAbuse: OnAbuse
  readonly #timer: NodeJS.Timeout

  constructor(
    server: Pick<Config['server'], 'limits' | 'timeouts'>,
    inFlight: readonly InFlight[],
    onAbuse: OnAbuse,
  ) {
    this.server = server
    this.#inFlight = inFlight
    this.#onAbuse = onAbuse
    this.#timer = setInterval(() => this.#look(performance.now()), LOOK_EVERY_MS).unref()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  add(connection: Http2Connection): void {
    this.all.add(connection)
    connection.entry.transport.once('close', () => this.all.delete(connection))
  }

  /** Lets what is under way finish everywhere, and takes nothing new. */
  leave(): void {
    for (const { session } of this.all) session.close()
  }

  /** What was answered just now has yet to be written. */
  destroy(): void {
    this.leave()
    for (const { entry } of this.all) setTimeout(() => entry.transport.destroy(), LAST_WORDS_MS)
  }

  /** Ends a connection for what was done on it. */
  endFor(kind: Http2Abuse, connection: Http2Connection): void {
    if (connection.endedMs !== undefined) return
    connection.endedMs = performance.now()
    connection.session.destroy(CALM_DOWN, constants.NGHTTP2_ENHANCE_YOUR_CALM)
    this.#onAbuse(kind, connection.entry, true)
  }

  /** Lets what is under way on it finish, and takes nothing new. */
  refused({ session, entry }: Http2Connection): void {
    if (session.closed || session.destroyed) return
    session.close()
    this.#onAbuse('refused', entry, false)
  }

  #look(nowMs: number): void {
    for (const connection of this.all) {
      connection.heldBytes = 0
      this.#lookAt(connection, nowMs)
    }
    let heldBytes = 0
    let most: Http2Connection | undefined
    for (const { request, response } of this.#inFlight) {
      if (!(request instanceof StreamRequest)) continue
      const connection = request.carrier as Http2Connection
      heldBytes += response.writableLength
      connection.heldBytes += response.writableLength
      if (most === undefined || connection.heldBytes > most.heldBytes) most = connection
    }
    if (heldBytes > HELD_AT_MOST_BYTES && most !== undefined) this.endFor('held', most)
  }

  #lookAt(connection: Http2Connection, nowMs: number): void {
    const { session, entry, state, endedMs, streams } = connection
    if (endedMs !== undefined) {
      // Who does not read would keep what was said last, and with it the connection.
      if (nowMs - endedMs >= LINGER_MS) entry.transport.destroy()
      return
    }
    if (this.#isFlood(connection, nowMs)) return this.endFor('flood', connection)
    const mayBeTakenBack =
      TAKEN_BACK_AT_ONCE + (TAKEN_BACK_A_SECOND * (nowMs - connection.startedMs)) / 1000
    // Also by frames that make us reset them, which Node's own bound does not count.
    if (state.brokenOff > mayBeTakenBack) return this.endFor('reset', connection)
    if (state.pending > 0) {
      connection.busyMs = nowMs
      return
    }
    const { headersMs, idleMs } = this.server.timeouts
    if (!session.closed && nowMs - connection.busyMs < (streams === 0 ? headersMs : idleMs)) return
    connection.endedMs = nowMs
    session.close()
  }

  #isFlood({ startedMs, socket, ...sums }: Http2Connection, nowMs: number): boolean {
    const { streams, bodies, bodyBytes } = sums
    const use = { ageMs: nowMs - startedMs, writtenBytes: socket.bytesWritten }
    const { headerBytes, urlBytes } = this.server.limits
    return (
      socket.bytesRead >
      allowedBytes({ ...use, streams, bodies, bodyBytes }, headerBytes + urlBytes)
    )
  }
}
