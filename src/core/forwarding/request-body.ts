/** Wraps the client's request body in a stream that counts it, reads on demand and never destroys the client's request. */
import { Readable } from 'node:stream'
import { ownFailureCodes } from '../rules/backend-failure.ts'
import type { ForwardJob, ReceivedBody } from './engine.ts'

/**
 * Engines destroy the body they are given: an IncomingMessage would lose the client's connection, or its socket property.
 * This stream, when destroyed, only leaves the rest unread.
 * It fails with one of ownFailureCodes when the limit is passed or the client leaves before the end.
 */
export class RequestBody extends Readable {
  /** Bytes beyond the received ones were read: the body cannot be sent from its start again. */
  touched = false
  readonly #client: Readable
  readonly #limitBytes: number
  /** The received part; undefined once it is passed on. */
  #received: ReceivedBody | undefined
  readonly #isWhole: boolean
  #open: boolean
  #wanted = false
  #ended = false
  #seenBytes = 0

  /** held: the stream reads nothing from the client before release(). */
  constructor(
    client: Readable,
    job: Pick<ForwardJob, 'received' | 'bodyLimitBytes'>,
    held = false,
  ) {
    super()
    this.#client = client
    this.#received = job.received
    this.#isWhole = job.received?.isWhole ?? false
    this.#limitBytes = job.bodyLimitBytes
    this.#open = !held
    // Engines stop listening once they are done with a stream; a late error must not end the process.
    this.on('error', () => {})
  }

  /** The stream waits for the client to send more. */
  get waitsForClient(): boolean {
    return this.#wanted && !this.#ended
  }

  release(): void {
    this.#open = true
    if (this.#wanted) this.#pull()
  }

  override _read(): void {
    this.#wanted = true
    if (this.#open) this.#pull()
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    if (this.touched) {
      // The error listener stays: one may still come, and an error without a listener ends the process.
      this.#client.off('data', this.#onData).off('end', this.#onEnd).off('close', this.#onClose)
      if (!this.#ended) this.#client.pause()
    }
    done(error)
  }

  #pull(): void {
    if (this.#received !== undefined) return this.#replay(this.#received)
    if (this.#isWhole) return this.#onEnd()
    const client = this.#client
    if (!this.touched) {
      this.touched = true
      if (client.readableEnded) return this.#onEnd()
      if (client.destroyed) return this.#onClose()
      client.on('data', this.#onData).on('end', this.#onEnd)
      client.on('close', this.#onClose).on('error', this.#onClose)
    }
    client.resume()
  }

  /** Passes on the received part; the end follows with the next read. */
  #replay({ bytes }: ReceivedBody): void {
    this.#received = undefined
    this.#wanted = false
    this.#seenBytes = bytes.length
    this.push(bytes)
  }

  readonly #onData = (chunk: Buffer): void => {
    this.#seenBytes += chunk.length
    if (this.#seenBytes > this.#limitBytes) {
      return this.#break(ownFailureCodes.bodyTooLarge, `more than ${this.#limitBytes} bytes`)
    }
    this.#wanted = this.push(chunk)
    if (!this.#wanted) this.#client.pause()
  }

  readonly #onEnd = (): void => {
    this.#ended = true
    this.push(null)
  }

  readonly #onClose = (): void => {
    if (this.#ended) return
    this.#break(ownFailureCodes.clientGone, 'the client left in the middle of its body')
  }

  #break(code: string, message: string): void {
    this.destroy(Object.assign(new Error(message), { code }))
  }
}

/** Limit of one body that readOn() keeps in memory; each piece counts PIECE_BYTES more for its overhead. */
const READ_ON_BYTES = 1024 * 1024
const PIECE_BYTES = 512
const QUIET_TURNS = 3

/**
 * Reads the bytes of a body that arrived while nothing read it: a connection that is not read does not show that its client left.
 * done is not called if the body breaks off, which others handle, or once the asker is settled. Reading stops when
 * QUIET_TURNS turns of the event loop bring nothing.
 */
export function readOn(
  client: Readable,
  received: ReceivedBody | undefined,
  asker: { readonly settled: boolean },
  done: (received: ReceivedBody) => void,
): void {
  const pieces = received === undefined ? [] : [received.bytes]
  let roomBytes = READ_ON_BYTES
  let quietTurns = 0
  const onData = (piece: Buffer): void => {
    pieces.push(piece)
    quietTurns = 0
    roomBytes -= piece.length + PIECE_BYTES
    if (roomBytes <= 0) client.pause()
  }
  const look = (): void => {
    const isWhole = client.readableEnded
    if (asker.settled || (client.destroyed && !isWhole)) return void client.off('data', onData)
    // This also waits after the body's end: the event that its sender left comes in a later turn.
    if (roomBytes > 0 && quietTurns++ < QUIET_TURNS) return void setImmediate(look)
    client.off('data', onData).pause()
    done({ bytes: Buffer.concat(pieces), isWhole })
  }
  client.on('data', onData).resume()
  look()
}
