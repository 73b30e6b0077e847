/** A connection to a backend carries one exchange at a time and is closed at the first byte that is not due. */
import { connect as connectTcp, type Socket, type TcpNetConnectOpts } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { ConnectionLife } from '../connection-life.ts'
import { maxAnswerHeadBytes } from '../engine.ts'
import type { BackendTls } from '../../backends/backend.ts'
import { AnswerReader, type AnswerListener } from '../../http/answer-reader.ts'
import type { AnswerHead } from '../../http/answer-reader.ts'
import type { Http1Exchange } from './engine.ts'
import type { Http1Pool } from './pool.ts'

/** Plain connections share one buffer: each read is parsed or copied before the callback returns. */
const readBytes = 64 * 1024
const sharedBuffer = Buffer.allocUnsafeSlow(readBytes)
/** Bytes of an answer read in one turn of the event loop: libuv would read up to 32 times, and a few large answers would delay all others. */
const TURN_BYTES = readBytes

export class Http1Connection implements AnswerListener {
  readonly life: ConnectionLife
  connected = false
  closed = false
  /** End of the connect timeout or of the idle time, on the coarse clock. */
  deadlineMs = Infinity
  keepAliveSeconds: number | undefined
  /** Bytes have come since the exchange started. */
  answerBegun = false
  /** The exchange that uses the connection, or waits for it to connect; undefined: it is idle. */
  user: Http1Exchange | undefined
  /** The exchange that takes the connection at the end of this turn of the event loop. */
  takenFor: Http1Exchange | undefined
  /** The exchange writes to the socket; only the connection reads it. */
  readonly socket: Socket
  readonly #pool: Http1Pool
  readonly #reader: AnswerReader
  #persists = true
  #paused = false
  /** Bytes read since the connection last yielded. */
  #readBytes = 0

  constructor(pool: Http1Pool, life: ConnectionLife) {
    this.#pool = pool
    this.life = life
    this.#reader = new AnswerReader(this, maxAnswerHeadBytes)
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
      else this.#reader.end()
    })
    socket.on('error', (error) => this.lose(error))
    socket.once('close', () => this.lose(fault('ECONNRESET', 'the connection was closed')))
  }

  start(user: Http1Exchange): void {
    this.user = user
    this.deadlineMs = Infinity
    this.life.start()
    this.answerBegun = false
    this.#reader.expect(user.method === 'HEAD')
    user.onReady(this)
  }

  pause(): void {
    this.#paused = true
    this.#reader.pause()
    this.socket.pause()
  }

  resume(): void {
    this.#paused = false
    this.#reader.resume()
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

  onHead(head: AnswerHead): void {
    this.#persists = head.persists
    this.keepAliveSeconds = head.keepAliveSeconds
    this.user?.onHead(head)
  }

  onBody(piece: Buffer): void {
    this.user?.onBody(piece)
  }

  onAnswerEnd(hasSurplus: boolean): void {
    const user = this.user
    if (user === undefined) return
    this.user = undefined
    if (hasSurplus) this.#pool.rests.surplus()
    if (hasSurplus || !this.#persists || !user.wholeSent) this.close()
    else {
      // The connection's end and surplus bytes show only while it is read.
      if (this.#paused) this.resume()
      this.#pool.onFree(this)
    }
    user.onAnswerEnd()
  }

  onBroken(cause: string): void {
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
      this.#reader.read(bytes as Buffer, length)
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
