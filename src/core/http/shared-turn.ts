/**
 * All connections share a turn of the event loop: this limits what they start and take in together, for every protocol.
 * The excess waits: connections with a request to begin take turns (HTTP/1.1 keeps its bytes, HTTP/2 the parsed request), and other
 * bytes stay unread.
 */
import { refuse } from '../rules/refusals.ts'
import type { ClientConnection } from './connections.ts'
import { TurnStage } from './turn-stages.ts'

/** Requests that may begin in one turn. */
const REQUESTS = 64
/** Requests of one connection that may begin in one turn. */
export const OWN_REQUESTS = 8
/** Limit of parsed requests of all connections that wait to begin; at the limit reading stops. */
const MAX_PARSED = 128
/** A piece of a body (chunk, DATA frame) below this size costs more than its bytes. */
const SMALL_BYTES = 256
/** Limit of small pieces in one turn; at the limit reading stops. */
const SMALL_PIECES = 1_024
/** Number of pieces in one turn up to which a connection is not heavy. */
const FEW_PIECES = 64
/** Connections whose reading resumes in one turn; each needs a system call. */
const READ_ON_AT_ONCE = 256
/**
 * A body may come in pieces of one byte, thousands in a packet, each as expensive as a packet: from this many pieces in one
 * turn on, they must have PIECE_BYTES_AT_LEAST bytes on average.
 */
const PIECES = 1_024
const PIECE_BYTES_AT_LEAST = 16
/** Allowance for chunks that are cut in two at the end of a read: libuv reads a socket at most 32 times a turn. */
const CUT_BYTES = 32 * PIECE_BYTES_AT_LEAST

/** Refuses a body for which take() returned false. */
export const IN_PIECES = refuse('invalid_request', { cause: 'a body of more framing than content' })

/** A connection that shares the turn with others. */
export interface Sharer {
  readonly share: Share
  readonly client: Pick<ClientConnection, 'isProven'>
  /** Continues with what waited for its turn. Never throws. */
  goOn(): void
  /** Stops reading at once, even of bytes that have arrived. */
  stopReading(): void
  readOn(): void
}

/** What one connection uses of a turn, or one body where many clients share the connection. Written by SharedTurn alone. */
export class Share {
  /** Number of parsed requests that wait to begin. */
  parsed = 0
  isReading = true
  /** The turn in which the three numbers below were counted. */
  turn = 0
  begun = 0
  pieces = 0
  bytes = 0
}

export class SharedTurn {
  /** Number of the current turn as counted here: it rises in each turn of a busy event loop, and seldom in an idle one. */
  #number = 1
  #begun = 0
  #smallPieces = 0
  /** Number of parsed requests of all connections that have not begun. */
  #parsed = 0
  #isEnding = false
  #hasStopped = false
  readonly #sharers = new Set<Sharer>()
  readonly #waiting = new Set<Sharer>()
  /** Connections whose reading is stopped and resumes in order; heavy ones wait in #late for a turn in which #stopMost was not needed. */
  #stopped: Sharer[] = []
  #late: Sharer[] = []

  enter(sharer: Sharer): void {
    this.#sharers.add(sharer)
  }

  leave(sharer: Sharer): void {
    this.#sharers.delete(sharer)
    this.#waiting.delete(sharer)
    this.parsed(sharer.share, -sharer.share.parsed)
  }

