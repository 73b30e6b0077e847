/** Passes on the client's request body, counted, and never destroys the client's own stream. */
import { Transform, type Readable } from 'node:stream'
import type { BackendFailureKind } from '../rules/backend-failure.ts'
import type { ForwardJob, ReceivedBody } from './engine.ts'

/**
 * Engines destroy the body they are given, and a client whose body is destroyed loses its connection. This stream, when destroyed,
 * only leaves the rest unread. It fails, with a BodyError, when the limit is passed or the client leaves before the end.
 */
export class RequestBody extends Transform {
  readonly #client: Readable
  readonly #limitBytes: number
  #seenBytes = 0

  constructor(client: Readable, { received, bodyLimitBytes }: ForwardJob) {
    super()
    this.#client = client
    this.#limitBytes = bodyLimitBytes
    if (received !== undefined) this.write(received.bytes)
    if (client.destroyed && !client.readableEnded) this.#onClose()
    else client.on('close', this.#onClose).pipe(this)
  }

  get waitsForClient(): boolean {
    return !this.writableEnded && this.writableLength + this.readableLength === 0
  }

  override _transform(chunk: Buffer, _encoding: string, done: (error: Error | null) => void): void {
    this.#seenBytes += chunk.length
    if (this.#seenBytes > this.#limitBytes)
      return done(failure('body_too_large', `more than ${this.#limitBytes} bytes`))
    this.push(chunk)
    done(null)
  }

  override _destroy(error: Error | null, done: (error?: Error | null) => void): void {
    this.#client.off('close', this.#onClose).unpipe(this)
    done(error)
  }

  readonly #onClose = (): void => {
    if (this.writableEnded) return
    this.destroy(failure('client_gone', 'the client left in the middle of its body'))
  }
}

/** The body, not the backend, is at fault. */
export type BodyError = Error & { readonly kind: BackendFailureKind }

const failure = (kind: BackendFailureKind, message: string): BodyError =>
  Object.assign(new Error(message), { kind })

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
