/**
 * A client's HTTP/2 connection (RFC 9113): each of its streams is a request, which begins as the shared turn allows. No option of
 * Node ends connections that are idle or slow, or that flood.
 */
import {
  constants,
  performServerHandshake,
  type ServerHttp2Session,
  type ServerOptions,
} from 'node:http2'
import type { Socket } from 'node:net'
import type { Config } from '../../config/config.ts'
import { allowedBytes, type Http2Abuse } from '../rules/http2-abuse.ts'
import type { Exchange } from '../pipeline/exchange.ts'
import type { ClientConnection, ProtocolConnection } from './connections.ts'
import { StreamRequest, StreamResponse } from './h2-stream.ts'
import { endHandOver, isWriting, outliveFaults, readOn, stopReading } from './node-internals.ts'
import type { ServerEvents, ServerParts } from './server-parts.ts'
import { beginRequests, IN_PIECES, OWN_REQUESTS, Share } from './shared-turn.ts'

/** Time between the last frame on a connection and its end. */
const LINGER_MS = 1_000
const CLOSE_DELAY_MS = 50
/** Resets that a client may send at once: a page may cancel all its requests, twice. */
const TAKEN_BACK_AT_ONCE = 200
const TAKEN_BACK_A_SECOND = 20
/** Limit of unsent answer bytes of all clients together. */
const MAX_UNSENT_BYTES = 128 * 1024 * 1024

const CALM_DOWN = new Error('ended for abuse')

export class Http2Connection implements ProtocolConnection {
  readonly client: ClientConnection
  readonly session: ServerHttp2Session
  /** The socket itself; `session.socket` throws once the session has ended. */
  readonly socket: Socket
  readonly share = new Share()
  readonly #parts: ServerParts
  readonly #startedMs = performance.now()
  readonly #use = { streams: 0, bodies: 0, bodyBytes: 0 }
  /** Time at which a look last found a request under way. */
  #busyMs = this.#startedMs
  /** Time at which its last frame was sent; undefined: it is open. */
  #endedMs: number | undefined
  /** Reading could not resume because a write was under way. */
  #isHeldUp = false
  readonly #parsed: StreamRequest[] = []

  constructor(socket: Socket, client: ClientConnection, parts: ServerParts) {
    this.client = client
    this.socket = socket
    this.#parts = parts
    // A connection may fail while it is being closed.
    socket.on('error', () => {})
    const { limits } = parts.config
    const session = performServerHandshake(socket, optionsOf(limits, this.isShared))
    this.session = session
    endHandOver(session, socket)
    if (this.isShared) outliveFaults(session)
    session.on('stream', (stream, _headers, _flags, rawHeaders: readonly string[]) => {
      // An error without a listener ends the process.
      stream.on('error', () => {})
      this.#arrived(new StreamRequest(stream, this, rawHeaders))
    })
    session.on('error', ({ code }: NodeJS.ErrnoException) => {
      // Frames that the peer sent have these codes; a lost or aborted connection is no abuse.
      if (code === 'ERR_HTTP2_ERROR' || code === 'ERR_HTTP2_TOO_MANY_INVALID_FRAMES')
        this.endFor('frames')
    })
    // A peer that has ended its side may still read.
    socket.once('end', () => session.close())
    const { turn } = parts.connections
    turn.enter(this)
    client.transport.once('close', () => {
      turn.leave(this)
      this.#parsed.length = 0
    })
  }

  /** The peer is a trusted proxy, which serves many clients: abuse by one must not end the requests of others. */
  get isShared(): boolean {
    return this.client.addressKey === undefined
  }

