/** A tunnel passes the bytes of a WebSocket unchanged until the client, the backend or the gateway ends it. */
import { randomBytes } from 'node:crypto'
import type { Duplex } from 'node:stream'
import { closeFrame, FrameTracker } from '../http/websocket-frames.ts'
import type { Caller } from '../rules/credentials.ts'
import { ownEnds, type OwnEnd, type TunnelEnd } from '../rules/websocket.ts'

/** Time for the rest of the traffic after the backend or the gateway has ended the tunnel. */
const CLOSING_MS = 5_000
/** Time after the client has ended its connection: nobody receives what the backend still sends. */
const CLIENT_LEFT_MS = 1_000
/** Time after one side has sent a close frame: the other side's data is still delivered. */
const CLOSE_FRAME_MS = 30_000

class Direction {
  readonly from: Duplex
  readonly #to: Duplex
  readonly frames = new FrameTracker()
  /** The close frame that the gateway sends to `to` instead of further frames; undefined: the tunnel is open. */
  #lastFrame: Buffer | undefined
  #isLastFrameSent = false

  constructor(from: Duplex, to: Duplex) {
    this.from = from
    this.#to = to
    to.on('drain', () => from.resume())
  }

  /** A close frame has gone to `to`, from `from` or from the gateway. */
  get isOver(): boolean {
    return this.#isLastFrameSent || this.frames.isClosed
  }

  pass(chunk: Buffer): void {
    // Frames behind the gateway's close frame are read only to find the close frame that answers it.
    if (this.#isLastFrameSent) return this.frames.advance(chunk)
    let passed = chunk
    if (this.#lastFrame === undefined) this.frames.advance(chunk)
    else passed = chunk.subarray(0, this.frames.readFrame(chunk))
    this.#write(passed)
    if (this.#lastFrame !== undefined) this.end(this.#lastFrame)
    if (passed.length < chunk.length) this.pass(chunk.subarray(passed.length))
  }

  /** Sends the gateway's close frame: at once between two frames, otherwise when the current one has ended. */
  end(lastFrame: Buffer): void {
    this.#lastFrame = lastFrame
    if (this.isOver || !this.frames.isAtBoundary) return
    this.#isLastFrameSent = true
    this.#write(lastFrame)
    this.from.resume()
  }

  #write(bytes: Buffer): void {
    if (this.#to.writable && !this.#to.write(bytes)) this.from.pause()
  }
}

export interface TunnelClient {
  readonly socket: Duplex
  readonly caller: Caller
  /** The tunnel ends; called once, before the client's side is closed. */
  ended(end: TunnelEnd): void
}

class Tunnel {
  readonly #client: TunnelClient
  /** Longest silence. */
  readonly #idleMs: number
  readonly #toBackend: Direction
  readonly #toClient: Direction
  readonly #closed = Promise.withResolvers<undefined>()
  /** Resolves when both sides are closed. Neither side outlives the other, even if one stays half open. */
  readonly closed = this.#closed.promise
  /** Names who ended the tunnel first. Written by #ends. */
  #end: TunnelEnd | undefined
  /** Bytes have come since the last review. */
  #isActive = true
  /** The performance.now() of the last review that found activity. */
  #activeMs = 0
  /** The performance.now() at which both sides are destroyed. */
  #cutAtMs = Infinity

  constructor(client: TunnelClient, backend: Duplex, idleMs: number) {
    const { socket } = client
    this.#client = client
    this.#idleMs = idleMs
    this.#toBackend = new Direction(socket, backend)
    this.#toClient = new Direction(backend, socket)
    backend.on('error', () => backend.destroy())
    this.#join(this.#toBackend, backend, 'client')
    this.#join(this.#toClient, socket, 'backend')
  }

  /** Checks idle time, deadline and the caller's right. Must be called about twice a second: a tunnel has no timer. */
  review(nowMs: number, judge: (caller: Caller) => OwnEnd | undefined): void {
    if (this.#isActive) this.#activeMs = nowMs
    this.#isActive = false
    if (nowMs >= this.#cutAtMs) this.cut()
    if (this.#end !== undefined) return
    const end = nowMs - this.#activeMs >= this.#idleMs ? 'idle' : judge(this.#client.caller)
    if (end !== undefined) this.close(end)
  }

  /** Sends a close frame to both sides; there is no deadline where the whole gateway drains. */
  close(end: OwnEnd): void {
    if (this.#end !== undefined) return
    this.#ends(end, end === 'drain' ? Infinity : CLOSING_MS)
    const [code, reason] = ownEnds[end]
    this.#toClient.end(closeFrame(code, reason))
    this.#toBackend.end(closeFrame(code, reason, randomBytes(4)))
    this.#endAnsweredSides()
  }

  cut(): void {
    this.#toBackend.from.destroy()
    this.#toClient.from.destroy()
  }

  #join(direction: Direction, to: Duplex, side: 'client' | 'backend'): void {
    const { from, frames } = direction
    const onEnd = (): void => {
      this.#ends(side, side === 'client' ? CLIENT_LEFT_MS : CLOSING_MS)
      // Bytes already read from the closed side are still delivered.
      to.end()
    }
    const onClose = (): void => {
      onEnd()
      // A client that reset its connection receives nothing more.
      if (side === 'client' && !from.readableEnded) to.destroy()
      if (to.destroyed) this.#closed.resolve(undefined)
    }
    from.on('data', (chunk: Buffer) => {
      this.#isActive = true
      direction.pass(chunk)
      if (frames.isClosed && this.#end === undefined) this.#ends(side, CLOSE_FRAME_MS)
      this.#endAnsweredSides()
    })
    from.once('end', onEnd)
    // This listener has to run before that of the response, whose record names who ended the tunnel.
    from.prependOnceListener('close', onClose)
    if (from.destroyed) setImmediate(onClose)
    from.resume()
  }

  /** Ends the connection of each side that answered the gateway's close frame (RFC 6455 7.1.1). */
  #endAnsweredSides(): void {
    const directions = [this.#toBackend, this.#toClient]
    const isOurs = this.#end !== undefined && this.#end in ownEnds
    if (!isOurs || !directions.every(({ isOver }) => isOver)) return
    for (const { from, frames } of directions) if (frames.isClosed) from.end()
  }

  #ends(end: TunnelEnd, leftMs: number): void {
    this.#cutAtMs = Math.min(this.#cutAtMs, performance.now() + leftMs)
    if (this.#end !== undefined) return
    this.#end = end
    this.#client.ended(end)
  }
}

/** All open tunnels of a process, whatever configuration they began under. */
export class Tunnels {
  readonly #open = new Set<Tunnel>()
  #isDraining = false

  /** Joins the client with the backend. idleMs: longest silence. Resolves when both sides are closed. */
  open(client: TunnelClient, backend: Duplex, idleMs: number): Promise<unknown> {
    const tunnel = new Tunnel(client, backend, idleMs)
    this.#open.add(tunnel)
    if (this.#isDraining) tunnel.close('drain')
    return tunnel.closed.then(() => this.#open.delete(tunnel))
  }

  /** Ends tunnels that were idle for too long or whose caller has lost the right to them. Must be called about twice a second. */
  review(judge: (caller: Caller) => OwnEnd | undefined): void {
    const nowMs = performance.now()
    for (const tunnel of this.#open) tunnel.review(nowMs, judge)
  }

  /** Sends a close frame on every tunnel, including those opened later. */
  drain(): void {
    this.#isDraining = true
    for (const tunnel of this.#open) tunnel.close('drain')
  }

  cut(): void {
    for (const tunnel of this.#open) tunnel.cut()
  }
}
