/**
 * How much of what a client sends on one connection is taken in: no more requests than may be pending, no more in one turn
 * of the event loop than leaves others theirs, and nothing behind the last answer. What is too much waits in the connection.
 */
import type { Socket } from 'node:net'
import { readOn, stopReading } from './node-internals.ts'
import { guardParser, type Intake, type ParserGuard } from './parser-internals.ts'
import { Share, type SharedTurn, type Sharer } from './shared-turn.ts'

/** Requests of one connection that wait for their answers; parsing goes on when half of them have had theirs. */
const PENDING_AT_MOST = 32
/** Requests of one connection that begin in a turn whatever others do: a parser that was stopped once is dearer from then on. */
const OWN_AT_LEAST = 4
/** What the parser gave up on, as http's 'clientError' tells it. */
export interface ParserError extends NodeJS.ErrnoException {
  readonly rawPacket?: Buffer
  /** Where in the packet the parser stopped. */
  readonly bytesParsed?: number
}

export interface InflowOf {
  /** Whose body it is that comes. */
  readonly latest: { receivedBytes: number } | undefined
  /** Requests that have not been answered to the end. */
  readonly pending: number
  /** Waits for all that are pending, and what follows waits for that. */
  readonly whenIdle: (() => void) | undefined
  /** The last answer was decided. */
  readonly closing: boolean
  /** It has carried a valid credential. */
  readonly isKnown: boolean
  /** The last request has begun. */
  isClosing(): boolean
}

export class Inflow implements ParserGuard, Sharer {
  readonly share: Share
  readonly #socket: Socket
  readonly #connection: InflowOf
  readonly #turn: SharedTurn
  readonly #intake: Intake
  /** Not parsed yet; undefined while the parser is not stopped. */
  #held: Buffer | undefined
  #isOver = false
  /** With fewer pending than that the parser goes on. */
  #goOnBelow = PENDING_AT_MOST

  /** socket: one that http has just taken. */
  constructor(socket: Socket, connection: InflowOf, turn: SharedTurn) {
    this.#socket = socket
    this.#connection = connection
    this.#turn = turn
    this.share = new Share(turn)
    this.#intake = guardParser(socket, this)
    turn.enter(this)
    socket.once('close', () => turn.leave(this))
  }

  get isKnown(): boolean {
    return this.#connection.isKnown
  }

  mayBegin(): boolean {
    if (!this.#connection.isClosing()) return true
    this.#end()
    return false
  }

  mayGoOn(): boolean {
    if (this.#connection.closing) {
      this.#end()
      return false
    }
    // The body of the last request is still wanted.
    if (this.#connection.isClosing()) return true
    if (this.#connection.whenIdle !== undefined) return false
    this.#turn.began(this.share)
    const isFull = this.#connection.pending >= PENDING_AT_MOST
    this.#goOnBelow = isFull ? PENDING_AT_MOST / 2 : PENDING_AT_MOST
    // The next one, if there is one, has been read as well; and to stop the parser for nothing would be dear.
    return !isFull && this.#turn.mayBegin(this.share, OWN_AT_LEAST)
  }

  mayReadOn(bodyBytes: number): boolean {
    const { latest } = this.#connection
    if (latest !== undefined) latest.receivedBytes += bodyBytes
    this.#turn.took(bodyBytes)
    return this.share.take(bodyBytes)
  }

  /** Whether the error is our own doing; if not, the parser is done for, or what it waited for is late, and nothing more is parsed. */
  caused(error: ParserError): boolean {
    if (this.#isOver) return true
    if (error.code === 'HPE_PAUSED') {
      this.#hold(error.rawPacket?.subarray(error.bytesParsed) ?? NOTHING)
      return true
    }
    // What is late was held up by us.
    if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && this.#held !== undefined) return true
    this.#end()
    return false
  }

  /** A request was answered to the end. */
  answered(): void {
    if (this.#connection.closing) this.#end()
    else if (this.#held !== undefined) this.#turn.wait(this)
  }

  stopReading(): void {
    stopReading(this.#socket)
  }

  readOn(): void {
    readOn(this.#socket)
  }

  readonly #onData = (bytes: Buffer): void => {
    if (this.#held !== undefined || this.#intake.isPaused()) this.#hold(bytes)
    else this.#intake.parse(bytes)
  }

  #hold(bytes: Buffer): void {
    this.#held = this.#held === undefined ? bytes : Buffer.concat([this.#held, bytes])
    this.#intake.divert(this.#onData)
    this.#socket.pause()
    this.#turn.wait(this)
  }

  goOn(): void {
    const held = this.#held
    if (held === undefined || this.#socket.destroyed) return
    // The body of the last request may still be wanted; what stands behind it, mayBegin() ends.
    if (this.#connection.closing) return this.#end()
    const { pending, whenIdle } = this.#connection
    if (whenIdle !== undefined || pending >= this.#goOnBelow) return
    // The client does not read its answers: http resumes the socket when it does.
    if (this.#intake.isPaused()) return void this.#socket.once('resume', () => this.goOn())
    this.#held = undefined
    if (this.#intake.parse(held) && this.#held === undefined) this.#socket.resume()
  }

  #end(): void {
    if (this.#isOver) return
    this.#isOver = true
    this.#held = undefined
    this.#intake.discard()
    this.#socket.resume()
  }
}

const NOTHING = Buffer.alloc(0)