  #arrived(request: StreamRequest): void {
    const { turn } = this.#parts.connections
    this.#parsed.push(request)
    turn.parsed(this.share, 1)
    if (this.#parsed.length === 1) beginRequests.add(this)
    // More than begin in this turn and the next.
    if (this.#parsed.length >= 2 * OWN_REQUESTS || turn.isCrowded) turn.wait(this)
  }

  goOn(): void {
    const { turn } = this.#parts.connections
    while (turn.mayBegin(this.share)) {
      const request = this.#parsed.shift()
      if (request === undefined) return
      turn.parsed(this.share, -1)
      this.#begin(request)
    }
    if (this.#parsed.length > 0) turn.wait(this)
  }

  #begin(request: StreamRequest): void {
    const { events, connections } = this.#parts
    const { turn } = connections
    // The client has reset the stream before its request began.
    if (request.body.closed || request.body.destroyed) {
      this.client.brokenOff += 1
      if (this.#endedMs === undefined) events.abuse('reset')
      return
    }
    turn.began(this.share)
    this.#use.streams += 1
    if (request.bodyFollows) this.#use.bodies += 1
    events.request(request, new StreamResponse(request), this.client)
  }

  stopReading(): void {
    stopReading(this.socket)
  }

  readOn(): void {
    this.#isHeldUp = isWriting(this.socket)
    if (!this.#isHeldUp) readOn(this.socket)
  }

  /** A piece of the body of one of its requests has come. */
  took(request: StreamRequest, bytes: number): void {
    const { events, connections } = this.#parts
    this.#use.bodyBytes += bytes
    const share = this.isShared ? (request.share ??= new Share()) : this.share
    if (connections.turn.take(share, bytes)) return
    if (!this.isShared) this.endFor('flood')
    else if (this.#parsed.includes(request)) request.destroy()
    else events.broken(request, IN_PIECES)
  }

  /** Refuses new requests, after too many were refused; those under way finish. */
  leave(): void {
    if (this.session.closed || this.session.destroyed) return
    this.session.close()
    this.#parts.events.abuse('refused')
  }

  closeIdle(): void {
    this.session.close()
  }

  /** Destroys the connection after a delay: the last answers must still be written. */
  destroy(): void {
    this.session.close()
    setTimeout(() => this.client.transport.destroy(), CLOSE_DELAY_MS)
  }

  endFor(kind: Http2Abuse): void {
    if (this.#endedMs !== undefined) return
    this.#endedMs = performance.now()
    this.session.destroy(CALM_DOWN, constants.NGHTTP2_ENHANCE_YOUR_CALM)
    this.#parts.events.abuse(kind)
    const { addressKey } = this.client
    if (addressKey !== undefined) this.#parts.penalties.add(addressKey, this.#endedMs)
  }

  onLook(nowMs: number): void {
    const { session, client } = this
    if (this.#endedMs !== undefined) {
      // A peer that does not read would keep the connection open.
      if (nowMs - this.#endedMs >= LINGER_MS) client.transport.destroy()
      return
    }
    if (this.#isHeldUp) this.readOn()
    const mayBeTakenBack =
      TAKEN_BACK_AT_ONCE + (TAKEN_BACK_A_SECOND * (nowMs - this.#startedMs)) / 1000
    if (!this.isShared) {
      if (this.#isFlood(nowMs)) return this.endFor('flood')
      // This includes frames that make the gateway reset streams, which Node's own limit does not count.
      if (client.brokenOff > mayBeTakenBack) return this.endFor('reset')
    }
    if (client.pending + this.share.parsed > 0) {
      this.#busyMs = nowMs
      return
    }
    const { headersMs, idleMs } = this.#parts.config.timeouts
    const waitMs = this.#use.streams === 0 ? headersMs : idleMs
    if (!session.closed && nowMs - this.#busyMs < waitMs) return
    this.#endedMs = nowMs
    session.close()
  }

  #isFlood(nowMs: number): boolean {
    const { headerBytes, urlBytes } = this.#parts.config.limits
    const { bytesRead, bytesWritten } = this.socket
    const use = { ...this.#use, ageMs: nowMs - this.#startedMs, writtenBytes: bytesWritten }
    return bytesRead > allowedBytes(use, headerBytes + urlBytes)
  }
}

/**
 * Ends the connection with the most unsent bytes, or, behind trusted proxies, the requests of the client with the most, where
 * the answers of all clients together have too many. Must be called several times a second.
 */
export function boundUnsent(inFlight: readonly Exchange[], events: ServerEvents): void {
  const held = new Map<Http2Connection | string, number>()
  let heldBytes = 0
  for (const one of inFlight) {
    const holder = holderOf(one)
    if (holder === undefined) continue
    heldBytes += one.response.writableLength
    held.set(holder, (held.get(holder) ?? 0) + one.response.writableLength)
  }
  if (heldBytes <= MAX_UNSENT_BYTES) return
  const [most] = [...held].reduce((a, b) => (b[1] > a[1] ? b : a))
  if (typeof most !== 'string') return most.endFor('held')
  for (const { response } of inFlight.filter((one) => holderOf(one) === most)) {
    events.abuse('held')
    response.destroy()
  }
}

/** Returns the connection or client address that an HTTP/2 answer waits for; undefined: it is not HTTP/2. */
function holderOf({ sender, connection }: Exchange): Http2Connection | string | undefined {
  const { protocol } = connection
  if (!(protocol instanceof Http2Connection)) return undefined
  return protocol.isShared ? sender.key : protocol
}

/** Pings, windows and memory keep Node's defaults: onLook() ends floods. */
function optionsOf(limits: Config['server']['limits'], isShared: boolean): ServerOptions {
  return {
    settings: {
      maxConcurrentStreams: 100,
      // Clients see this limit but may exceed it: the gateway's own count comes first and refuses with 431.
      maxHeaderListSize: limits.headerBytes + limits.urlBytes + 8 * 1024,
    },
    maxHeaderListPairs: 2 * limits.headerCount + 8,
    maxSettings: 16,
    // Otherwise two ETag fields of a backend would throw.
    strictSingleValueFields: false,
    // Node counts faults per connection only: where many clients share one, none of them may end it.
    streamResetBurst: isShared ? MANY : TAKEN_BACK_AT_ONCE,
    streamResetRate: isShared ? MANY : TAKEN_BACK_A_SECOND,
    maxSessionInvalidFrames: isShared ? MANY : 50,
    maxSessionRejectedStreams: isShared ? MANY : 20,
  }
}

const MANY = 2 ** 32 - 1
