/** A connection to a backend carries one attempt at a time and is closed at the first byte that is not due. */
import { connect as connectTcp, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import type { Attempt } from './attempt.ts'
import { ConnectionLife } from './connection-life.ts'
import type { ConnectionPool } from './pool.ts'

export abstract class Connection<User extends Attempt = Attempt> {
  readonly life: ConnectionLife
  connected = false
  closed = false
  /** End of the connect timeout or of the idle time, on the coarse clock. */
  deadlineMs = Infinity
  /** Bytes have come since the attempt started. */
  answerBegun = false
  /** The attempt that uses the connection, or waits for it to connect; undefined: it is idle. */
  user: User | undefined
  /** Its user writes to it. */
  readonly socket: Socket
  protected readonly pool: ConnectionPool

  /** The idle time that the backend announced last; undefined: it announced none. */
  abstract readonly keepAliveSeconds: number | undefined

  /** readBuffer: all bytes without TLS are read into it, instead of a buffer for each read. */
  constructor(pool: ConnectionPool, readBuffer?: Buffer) {
    this.pool = pool
    this.life = new ConnectionLife(pool.rests)
    const { host, port, tls } = pool.backend
    const onread = readBuffer && { buffer: readBuffer, callback: this.#onRead }
    // Node's types of connect() lack onread.
    const options = { host, port, onread }
    const socket: Socket = tls
      ? connectTls({ ...tls, host, port, ALPNProtocols: ['http/1.1'], session: pool.session })
      : connectTcp(options)
    this.socket = socket.setNoDelay(true)
    socket.on('session', (latest: Buffer) => (pool.session = latest))
    socket.on('data', (bytes: Buffer) => this.#onRead(bytes.length, bytes))
    socket.once(tls ? 'secureConnect' : 'connect', () => {
      this.connected = true
      pool.onConnected(this)
    })
    socket.once('end', () => {
      this.readRest()
      if (this.user === undefined) this.close()
      else this.onEnd()
    })
    const onLost = (error: Error): void => {
      this.readRest()
      this.lose(error)
    }
    socket.on('error', onLost)
    socket.once('close', () => onLost(fault('ECONNRESET', 'the connection was closed')))
  }

  start(user: User): void {
    this.user = user
    this.deadlineMs = Infinity
    this.life.start()
    this.answerBegun = false
    user.onReady(this)
  }

  /** The answer has ended: the next request may use the connection, unless it is to be closed. */
  release(closes: boolean): void {
    this.user = undefined
    if (closes) this.close()
    else this.pool.onFree(this)
  }

  /** Closes the connection at once and does not notify its user. */
  close(): void {
    if (this.closed) return
    this.closed = true
    this.user = undefined
    this.socket.destroy()
    this.pool.onClosed(this)
  }

  /** Closes the connection because of bytes that no request had asked for. */
  closeForSurplus(): void {
    this.pool.rests.surplus()
    this.close()
  }

  /** Closes the connection, which its user needed. */
  lose(error: Error): void {
    if (this.closed) return
    const user = this.user
    this.close()
    user?.onError(error)
  }

  /** Leaves the socket to its user for good. */
  detach(): Socket {
    this.closed = true
    this.pool.onClosed(this)
    return this.socket.removeAllListeners('data')
  }

  /** Receives bytes of its user's answer; they are not used after this returns. */
  protected abstract onBytes(bytes: Buffer, length: number): void

  /** Acts on bytes that wait for their stage of the turn: an answer that has come counts, however its connection ends. */
  protected readRest(): void {}

  /** The backend has ended the connection, which has a user. */
  protected onEnd(): void {}

  readonly #onRead = (length: number, bytes: Uint8Array): boolean => {
    if (this.closed) return true
    // No request is under way (RFC 9112 section 9.2).
    if (this.user === undefined) this.closeForSurplus()
    else {
      if (!this.answerBegun) this.life.answer()
      this.answerBegun = true
      this.onBytes(bytes as Buffer, length)
    }
    return true
  }
}

export const fault = (code: string, cause: string): Error =>
  Object.assign(new Error(cause), { code })
