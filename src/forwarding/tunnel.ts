/** A WebSocket between a client and a backend: bytes pass as they are, until one of them ends it, or the gateway does. */
import { randomBytes } from 'node:crypto'
import type { Duplex } from 'node:stream'
import { closeFrame, FrameTracker } from '../http1/websocket-frames.ts'
import { ownEnds, type OwnEnd, type TunnelEnd } from '../rules/websocket.ts'

/** After one side has ended its connection, or was told to, this is left for all that is still to be said. */
const LAST_WORDS_MS = 5_000
/** After one side has said goodbye; what the other has for it is still to be delivered first. */
const GOODBYE_MS = 30_000

/** One direction. */
class Lane {
  readonly from: Duplex
  readonly to: Duplex
  readonly frames = new FrameTracker()
  /** To be said to `to` in place of what would follow; undefined before the gateway ends the tunnel. */
  #lastFrame: Buffer | undefined
  #isSaid = false

  constructor(from: Duplex, to: Duplex) {
    this.from = from
    this.to = to
    to.on('drain', () => from.resume())
  }

  /** `to` has its close frame, of `from` or of the gateway. */
  get isOver(): boolean {
    return this.#isSaid || this.frames.isClosed
  }

  get #isHeard(): boolean {
    return !this.to.writableEnded && !this.to.destroyed
  }

  pass(chunk: Buffer): void {
    // Only for the close frame that answers ours.
    if (this.#isSaid) return this.frames.advance(chunk)
    let passed = chunk
    if (this.#lastFrame === undefined) this.frames.advance(chunk)
    else passed = chunk.subarray(0, this.frames.readFrame(chunk))
    const rest = chunk.subarray(passed.length)
    if (passed.length > 0 && this.#isHeard && !this.to.write(passed)) this.from.pause()
    this.#sayLast()
    if (rest.length > 0) this.frames.advance(rest)
  }

  /** Between two frames at once, else when the one that is half sent has come to its end. */
  end(lastFrame: Buffer): void {
    this.#lastFrame = lastFrame
    this.#sayLast()
  }

  #sayLast(): void {
    if (this.#lastFrame === undefined || this.isOver || !this.frames.isAtBoundary) return
    this.#isSaid = true
    if (this.#isHeard) this.to.write(this.#lastFrame)
    this.from.resume()
  }
}

export class Tunnel {
  readonly #toBackend: Lane
  readonly #toClient: Lane
  readonly #onEnd: (end: TunnelEnd) => void
  readonly #closed = Promise.withResolvers<undefined>()
  /** Resolves when both sides are closed: neither outlives the other, also when a side stays half open. */
  readonly closed = this.#closed.promise
  /** Who ended it: the first that did. Written by #ends. */
  #end: TunnelEnd | undefined
  /** Some byte has come since the last review. */
  #isActive = true
  /** Of the last review before which some byte had come, performance.now(). */
  #activeMs = 0
  /** When both sides are cut, performance.now(); undefined: there is no such haste. */
  #cutAtMs: number | undefined

  /** early: what the client sent before it had its answer. onEnd: called once, before the client's side is closed. */
  constructor(client: Duplex, backend: Duplex, early: Buffer, onEnd: (end: TunnelEnd) => void) {
    this.#onEnd = onEnd
    this.#toBackend = new Lane(client, backend)
    this.#toClient = new Lane(backend, client)
    backend.on('error', () => backend.destroy())
    this.#toBackend.pass(early)
    this.#join(this.#toBackend, 'client')
    this.#join(this.#toClient, 'backend')
  }

  /** To be called about twice a second, as nothing in a tunnel has a timer of its own. judge: whether it has to end. */
  review(nowMs: number, idleMs: number, judge: () => OwnEnd | undefined): void {
    if (this.#isActive) this.#activeMs = nowMs
    this.#isActive = false
    if (this.#cutAtMs !== undefined && nowMs >= this.#cutAtMs) this.cut()
    if (this.#end !== undefined) return
    const end = nowMs - this.#activeMs >= idleMs ? 'idle' : judge()
    if (end !== undefined) this.close(end)
  }

  /** Says goodbye to both sides; nobody hurries where the whole gateway drains. */
  close(end: OwnEnd): void {
    if (this.#end !== undefined) return
    const { code, reason } = ownEnds[end]
    if (end !== 'drain') this.#hurry(LAST_WORDS_MS)
    this.#ends(end)
    this.#toClient.end(closeFrame(code, reason))
    this.#toBackend.end(closeFrame(code, reason, randomBytes(4)))
    this.#partFromWhoAnswered()
  }

  cut(): void {
    this.#toBackend.from.destroy()
    this.#toClient.from.destroy()
  }

  #join(lane: Lane, side: 'client' | 'backend'): void {
    const { from, to } = lane
    const isGone = (): void => {
      this.#ends(side)
      this.#hurry(LAST_WORDS_MS)
      // What was read from the closed side is still to be delivered.
      if (!to.destroyed) to.end()
    }
    from.on('data', (chunk: Buffer) => {
      this.#isActive = true
      lane.pass(chunk)
      if (lane.frames.isClosed && this.#end === undefined) {
        this.#ends(side)
        this.#hurry(GOODBYE_MS)
      }
      this.#partFromWhoAnswered()
    })
    from.once('end', isGone)
    const onClose = (): void => {
      isGone()
      if (to.destroyed) this.#closed.resolve(undefined)
    }
    // Before the response hears of it, whose record says who ended the tunnel.
    from.prependOnceListener('close', onClose)
    if (from.destroyed) setImmediate(onClose)
    from.resume()
  }

  /** RFC 6455 7.1.1: who has both said and heard a close frame of a tunnel that we end is to be left by us. */
  #partFromWhoAnswered(): void {
    if (this.#end === undefined || !(this.#end in ownEnds)) return
    const [one, other] = [this.#toBackend, this.#toClient]
    if (!one.isOver || !other.isOver) return
    for (const { from, frames } of [one, other]) if (frames.isClosed) from.end()
  }

  #ends(end: TunnelEnd): void {
    if (this.#end !== undefined) return
    this.#end = end
    this.#onEnd(end)
  }

  #hurry(leftMs: number): void {
    const atMs = performance.now() + leftMs
    this.#cutAtMs = Math.min(atMs, this.#cutAtMs ?? atMs)
  }
}
