/** A connection to a backend carries one exchange at a time and is closed at the first byte that is not due. */
import { connect as connectTcp, type Socket, type TcpNetConnectOpts } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { ConnectionLife } from '../connection-life.ts'
import { maxAnswerHeadBytes } from '../engine.ts'
import type { BackendTls } from '../../backends/backend.ts'
import { AnswerReader } from '../../http/answer-reader.ts'
import { END, FAULT, HEAD, MORE } from '../../http/message-reader.ts'
import type { Http1Exchange } from './engine.ts'
import type { Http1Pool } from './pool.ts'

/** Plain connections share one buffer: each read is parsed or copied before the callback returns. */
const readBytes = 64 * 1024
const sharedBuffer = Buffer.allocUnsafeSlow(readBytes)
/** Bytes of an answer read in one turn of the event loop: libuv would read up to 32 times, and a few large answers would delay all others. */
const TURN_BYTES = readBytes

export class Http1Connection {
  readonly life: ConnectionLife
  connected = false
  closed = false
  /** End of the connect timeout or of the idle time, on the coarse clock. */
  deadlineMs = Infinity
  /** Bytes have come since the exchange started. */
  answerBegun = false
  /** The exchange that uses the connection, or waits for it to connect; undefined: it is idle. */
  user: Http1Exchange | undefined
  /** The exchange that takes the connection at the end of this turn of the event loop. */
  takenFor: Http1Exchange | undefined
  /** The exchange writes to the socket; only the connection reads it. */
  readonly socket: Socket
  readonly #pool: Http1Pool
  readonly #reader = new AnswerReader(maxAnswerHeadBytes)
  #paused = false
  /** Bytes read since the connection last yielded. */
  #readBytes = 0

  constructor(pool: Http1Pool, life: ConnectionLife) {
    this.#pool = pool
    this.life = life
    const { tls } = pool.backend
    const socket = tls ? this.#openTls(tls) : this.#openTcp()
    this.socket = socket
    socket.once(tls ? 'secureConnect' : 'connect', () => {
      this.connected = true
      pool.onConnected(this)
    })
    socket.on('drain', () => this.user?.onDrain())
    socket.once('end', () => {
      if (this.user === undefined) this.close()
      else if (this.#reader.endsWithConnection) this.#finish()
      else if (this.connected) this.#break('the connection ended before the answer')
    })
    socket.on('error', (error) => this.lose(error))
    socket.once('close', () => this.lose(fault('ECONNRESET', 'the connection was closed')))
  }

  start(user: Http1Exchange): void {
    this.user = user
    this.deadlineMs = Infinity
    this.life.start()
    this.answerBegun = false
    this.#reader.isToHead = user.method === 'HEAD'
    user.onReady(this)
  }

  /** The idle time that the backend announced last; undefined: it announced none. */
  get keepAliveSeconds(): number | undefined {
    return this.#reader.head?.keepAliveSeconds
  }

  pause(): void {
    this.#paused = true
    this.socket.pause()
  }

  resume(): void {
    this.#paused = false
    this.#parse()
    // The bytes that were kept may have caused another pause.
    if (!this.#paused && !this.closed) this.socket.resume()
  }

  /** Closes the connection at once and does not notify its exchange. */
  close(): void {
    if (this.closed) return
    this.closed = true
    this.user = undefined
    this.#reader.stop()
    this.socket.destroy()
    this.#pool.onClosed(this)
  }

  /** Closes the connection, which its exchange needed. */
  lose(error: Error): void {
    if (this.closed) return
    const user = this.user
    if (user !== undefined && this.life.uses > 1 && !this.answerBegun) this.#pool.onStale()
    this.close()
    user?.onError(error)
  }

  /** Passes on what has come, as far as it is wanted. */
  #parse(): void {
    const reader = this.#reader
    // An end that has come frees the connection, however slowly its last piece is taken.
    while (this.user !== undefined && (!this.#paused || reader.isAtEnd)) {
      switch (reader.next()) {
        case MORE:
          return
        case FAULT:
          return this.#break(reader.fault.cause ?? 'not HTTP/1.1')
        case HEAD:
          if (reader.head !== undefined) this.user.onHead(reader.head)
          break
        case END:
          return this.#finish()
        default:
          this.user.onBody(reader.piece)
      }
    }
  }

  #finish(): void {
    const { user } = this
    if (user === undefined) return
    this.user = undefined
    const hasSurplus = this.#reader.heldBytes > 0
    if (hasSurplus) this.#pool.rests.surplus()
    if (hasSurplus || !this.#reader.persists || !user.wholeSent) this.close()
    else {
      // The connection's end and surplus bytes show only while it is read.
      if (this.#paused) this.resume()
      this.#pool.onFree(this)
    }
    user.onAnswerEnd()
  }

  #break(cause: string): void {
    this.lose(fault('HPE_BROKEN', cause))
  }

  #openTcp(): Socket {
    const { host, port } = this.#pool.backend
    // Node's types of connect() lack onread.
    const options: TcpNetConnectOpts = {
      host,
      port,
      noDelay: true,
      onread: { buffer: sharedBuffer, callback: this.#onRead },
    }
    return connectTcp(options)
  }

  #openTls(tls: BackendTls): Socket {
    const pool = this.#pool
    const { host, port } = pool.backend
    const socket = connectTls({
      ...tls,
      host,
      port,
      ALPNProtocols: ['http/1.1'],
      session: pool.session,
    })
    socket.setNoDelay(true)
    socket.on('session', (latest) => (pool.session = latest))
    socket.on('data', (bytes: Buffer) => this.#onRead(bytes.length, bytes))
    return socket
  }

  readonly #onRead = (length: number, bytes: Uint8Array): boolean => {
    if (this.closed) return true
    // No request is under way (RFC 9112 section 9.2).
    if (this.user === undefined) {
      this.#pool.rests.surplus()
      this.close()
    } else {
      if (!this.answerBegun) this.life.answer()
      this.answerBegun = true
      // The buffer is shared, and a piece of the answer may be kept.
      const copy = Buffer.allocUnsafe(length)
      copy.set(bytes.subarray(0, length))
      this.#reader.add(copy)
      this.#parse()
      this.#readBytes += length
      if (this.#readBytes >= TURN_BYTES) this.#yield()
    }
    return true
  }

  /** The rest of the answer is read in the next turn. */
  #yield(): void {
    this.#readBytes = 0
    // A free connection is always read: its end must show before it is used again.
    if (this.user === undefined || this.#paused) return
    this.socket.pause()
    setImmediate(() => {
      if (!this.#paused && !this.closed) this.socket.resume()
    })
  }
}

export const fault = (code: string, cause: string): Error =>
  Object.assign(new Error(cause), { code })
