/** One connection to a backend: carries one exchange at a time, and is given up at the first byte that is not due. */
import { connect as connectTcp, type Socket, type TcpNetConnectOpts } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { ConnectionLife } from '../connection-life.ts'
import { maxAnswerHeadBytes } from '../engine.ts'
import type { Backend, BackendTls } from '../../backends/backend.ts'
import { AnswerReader, type AnswerListener } from '../../http/answer-reader.ts'
import type { AnswerHead } from '../../http/answer-head.ts'

/** What waits for a connection, and is then carried by it. */
export interface Carried {
  /** Nobody waits for it any more. */
  readonly settled: boolean
  readonly isHead: boolean
  /** It can be sent again if the connection turns out to be closed. */
  readonly mayRepeat: boolean
  /** The connection is there: the request is to be written now. */
  onReady(connection: Http1Connection): void
  onHead(head: AnswerHead): void
  onBody(piece: Buffer): void
  /** The connection is another's, or closed, by then. */
  onAnswerEnd(): void
  /** The connection is closed by then. code: of the error. */
  onLost(code: string, cause: string): void
  /** The request has been written to its end. */
  readonly wholeSent: boolean
  onDrain(): void
  /** Called every so often, with the time on the coarse clock. */
  onTick(nowMs: number): void
}

export interface ConnectionOwner {
  readonly backend: Backend
  /** The last TLS session, to be resumed. */
  session: Buffer | undefined
  onConnected(connection: Http1Connection): void
  onFree(connection: Http1Connection): void
  /** It was closed without having answered the request that it was used again for. */
  onStale(): void
  /** The backend has sent what nobody asked for; the connection is closed. */
  onSurplus(): void
  onClosed(connection: Http1Connection): void
}

/** What a connection reads is copied or understood before it returns, so plain ones share one buffer. */
const readBytes = 64 * 1024
const sharedBuffer = Buffer.allocUnsafeSlow(readBytes)
/** Of an answer in one turn of the event loop: libuv would read 32 times as long as there is more, and a few great answers would hold up all others. */
const TURN_BYTES = readBytes

export class Http1Connection implements AnswerListener {
  readonly life: ConnectionLife
  connected = false
  closed = false
  /** On the coarse clock; of connecting or of being idle. */
  deadlineMs = Infinity
  keepAliveSeconds: number | undefined
  /** Any byte has come since the request was given to it. */
  answerBegun = false
  /** Whose it is now; undefined when it is idle. While it is being made, who waits for it. */
  carried: Carried | undefined
  /** For whom it was taken, until the end of this turn of the event loop. */
  takenFor: Carried | undefined
  /** To be written to; the connection reads it. */
  readonly socket: Socket
  readonly #owner: ConnectionOwner
  readonly #reader: AnswerReader
  #persists = true
  #paused = false
  /** Since it last left the turn to others. */
  #readBytes = 0

  constructor(owner: ConnectionOwner, life: ConnectionLife) {
    this.#owner = owner
    this.life = life
    this.#reader = new AnswerReader(this, maxAnswerHeadBytes)
    const { tls } = owner.backend
    const socket = tls ? this.#openTls(tls) : this.#openTcp()
    this.socket = socket
    socket.once(tls ? 'secureConnect' : 'connect', () => {
      this.connected = true
      owner.onConnected(this)
    })
    socket.on('drain', () => this.carried?.onDrain())
    socket.once('end', () => {
      if (this.carried === undefined) this.close()
      else this.#reader.end()
    })
    socket.on('error', (error: NodeJS.ErrnoException) =>
      this.lose(error.code ?? error.name, error.message),
    )
    socket.once('close', () => this.lose('ECONNRESET', 'the connection was closed'))
  }

  /** Its exchange may be sent. */
  start(carried: Carried): void {
    this.carried = carried
    this.deadlineMs = Infinity
    this.life.start()
    this.answerBegun = false
    this.#reader.expect(carried.isHead)
    carried.onReady(this)
  }

  pause(): void {
    this.#paused = true
    this.#reader.pause()
    this.socket.pause()
  }

  resume(): void {
    this.#paused = false
    this.#reader.resume()
    // What had come already may have been enough for another pause.
    if (!this.#paused && !this.closed) this.socket.resume()
  }

  /** Ends it at once, without a word to what it carries. */
  close(): void {
    if (this.closed) return
    this.closed = true
    this.carried = undefined
    this.#reader.stop()
    this.socket.destroy()
    this.#owner.onClosed(this)
  }

  lose(code: string, cause: string): void {
    if (this.closed) return
    const carried = this.carried
    if (carried !== undefined && this.life.uses > 1 && !this.answerBegun) this.#owner.onStale()
    this.close()
    carried?.onLost(code, cause)
  }

  onHead(head: AnswerHead): void {
    this.#persists = head.persists
    this.keepAliveSeconds = head.keepAliveSeconds
    this.carried?.onHead(head)
  }

  onBody(piece: Buffer): void {
    this.carried?.onBody(piece)
  }

  onAnswerEnd(spare: boolean): void {
    const carried = this.carried
    if (carried === undefined) return
    this.carried = undefined
    if (spare) this.#owner.onSurplus()
    if (spare || !this.#persists || !carried.wholeSent) this.close()
    else {
      // Its end, or what nobody asked for, is noticed only while it is read.
      if (this.#paused) this.resume()
      this.#owner.onFree(this)
    }
    carried.onAnswerEnd()
  }

  onBroken(cause: string): void {
    this.lose('HPE_BROKEN', cause)
  }

  #openTcp(): Socket {
    const { host, port } = this.#owner.backend
    // The types of Node leave onread out of what connect takes.
    const options: TcpNetConnectOpts = {
      host,
      port,
      noDelay: true,
      onread: { buffer: sharedBuffer, callback: this.#onRead },
    }
    return connectTcp(options)
  }

  #openTls(tls: BackendTls): Socket {
    const owner = this.#owner
    const { host, port } = owner.backend
    const socket = connectTls({
      ...tls,
      host,
      port,
      ALPNProtocols: ['http/1.1'],
      session: owner.session,
    })
    socket.setNoDelay(true)
    socket.on('session', (latest) => (owner.session = latest))
    socket.on('data', (bytes: Buffer) => this.#onRead(bytes.length, bytes))
    return socket
  }

  readonly #onRead = (length: number, bytes: Uint8Array): boolean => {
    if (this.closed) return true
    // Nobody has asked (RFC 9112 section 9.2).
    if (this.carried === undefined) {
      this.#owner.onSurplus()
      this.close()
    } else {
      if (!this.answerBegun) this.life.answer()
      this.answerBegun = true
      this.#reader.read(bytes as Buffer, length)
      this.#readBytes += length
      if (this.#readBytes >= TURN_BYTES) this.#yield()
    }
    return true
  }

  /** The rest of the answer is read in the next turn. */
  #yield(): void {
    this.#readBytes = 0
    // A free connection is always read: its end must be seen before it is used again.
    if (this.carried === undefined || this.#paused) return
    this.socket.pause()
    setImmediate(() => {
      if (!this.#paused && !this.closed) this.socket.resume()
    })
  }
}
