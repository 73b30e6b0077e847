/** Writes the head of a message field by field, and refuses it where a name or a value is invalid; writes pieces of a body. */
import type { Socket } from 'node:net'
import { kinds, TOKEN, VALUE } from './field-lines.ts'

/** Heads share a block until it is full. A client that does not read keeps one in memory, which is less than the kernel holds for it. */
const BLOCK_BYTES = 16 * 1024

/** V8 has strings of more than four shapes (flat, slice, joined and others): `text.charCodeAt` would be found anew for each character. */
const charCodeAt: (text: string, at: number) => number = Function.prototype.call.bind(
  String.prototype.charCodeAt,
)
/** `text.length` would be found anew for each text; of what an addition returns V8 knows that it is a string. */
// oxlint-disable-next-line typescript/no-unnecessary-type-conversion -- see above
export const lengthOf = (text: string): number => (text + '').length

/**
 * One writer serves many messages, each within one call. It writes bytes: text put together from its parts would leave an object
 * behind for each part, and be copied twice.
 */
export class HeadWriter {
  #bytes = Buffer.allocUnsafeSlow(BLOCK_BYTES)
  /** Where the message begins, behind those that were returned. */
  #from = 0
  #at = 0
  #isSound = true

  /** Drops what was written and starts a new head. line: the first line without its end, which is not checked. */
  begin(line: string): void {
    this.#at = this.#from
    this.#isSound = true
    this.text(line)
    this.text('\r\n')
  }

  /** Adds a field line (RFC 9112 5). */
  field(name: string, value: string): void {
    this.#makeRoom(lengthOf(name) + lengthOf(value) + 4)
    if (name === '') this.#isSound = false
    this.#put(name, TOKEN)
    this.#put(': ', 0)
    this.#put(value, VALUE)
    this.#put('\r\n', 0)
  }

  /** Adds text of the gateway's own, which is not checked. */
  text(text: string): void {
    this.#makeRoom(lengthOf(text))
    this.#put(text, 0)
  }

  /** kind: what every character must be; 0: anything. */
  #put(text: string, kind: number): void {
    const bytes = this.#bytes
    let at = this.#at
    let common = kind
    const length = lengthOf(text)
    for (let from = 0; from < length; from++) {
      // A character beyond latin1 has no kind.
      const code = charCodeAt(text, from)
      common &= kinds[code] ?? 0
      bytes[at++] = code
    }
    if (common !== kind) this.#isSound = false
    this.#at = at
  }

  /** Adds a body, so that one write sends it with its head. */
  body(body: Buffer): void {
    this.#makeRoom(body.length)
    this.#at += body.copy(this.#bytes, this.#at)
  }

  /** Returns what was written; undefined: the name or the value of a field is invalid. */
  end(): Buffer | undefined {
    if (!this.#isSound) return undefined
    const written = this.#bytes.subarray(this.#from, this.#at)
    this.#from = this.#at
    return written
  }

  #makeRoom(length: number): void {
    if (this.#at + length <= this.#bytes.length) return
    const begun = this.#bytes.subarray(this.#from, this.#at)
    this.#bytes = Buffer.allocUnsafeSlow(Math.max(BLOCK_BYTES, 2 * (begun.length + length)))
    this.#at = begun.copy(this.#bytes)
    this.#from = 0
  }
}

/** Writes a piece of a body, as a chunk (RFC 9112 7.1) or as it is; returns what write() does. */
export function writePiece(
  socket: Socket,
  piece: Buffer,
  isChunked: boolean,
  onWritten?: ReturnType<typeof freeWhenWritten>,
): boolean {
  if (!isChunked || piece.length === 0) return socket.write(piece, onWritten)
  socket.cork()
  socket.write(`${piece.length.toString(16)}\r\n`, 'latin1')
  socket.write(piece, onWritten)
  const keepsUp = socket.write('\r\n', 'latin1')
  socket.uncork()
  return keepsUp
}

/**
 * Returns what frees the memory of a piece that nobody uses once a socket has written it: the collector waits until tens of MiB of
 * them have come together, and then looks through the whole heap. Not for HTTP/2, where a stream that is reset calls it before the
 * session has written the piece. undefined: it is part of a larger block, which others may use.
 */
export function freeWhenWritten({ buffer, length }: Buffer) {
  if (!(buffer instanceof ArrayBuffer) || length === 0 || length !== buffer.byteLength)
    return undefined
  return (error?: Error | null): void => {
    // What could not be written may still be held by the system.
    if (!error) buffer.transfer(0)
  }
}
