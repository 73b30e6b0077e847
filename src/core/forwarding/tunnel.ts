/** A WebSocket between a client and a backend: bytes pass as they are, until one of them ends it, or the gateway does. */
import { randomBytes } from 'node:crypto'
import type { Duplex } from 'node:stream'
import { closeFrame, FrameTracker } from '../http/websocket-frames.ts'
import type { Caller } from '../rules/credentials.ts'
import { ownEnds, type OwnEnd, type TunnelEnd } from '../rules/websocket.ts'
import type { UpgradeJob } from './forwarder.ts'

/** After one side has ended its connection, or was told to, this is left for all that is still to be said. */
const LAST_WORDS_MS = 5_000
/** After the client has ended its connection: nobody is there to hear the backend out. */
const CLIENT_LEFT_MS = 1_000
/** After one side has said goodbye; what the other has for it is still to be delivered first. */
const GOODBYE_MS = 30_000

/** One direction. */
class Lane {
  readonly from: Duplex
  readonly #to: Duplex
  readonly frames = new FrameTracker()
  /** Goes to `to` in place of what would follow; undefined before the gateway ends the tunnel. */
  #lastFrame: Buffer | undefined
  #isSaid = false

  constructor(from: Duplex, to: Duplex) {
    this.from = from
    this.#to = to
    to.on('drain', () => from.resume())
  }

  /** `to` has its close frame, of `from` or of the gateway. */
  get isOver(): boolean {
    return this.#isSaid || this.frames.isClosed
  }

  pass(chunk: Buffer): void {
    // Only for the close frame that answers ours.
    if (this.#isSaid) return this.frames.advance(chunk)
    let passed = chunk
    if (this.#lastFrame === undefined) this.frames.advance(chunk)
    else passed = chunk.subarray(0, this.frames.readFrame(chunk))
    this.#write(passed)
    if (this.#lastFrame !== undefined) this.end(this.#lastFrame)
    if (passed.length < chunk.length) this.pass(chunk.subarray(passed.length))
  }

  /** Between two frames at once, else when the one that is half sent has come to its end. */
  end(lastFrame: Buffer): void {
    this.#lastFrame = lastFrame
    if (this.isOver || !this.frames.isAtBoundary) return
    this.#isSaid = true
    this.#write(lastFrame)
    this.from.resume()
  }

  #write(bytes: Buffer): void {
    if (this.#to.writable && !this.#to.write(bytes)) this.from.pause()
  }
}

export class Tunnel {
  readonly #job: UpgradeJob
  readonly #toBackend: Lane
  readonly #toClient: Lane
  readonly #closed = Promise.withResolvers<undefined>()
  /** Resolves when both sides are closed: neither outlives the other, also when a side stays half open. */
  readonly closed = this.#closed.promise
  /** Who ended it first. Written by #ends. */
  #end: TunnelEnd | undefined
  /** Some byte has come since the last review. */
  #isActive = true
  /** performance.now() of the last review before which some byte had come. */
  #activeMs = 0
  /** performance.now() at which both sides are cut. */
  #cutAtMs = Infinity

  /** early: what the client sent before it had its answer. */
  constructor(job: UpgradeJob, backend: Duplex, early: Buffer) {
    this.#job = job
    this.#toBackend = new Lane(job.socket, backend)
    this.#toClient = new Lane(backend, job.socket)
    backend.on('error', () => backend.destroy())
    this.#toBackend.pass(early)
    this.#join(this.#toBackend, backend, 'client')
    this.#join(this.#toClient, job.socket, 'backend')
  }

  /** To be called about twice a second, as nothing in a tunnel has a timer of its own. */
  review(nowMs: number, idleMs: number, judge: (caller: Caller) => OwnEnd | undefined): void {
    if (this.#isActive) this.#activeMs = nowMs
    this.#isActive = false
    if (nowMs >= this.#cutAtMs) this.cut()
    if (this.#end !== undefined) return
    const end = nowMs - this.#activeMs >= idleMs ? 'idle' : judge(this.#job.caller)
    if (end !== undefined) this.close(end)
  }

  /** Says goodbye to both sides; nobody hurries where the whole gateway drains. */
  close(end: OwnEnd): void {
    if (this.#end !== undefined) return
    this.#ends(end, end === 'drain' ? Infinity : LAST_WORDS_MS)
    const [code, reason] = ownEnds[end]
    this.#toClient.end(closeFrame(code, reason))
    this.#toBackend.end(closeFrame(code, reason, randomBytes(4)))
    this.#partFromWhoAnswered()
  }

  cut(): void {
    this.#toBackend.from.destroy()
    this.#toClient.from.destroy()
  }

  #join(lane: Lane, to: Duplex, side: 'client' | 'backend'): void {
    const { from, frames } = lane
    const onEnd = (): void => {
      this.#ends(side, side === 'client' ? CLIENT_LEFT_MS : LAST_WORDS_MS)
      // What was read from the closed side is still to be delivered.
      to.end()
    }
    const onClose = (): void => {
      onEnd()
      // Reset: it takes no answer.
      if (side === 'client' && !from.readableEnded) to.destroy()
      if (to.destroyed) this.#closed.resolve(undefined)
    }
    from.on('data', (chunk: Buffer) => {
      this.#isActive = true
      lane.pass(chunk)
      if (frames.isClosed && this.#end === undefined) this.#ends(side, GOODBYE_MS)
      this.#partFromWhoAnswered()
    })
    from.once('end', onEnd)
    // Before the response hears of it, whose record says who ended the tunnel.
    from.prependOnceListener('close', onClose)
    if (from.destroyed) setImmediate(onClose)
    from.resume()
  }

  /** RFC 6455 7.1.1: who has both said and heard a close frame of a tunnel that we end is to be left by us. */
  #partFromWhoAnswered(): void {
    const lanes = [this.#toBackend, this.#toClient]
    const isOurs = this.#end !== undefined && this.#end in ownEnds
    if (!isOurs || !lanes.every(({ isOver }) => isOver)) return
    for (const { from, frames } of lanes) if (frames.isClosed) from.end()
  }

  #ends(end: TunnelEnd, leftMs: number): void {
    this.#cutAtMs = Math.min(this.#cutAtMs, performance.now() + leftMs)
    if (this.#end !== undefined) return
    this.#end = end
    this.#job.ended(end)
  }
}
