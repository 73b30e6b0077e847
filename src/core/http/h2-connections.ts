/** Watches HTTP/2 connections: no option of Node ends those that are idle or slow, or that flood. */
import { constants, type ServerHttp2Session } from 'node:http2'
import type { Socket } from 'node:net'
import type { Config } from '../../config/config.ts'
import { allowedBytes, type Http2Abuse } from '../rules/http2-abuse.ts'
import type { Connections, ConnectionState, Entry, InFlight } from './connections.ts'
import { StreamRequest, type Carrier } from './h2-stream.ts'
import { isWriting, readOn, stopReading } from './node-internals.ts'
import { Share, type SharedTurn, type Sharer } from './shared-turn.ts'

/** isEnd: the abuse ended the connection. */
export type OnAbuse = (kind: Http2Abuse, entry: Entry, isEnd: boolean) => void

const LOOK_EVERY_MS = 250
/** Time between the last frame on a connection and its end. */
const LINGER_MS = 1_000
const CLOSE_DELAY_MS = 50
/** Resets that a client may send at once: a page may cancel all its requests, twice. */
export const TAKEN_BACK_AT_ONCE = 200
export const TAKEN_BACK_A_SECOND = 20
/** Limit of unsent answer bytes of all clients together. */
const MAX_UNSENT_BYTES = 128 * 1024 * 1024

const CALM_DOWN = new Error('ended for abuse')

/** Starts the streams of one connection as requests, as the shared turn allows. */
export class Http2Connection<Request extends InFlight = InFlight> implements Carrier, Sharer {
  readonly entry: Entry
  readonly session: ServerHttp2Session
  /** The socket itself; `session.socket` throws once the session has ended. */
  readonly socket: Socket
  readonly state: ConnectionState<Request>
  readonly share: Share
  readonly startedMs = performance.now()
  /** Number of requests begun; `bodies` counts those with a body. */
  streams = 0
  bodies = 0
  bodyBytes = 0
  /** Time at which a look last found a request under way. Http2Connections alone writes this and endedMs. */
  busyMs = this.startedMs
  /** Time at which its last frame was sent; undefined: it is open. */
  endedMs: number | undefined
  /** Reading could not resume because a write was under way. */
  isHeldUp = false
  /** Requests that are parsed but have not begun. */
  readonly #parsed: StreamRequest[] = []
  readonly #watch: Http2Connections
  readonly #begin: (request: StreamRequest) => void

  constructor(watch: Http2Connections, { begin, ...parts }: ConnectionParts<Request>) {
    this.entry = parts.entry
    this.session = parts.session
    this.socket = parts.socket
    this.state = parts.state
    this.share = new Share(watch.turn)
    this.#watch = watch
    this.#begin = begin
  }

  get proto(): 'http' | 'https' {
    return this.entry.proto
  }

  get isKnown(): boolean {
    return this.state.isKnown
  }

  /** The peer is a trusted proxy, which serves many clients: abuse by one must not end the requests of others. */
  get isShared(): boolean {
    return this.entry.addressKey === undefined
  }