  /** Decides whether a request of the connection may begin in this turn. atLeast: the number that may begin even in a full turn. */
  mayBegin(share: Share, atLeast = 0): boolean {
    this.#renew(share)
    return share.begun < OWN_REQUESTS && (this.#begun < REQUESTS || share.begun < atLeast)
  }

  began(share: Share): void {
    this.#renew(share)
    share.begun += 1
    this.#begun += 1
    // A new count is due at half a limit: the requests of a client that waits for each answer then fall into several counts.
    if (share.begun === OWN_REQUESTS / 2 || this.#begun === REQUESTS / 2) this.#endSoon()
  }

  /** More requests have been parsed than begin in this turn and may wait for the next. */
  get isCrowded(): boolean {
    return this.#parsed >= REQUESTS + MAX_PARSED
  }

  /** Changes the number of parsed requests that wait. */
  parsed(share: Share, more: number): void {
    share.parsed += more
    this.#parsed += more
  }

  /** Calls goOn() when the sharer's turn has come; where too many requests wait, reading stops until then. */
  wait(sharer: Sharer): void {
    this.#waiting.add(sharer)
    const { share } = sharer
    if (share.parsed >= OWN_REQUESTS) this.#stop(sharer)
    if (this.#parsed >= MAX_PARSED) this.#stopMost()
    this.#endSoon()
  }

  /** Counts pieces of a body, for their connection and for all; returns false if they are more framing than content. */
  take(share: Share, bytes: number, pieces = 1): boolean {
    this.#renew(share)
    const before = share.pieces
    share.pieces += pieces
    share.bytes += bytes
    if (bytes < SMALL_BYTES * pieces) this.#smallPieces += pieces
    // These counts end before their limits as well, so that pieces of separate reads fall into several.
    if (
      this.#smallPieces >= SMALL_PIECES / 2 ||
      (before < PIECES / 2 && share.pieces >= PIECES / 2)
    )
      this.#endSoon()
    if (this.#smallPieces >= SMALL_PIECES) this.#stopMost()
    return share.pieces < PIECES || share.bytes + CUT_BYTES >= PIECE_BYTES_AT_LEAST * share.pieces
  }

  #renew(share: Share): void {
    if (share.turn === this.#number) return
    share.turn = this.#number
    share.begun = share.pieces = share.bytes = 0
  }

  #endSoon(): void {
    if (this.#isEnding) return
    this.#isEnding = true
    setImmediate(this.#next)
  }

  readonly #next = (): void => {
    // What has come in this turn begins before those that wait are counted.
    beginRequests.run()
    this.#isEnding = false
    this.#number += 1
    this.#begun = 0
    this.#smallPieces = 0
    const wasCalm = !this.#hasStopped
    this.#hasStopped = false
    let left = this.#waiting.size
    for (const sharer of this.#waiting) {
      if (left === 0 || this.#begun >= REQUESTS) break
      left -= 1
      this.#waiting.delete(sharer)
      sharer.goOn()
    }
    if (this.#parsed === 0) this.#readOn(wasCalm)
    if (this.#waiting.size + this.#stopped.length + this.#late.length > 0) this.#endSoon()
  }

  #readOn(wasCalm: boolean): void {
    if (this.#stopped.length === 0 && wasCalm) {
      this.#stopped = this.#late
      this.#late = []
    }
    for (const sharer of this.#stopped.splice(0, READ_ON_AT_ONCE)) {
      sharer.share.isReading = true
      if (this.#sharers.has(sharer)) sharer.readOn()
    }
  }

  /** Stops all connections, the present one too, but not proven ones that have used little: who sends too much shows only after reading. */
  #stopMost(): void {
    if (this.#hasStopped) return
    this.#hasStopped = true
    for (const sharer of this.#sharers)
      if (!sharer.client.isProven || this.#isHeavy(sharer)) this.#stop(sharer)
    this.#endSoon()
  }

  #stop(sharer: Sharer): void {
    if (!sharer.share.isReading) return
    sharer.share.isReading = false
    sharer.stopReading()
    if (this.#isHeavy(sharer)) this.#late.push(sharer)
    else this.#stopped.push(sharer)
  }
  #isHeavy({ share }: Sharer): boolean {
    this.#renew(share)
    return share.parsed + share.begun >= 2 * OWN_REQUESTS || share.pieces > FEW_PIECES
  }
}

/** Connections that have received requests in this turn. */
export const beginRequests = new TurnStage<Sharer>('begin requests', (sharer) => sharer.goOn())
