/** The direct engine forwards with its own HTTP/1.1 client, at the least cost per request. */
import type { Socket } from 'node:net'
import type { Readable } from 'node:stream'
import { AnswerReader } from '../http/answer-reader.ts'
import { freeWhenWritten, writePiece } from '../http/head-writer.ts'
import { requestHead, type WrittenHead } from '../http/request-head.ts'
import { TurnStage } from '../http/turn-stages.ts'
import { Attempt } from './attempt.ts'
import { Connection, fault } from './connection.ts'
import { maxAnswerHeadBytes } from './engine.ts'
import type { ConnectionPool } from './pool.ts'
import { RequestBody, type BodyError } from './request-body.ts'

/** Plain connections share one buffer: each read is parsed or copied before the callback returns. */
const sharedBuffer = Buffer.allocUnsafeSlow(64 * 1024)
/** Bytes of an answer read in one turn of the event loop: libuv would read up to 32 times, and a few large answers would delay all others. */
const TURN_BYTES = sharedBuffer.length

class DirectConnection extends Connection<DirectAttempt> {
  readonly #reader = new AnswerReader(maxAnswerHeadBytes)
  #paused = false
  /** The next bytes are the first of an answer: they are read in their stage of the turn, later ones as they come. */
  #isFirst = false
  /** Bytes read since the connection last yielded. */
  #readBytes = 0

  constructor(pool: ConnectionPool) {
    super(pool, sharedBuffer)
    this.socket.on('drain', () => this.user?.onDrain())
  }

  override start(user: DirectAttempt): void {
    this.#isFirst = true
    this.#reader.isToHead = user.job.method === 'HEAD'
    super.start(user)
  }

  get keepAliveSeconds(): number | undefined {
    return this.#reader.head?.keepAliveSeconds
  }

  pause(): void {
    this.#paused = true
    this.socket.pause()
  }

  resume(): void {
    this.#paused = false
    this.readRest()
    // The bytes that were kept may have caused another pause.
    if (!this.#paused && !this.closed) this.socket.resume()
  }

  override close(): void {
    this.#reader.stop()
    super.close()
  }

  protected override onEnd(): void {
    if (this.#reader.endsWithConnection) this.#finish()
    else if (this.connected) this.#break('the connection ended before the answer')
  }

  protected onBytes(bytes: Buffer, length: number): void {
    // The buffer is shared, and a piece of the answer may be kept.
    const copy = Buffer.allocUnsafe(length)
    bytes.copy(copy, 0, 0, length)
    this.#reader.add(copy)
    if (this.#isFirst) readAnswers.add(this)
    else this.readRest()
    this.#isFirst = false
    this.#readBytes += length
    if (this.#readBytes >= TURN_BYTES) this.#yield()
  }

  /** Passes on what has come, as far as it is wanted. */
  override readRest(): void {
    const reader = this.#reader
    // An end that has come frees the connection, however slowly its last piece is taken.
    while (this.user !== undefined && (!this.#paused || reader.isAtEnd)) {
      switch (reader.next()) {
        case 'more':
          return
        case 'fault':
          return this.#break(reader.fault.cause ?? 'not HTTP/1.1')
        case 'head':
          if (reader.head !== undefined) this.user.onHead(reader.head.status, reader.head.headers)
          break
        case 'end':
          return this.#finish()
        default:
          this.user.onPiece(reader.piece)
      }
    }
  }

  #finish(): void {
    const { user } = this
    if (user === undefined) return
    const { heldBytes, persists } = this.#reader
    if (heldBytes > 0) this.closeForSurplus()
    else this.release(!persists || !user.wholeSent)
    // The connection's end and surplus bytes show only while it is read.
    if (this.#paused && !this.closed) this.resume()
    user.onAnswerEnd()
  }

  #break(cause: string): void {
    this.lose(fault('HPE_BROKEN', cause))
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

const readAnswers = new TurnStage<DirectConnection>('read answers', (connection) =>
  connection.readRest(),
)

/** Writes one request, and passes its answer to the pipeline. */
export class DirectAttempt extends Attempt {
  declare protected connection: DirectConnection | undefined
  /** The request has been written completely. */
  wholeSent = false
  #head: Buffer | undefined

  connect(): DirectConnection {
    return new DirectConnection(this.pool)
  }

  onDrain(): void {
    this.progress()
    this.body?.resume()
  }

  get answer(): DirectConnection | undefined {
    return this.connection
  }

  protected send({ socket }: DirectConnection): void {
    const { job } = this
    const head = requestHead(job, this.pool.backend.hostHeader)
    if (head === undefined) return this.fail('broken', 'a request that cannot be written')
    this.#head = head.bytes
    const isWhole = job.received?.isWhole === true
    if (!isWhole && job.body === undefined) return writeRequests.add(this)
    this.sent = true
    if (isWhole) this.#sendWhole(socket, head, job.received.bytes)
    else if (job.body !== undefined) this.#sendWithBody(socket, head, job.body)
  }

  /** Writes a request without a body, in its stage of the turn. */
  write(): void {
    if (this.settled || this.#head === undefined) return
    this.sent = true
    this.wholeSent = true
    this.connection?.socket.write(this.#head)
  }

  /** Exactly the declared number of bytes goes out: any other number would corrupt the next request. */
  #sendWithBody(socket: Socket, { bytes, bodyBytes }: WrittenHead, client: Readable): void {
    const body = new RequestBody(client, this.job)
    this.body = body
    const isChunked = bodyBytes === undefined
    let missingBytes = bodyBytes ?? Infinity
    // The available part of the body goes out together with the head.
    socket.cork()
    queueMicrotask(() => socket.uncork())
    socket.write(bytes)
    body.on('data', (chunk: Buffer) => {
      if (this.settled || chunk.length === 0) return
      this.progress()
      missingBytes -= chunk.length
      if (missingBytes < 0) return this.#mismatch()
      if (!writePiece(socket, chunk, isChunked, freeWhenWritten(chunk))) body.pause()
    })
    body.once('end', () => {
      if (this.settled) return
      if (!isChunked && missingBytes > 0) return this.#mismatch()
      this.wholeSent = true
      if (isChunked) socket.write('0\r\n\r\n', 'latin1')
    })
    body.once('error', ({ kind, message }: BodyError) => this.fail(kind, message))
  }

  #sendWhole(socket: Socket, { bytes, bodyBytes }: WrittenHead, body: Buffer): void {
    if (bodyBytes !== undefined && bodyBytes !== body.length) return this.#mismatch()
    socket.cork()
    socket.write(bytes)
    // It is not freed: another attempt may need it.
    writePiece(socket, body, bodyBytes === undefined)
    if (bodyBytes === undefined) socket.write('0\r\n\r\n', 'latin1')
    this.wholeSent = true
    socket.uncork()
  }

  #mismatch(): void {
    this.fail('broken', 'a body of another length than its Content-Length')
  }
}

const writeRequests = new TurnStage<DirectAttempt>('write requests', (attempt) => attempt.write())
