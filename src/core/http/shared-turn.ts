/**
 * All connections share a turn of the event loop: what they begin and take in together is bounded here, whatever their protocol.
 * What is too much waits: parsed requests in a line in which each connection has its turn, bytes in their connections, unread.
 */

/** Requests that are begun in one turn. */
const REQUESTS = 64
/** As many of these requests may be of one connection. */
const OWN_REQUESTS = 8
/** Requests that were parsed and wait to be begun; beyond it nothing more is read. */
const PARSED_AT_MOST = 128
/** A piece of a body (chunk, DATA frame) that costs more than its bytes do. */
const SMALL_BYTES = 256
/** Small pieces that are taken in one turn; beyond it nothing more is read. */
const SMALL_PIECES = 1_024
/** Small pieces that make no turn long. */
const LITTLE = 64
/** Connections that are read on in one turn: as many system calls. */
const READ_ON_AT_ONCE = 256
/**
 * A body may come in pieces of one byte, thousands to a packet, each as dear as a packet: beyond so many pieces in one turn
 * they must have so many bytes on average.
 */
const PIECES = 1_024
const PIECE_BYTES_AT_LEAST = 16
/** A chunk that a read ends in the midst of is two pieces: libuv reads a socket at most 32 times a turn. */
const CUT_BYTES = 32 * PIECE_BYTES_AT_LEAST

/** A connection, as others share the turn with it. */
export interface Sharer {
  readonly share: Share
  /** It has carried a valid credential. */
  readonly isKnown: boolean
  /** Takes up what waited for its turn. Never throws. */
  goOn(): void
  /** Reads nothing more, even of what is there. */
  stopReading(): void
  readOn(): void
}

/** What one connection has of a turn; or one body, where many clients share the connection. */
export class Share {
  /** Requests that were parsed and wait to be begun. Written by SharedTurn alone, as the next. */
  parsed = 0
  isReading = true
  readonly #turn: SharedTurn
  #number = 0
  #begun = 0
  #pieces = 0
  #bytes = 0

  constructor(turn: SharedTurn) {
    this.#turn = turn
  }

  get begun(): number {
    return this.#isOfThisTurn() ? this.#begun : 0
  }

  get pieces(): number {
    return this.#isOfThisTurn() ? this.#pieces : 0
  }

  begin(): void {
    this.#renew()
    this.#begun += 1
    // One immediate for several requests: for a client that waits for its answers they come in several turns.
    if (this.#begun === OWN_REQUESTS / 2) this.#turn.endSoon()
  }

  /** Whether a piece of a body is taken; if not, this is more framing than content. */
  take(bytes: number): boolean {
    this.#renew()
    this.#pieces += 1
    this.#bytes += bytes
    // As for requests: what comes in reads of its own comes in several turns.
    if (this.#pieces === PIECES / 2) this.#turn.endSoon()
    return this.#pieces < PIECES || this.#bytes + CUT_BYTES >= PIECE_BYTES_AT_LEAST * this.#pieces
  }

  #isOfThisTurn(): boolean {
    return this.#number === this.#turn.number
  }

  #renew(): void {
    if (this.#isOfThisTurn()) return
    this.#number = this.#turn.number
    this.#begun = this.#pieces = this.#bytes = 0
  }
}

export class SharedTurn {
  /** Changes when what was counted is forgotten: in a busy loop with each turn, and seldom in an idle one. */
  number = 1
  #begun = 0
  #smallPieces = 0
  /** Requests of all connections that are parsed and have not begun. */
  #parsed = 0
  #isEnding = false
  #hasStopped = false
  readonly #sharers = new Set<Sharer>()
  readonly #waiting = new Set<Sharer>()
  /** They read on in turn; those who used much of a turn when a turn has passed in which nobody had to be stopped. */
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

  /** Whether a request of the connection may begin in this turn. Its first may where it costs more to hold it up: atLeast 1. */
  mayBegin({ begun }: Share, atLeast = 0): boolean {
    return begun < OWN_REQUESTS && (this.#begun < REQUESTS || begun < atLeast)
  }

  began(share: Share): void {
    this.#begun += 1
    share.begin()
    if (this.#begun === REQUESTS / 2) this.endSoon()
  }

  /** So many more requests of the connection wait, parsed. */
  parsed(share: Share, more: number): void {
    share.parsed += more
    this.#parsed += more
  }

  /** Once the sharer's turn has come, it goes on. */
  wait(sharer: Sharer): void {
    this.#waiting.add(sharer)
    const { share } = sharer
    if (share.parsed >= OWN_REQUESTS) this.#stop(sharer)
    if (this.#parsed >= PARSED_AT_MOST) this.#stopOthers()
    this.endSoon()
  }

  /** A piece of a body has come on one of the connections. */
  took(bytes: number): void {
    if (bytes >= SMALL_BYTES) return
    this.#smallPieces += 1
    if (this.#smallPieces === SMALL_PIECES / 2) this.endSoon()
    else if (this.#smallPieces >= SMALL_PIECES) this.#stopOthers()
  }

  endSoon(): void {
    if (this.#isEnding) return
    this.#isEnding = true
    setImmediate(this.#next)
  }

  readonly #next = (): void => {
    this.#isEnding = false
    this.number += 1
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
    if (this.#waiting.size + this.#stopped.length + this.#late.length > 0) this.endSoon()
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

  /** All but those who are known and have used little: whose bytes they are that are too much is known once they were read. */
  #stopOthers(): void {
    if (this.#hasStopped) return
    this.#hasStopped = true
    for (const sharer of this.#sharers) if (!sharer.isKnown || isHeavy(sharer)) this.#stop(sharer)
    this.endSoon()
  }

  #stop(sharer: Sharer): void {
    if (!sharer.share.isReading) return
    sharer.share.isReading = false
    sharer.stopReading()
    if (isHeavy(sharer)) this.#late.push(sharer)
    else this.#stopped.push(sharer)
  }
}

const isHeavy = ({ share }: Sharer): boolean =>
  share.parsed >= OWN_REQUESTS || share.pieces > LITTLE
