/**
 * Limits what one connection brings in: the number of pending requests, its share of a turn of the event loop, and nothing
 * after the last answer. The excess waits in the connection.
 */
import type { Socket } from 'node:net'
import { readOn, stopReading } from './node-internals.ts'
import { guardParser, type Intake, type ParserGuard } from './parser-internals.ts'
import { Share, type SharedTurn, type Sharer } from './shared-turn.ts'

/** Limit of pending requests of one connection; parsing resumes when half of them are answered. */
const MAX_PENDING = 32
/** Requests of one connection that may always begin in a turn: a parser that was stopped once costs more from then on. */
const OWN_AT_LEAST = 4
/** The error of http's 'clientError' event. */
export interface ParserError extends NodeJS.ErrnoException {
  readonly rawPacket?: Buffer
  /** Offset in the packet at which the parser stopped. */
  readonly bytesParsed?: number
}

export interface InflowOf {
  /** The request whose body arrives. */
  readonly latest: { receivedBytes: number } | undefined
  /** Number of requests without a complete answer. */
  readonly pending: number
  /** Runs when no request is pending; later requests wait for it. */
  readonly whenIdle: (() => void) | undefined
  /** The connection's last answer is decided. */
  readonly closing: boolean
  /** It has carried a valid credential. */
  readonly isKnown: boolean
  /** Reports whether the last request has begun. */
  isClosing(): boolean
}

export class Inflow implements ParserGuard, Sharer {
  readonly share: Share
  readonly #socket: Socket
  readonly #connection: InflowOf
  readonly #turn: SharedTurn
  readonly #intake: Intake
  /** Bytes that wait to be parsed; undefined: the parser is not stopped. */
  #held: Buffer | undefined
  #isOver = false
  /** The parser goes on when fewer requests than this are pending. */
  #goOnBelow = MAX_PENDING

  /** socket: Node's http must just have taken it. */
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
    // The body of the last request is still read.
    if (this.#connection.isClosing()) return true
    if (this.#connection.whenIdle !== undefined) return false
    this.#turn.began(this.share)
    const isFull = this.#connection.pending >= MAX_PENDING
    this.#goOnBelow = isFull ? MAX_PENDING / 2 : MAX_PENDING
    // The next request, if any, has already been read, and stopping the parser is expensive.
    return !isFull && this.#turn.mayBegin(this.share, OWN_AT_LEAST)
  }

  mayReadOn(bodyBytes: number): boolean {
    const { latest } = this.#connection
    if (latest !== undefined) latest.receivedBytes += bodyBytes
    this.#turn.took(bodyBytes)
    return this.share.take(bodyBytes)
  }

  /** Reports whether the gateway itself caused the error; if not, parsing of the connection ends. */
  caused(error: ParserError): boolean {
    if (this.#isOver) return true
    if (error.code === 'HPE_PAUSED') {
      this.#hold(error.rawPacket?.subarray(error.bytesParsed) ?? NOTHING)
      return true
    }
    // The request is late because the gateway held it up.
    if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT' && this.#held !== undefined) return true
    this.#end()
    return false
  }

  /** A request was answered completely. */
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
    // The body of the last request may still be read; mayBegin() ends what follows it.
    if (this.#connection.closing) return this.#end()
    const { pending, whenIdle } = this.#connection
    if (whenIdle !== undefined || pending >= this.#goOnBelow) return
    // http has paused the socket because the client does not read its answers, and resumes it later.
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
