/** Writes the head of a message field by field, and refuses it where a name or a value is invalid; writes chunks of a body. */
import type { Socket } from 'node:net'
import { kinds, TOKEN, VALUE } from './field-lines.ts'

const LF = 0x0a
const CR = 0x0d
const SPACE = 0x20
const COLON = 0x3a

/**
 * One writer serves many messages, each within one call. It writes bytes: text put together from its parts would leave an object
 * behind for each part, and be copied twice.
 */
export class HeadWriter {
  #bytes = Buffer.allocUnsafeSlow(16 * 1024)
  #at = 0
  #isSound = true

  /** Drops what was written and starts a new head. line: the first line without its end, which is not checked. */
  begin(line: string): void {
    this.#at = 0
    this.#isSound = true
    this.text(line)
    this.text('\r\n')
  }

  /** Adds a field line (RFC 9112 5). */
  field(name: string, value: string): void {
    this.#makeRoom(name.length + value.length + 4)
    const bytes = this.#bytes
    let at = this.#at
    let common = name === '' ? 0 : TOKEN
    for (let from = 0; from < name.length; from++) {
      // A character beyond latin1 has no kind.
      const code = name.charCodeAt(from)
      common &= kinds[code] ?? 0
      bytes[at++] = code
    }
    if (common === 0) this.#isSound = false
    bytes[at++] = COLON
    bytes[at++] = SPACE
    common = VALUE
    for (let from = 0; from < value.length; from++) {
      const code = value.charCodeAt(from)
      common &= kinds[code] ?? 0
      bytes[at++] = code
    }
    if (common === 0) this.#isSound = false
    bytes[at++] = CR
    bytes[at++] = LF
    this.#at = at
  }

  /** Adds text of the gateway's own, which is not checked. */
  text(text: string): void {
    this.#makeRoom(text.length)
    const bytes = this.#bytes
    let at = this.#at
    for (let from = 0; from < text.length; from++) bytes[at++] = text.charCodeAt(from)
    this.#at = at
  }

  /** Adds a body, so that one write sends it with its head. */
  body(body: Buffer): void {
    this.#makeRoom(body.length)
    this.#at += body.copy(this.#bytes, this.#at)
  }

  /** Returns what was written, which must be sent as latin1; undefined: the name or the value of a field is invalid. */
  end(): string | undefined {
    return this.#isSound ? this.#bytes.toString('latin1', 0, this.#at) : undefined
  }

  #makeRoom(length: number): void {
    if (this.#at + length <= this.#bytes.length) return
    const larger = Buffer.allocUnsafeSlow(2 * (this.#at + length))
    this.#bytes.copy(larger, 0, 0, this.#at)
    this.#bytes = larger
  }
}

/** Writes a chunk (RFC 9112 7.1), which must not be empty; returns like write(). */
export function writeChunk(socket: Socket, chunk: Buffer): boolean {
  socket.cork()
  socket.write(`${chunk.length.toString(16)}\r\n`, 'latin1')
  socket.write(chunk)
  const keepsUp = socket.write('\r\n', 'latin1')
  socket.uncork()
  return keepsUp
}