  /** Starts a request, or lets it wait for its turn. */
  arrived(request: StreamRequest): void {
    const { turn } = this.#watch
    if (this.#parsed.length === 0 && turn.mayBegin(this.share)) return this.#beginNow(request)
    this.#parsed.push(request)
    turn.parsed(this.share, 1)
    turn.wait(this)
  }

  goOn(): void {
    const { turn } = this.#watch
    while (turn.mayBegin(this.share)) {
      const request = this.#parsed.shift()
      if (request === undefined) return
      turn.parsed(this.share, -1)
      this.#beginNow(request)
    }
    if (this.#parsed.length > 0) turn.wait(this)
  }

  #beginNow(request: StreamRequest): void {
    // The client has reset the stream before its request began.
    if (request.stream.closed || request.destroyed)
      return this.#watch.events.abuse('reset', this.entry, false)
    this.#watch.turn.began(this.share)
    this.streams += 1
    if (request.bodyFollows) this.bodies += 1
    this.#begin(request)
  }

  stopReading(): void {
    stopReading(this.socket)
  }

  readOn(): void {
    this.isHeldUp = isWriting(this.socket)
    if (!this.isHeldUp) readOn(this.socket)
  }

  took(request: StreamRequest, bytes: number): void {
    this.bodyBytes += bytes
    this.#watch.turn.took(bytes)
    const share = this.isShared ? (request.share ??= new Share(this.#watch.turn)) : this.share
    if (share.take(bytes)) return
    if (this.isShared) this.#watch.events.inPieces(request)
    else this.#watch.endFor('flood', this)
  }

  leave(): void {
    this.#watch.refused(this)
  }
}

type ConnectionParts<Request extends InFlight> = Pick<
  Http2Connection<Request>,
  'entry' | 'session' | 'socket' | 'state'
> & { begin(request: StreamRequest): void }

export interface Http2WatchEvents {
  readonly abuse: OnAbuse
  /** The body of a request comes in pieces that are too small. */
  inPieces(request: StreamRequest): void
}

export class Http2Connections {
  readonly all = new Set<Http2Connection>()
  readonly turn: SharedTurn
  readonly events: Http2WatchEvents
  /** The settings also apply to existing connections. */
  server: Pick<Config['server'], 'limits' | 'timeouts'>
  readonly #inFlight: readonly InFlight[]
  readonly #timer: NodeJS.Timeout

  constructor(
    server: Pick<Config['server'], 'limits' | 'timeouts'>,
    { inFlight, turn }: Pick<Connections<InFlight>, 'inFlight' | 'turn'>,
    events: Http2WatchEvents,
  ) {
    this.server = server
    this.turn = turn
    this.#inFlight = inFlight
    this.events = events
    this.#timer = setInterval(() => this.#look(performance.now()), LOOK_EVERY_MS).unref()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  add(connection: Http2Connection): void {
    this.all.add(connection)
    this.turn.enter(connection)
    connection.entry.transport.once('close', () => {
      this.all.delete(connection)
      this.turn.leave(connection)
    })
  }

  /** Refuses new requests on all connections; those under way finish. */
  leave(): void {
    for (const { session } of this.all) session.close()
  }

  /** Destroys all connections after a delay: the last answers must still be written. */
  destroy(): void {
    this.leave()
    for (const { entry } of this.all) setTimeout(() => entry.transport.destroy(), CLOSE_DELAY_MS)
  }

  /** Ends a connection for abuse. */
  endFor(kind: Http2Abuse, connection: Http2Connection): void {
    if (connection.endedMs !== undefined) return
    connection.endedMs = performance.now()
    connection.session.destroy(CALM_DOWN, constants.NGHTTP2_ENHANCE_YOUR_CALM)
    this.events.abuse(kind, connection.entry, true)
  }

  /** Refuses new requests on a connection, after too many were refused; those under way finish. */
  refused({ session, entry }: Http2Connection): void {
    if (session.closed || session.destroyed) return
    session.close()
    this.events.abuse('refused', entry, false)
  }

  #look(nowMs: number): void {
    for (const connection of this.all) this.#lookAt(connection, nowMs)
    let heldBytes = 0
    for (const { request, response } of this.#inFlight)
      if (request instanceof StreamRequest) heldBytes += response.writableLength
    if (heldBytes > MAX_UNSENT_BYTES) this.#endLargestHolder()
  }

  /** Ends the connection with the most unsent bytes, or, behind trusted proxies, the requests of the client with the most. */
  #endLargestHolder(): void {
    const held = new Map<Http2Connection | string, number>()
    for (const one of this.#inFlight) {
      const holder = holderOf(one)
      if (holder !== undefined)
        held.set(holder, (held.get(holder) ?? 0) + one.response.writableLength)
    }
    const [most] = [...held].reduce((a, b) => (b[1] > a[1] ? b : a))
    if (typeof most !== 'string') return this.endFor('held', most)
    const theirs = this.#inFlight.filter((one) => holderOf(one) === most)
    for (const { request, response } of theirs) {
      this.events.abuse(
        'held',
        ((request as StreamRequest).carrier as Http2Connection).entry,
        false,
      )
      response.destroy()
    }
  }

  #lookAt(connection: Http2Connection, nowMs: number): void {
    const { session, entry, state, share, endedMs, streams } = connection
    if (endedMs !== undefined) {
      // A peer that does not read would keep the connection open.
      if (nowMs - endedMs >= LINGER_MS) entry.transport.destroy()
      return
    }
    if (connection.isHeldUp) connection.readOn()
    const mayBeTakenBack =
      TAKEN_BACK_AT_ONCE + (TAKEN_BACK_A_SECOND * (nowMs - connection.startedMs)) / 1000
    if (!connection.isShared) {
      if (this.#isFlood(connection, nowMs)) return this.endFor('flood', connection)
      // This includes frames that make the gateway reset streams, which Node's own limit does not count.
      if (state.brokenOff > mayBeTakenBack) return this.endFor('reset', connection)
    }
    if (state.pending + share.parsed > 0) {
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

/** Returns the connection or client address that an HTTP/2 answer waits for; undefined: it is not HTTP/2. */
function holderOf({ request, addressKey }: InFlight): Http2Connection | string | undefined {
  if (!(request instanceof StreamRequest)) return undefined
  const connection = request.carrier as Http2Connection
  return connection.isShared ? addressKey : connection
}
