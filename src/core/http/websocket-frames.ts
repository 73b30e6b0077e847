/** Finds the ends of the frames in one direction of a WebSocket (RFC 6455 5.2); reads only lengths, unmasks and keeps nothing. */

const CLOSE = 0x8
const FINAL = 0x80
const MASKED = 0x80

export class FrameTracker {
  /** A whole close frame has passed: nothing may follow it (RFC 6455 5.5.1). Written by readFrame only. */
  isClosed = false
  /** Bytes of the frame's head that have passed; #headBytes is its length as far as known. */
  #headRead = 0
  #headBytes = 2
  /** Offset in the head at which the length ends and the mask, if any, begins. */
  #lengthEnd = 2
  #payloadLeft = 0
  #isClose = false

  /** The position is between two frames. A control frame may stand here, even between fragments of a message (RFC 6455 5.4). */
  get isAtBoundary(): boolean {
    return this.#headRead === 0
  }

  advance(chunk: Uint8Array): void {
    for (let at = 0; at < chunk.length;) at = this.readFrame(chunk, at)
  }

  /** Reads to the end of the frame or of the chunk, whichever comes first; returns the offset. */
  readFrame(chunk: Uint8Array, from = 0): number {
    let at = from
    for (; this.#headRead < this.#headBytes; at++) {
      const byte = chunk[at]
      if (byte === undefined) return at
      this.#readHead(byte)
    }
    const passed = Math.min(this.#payloadLeft, chunk.length - at)
    this.#payloadLeft -= passed
    if (this.#payloadLeft === 0) {
      this.#headRead = 0
      this.#headBytes = 2
      this.isClosed ||= this.#isClose
    }
    return at + passed
  }

  #readHead(byte: number): void {
    const at = this.#headRead++
    if (at === 0) this.#isClose = (byte & 0x0f) === CLOSE
    else if (at === 1) {
      const length = byte & 0x7f
      this.#payloadLeft = length < 126 ? length : 0
      this.#lengthEnd = length < 126 ? 2 : length === 126 ? 4 : 10
      this.#headBytes = this.#lengthEnd + ((byte & MASKED) === 0 ? 0 : 4)
    } else if (at < this.#lengthEnd) this.#payloadLeft = this.#payloadLeft * 256 + byte
  }
}

/** Builds a close frame. reason: at most 123 bytes. mask: four unpredictable bytes for a server (RFC 6455 5.3); undefined for a client. */
export function closeFrame(code: number, reason: string, mask?: Uint8Array): Buffer {
  const payload = Buffer.from(`\0\0${reason}`)
  payload.writeUInt16BE(code)
  if (mask === undefined) return Buffer.from([FINAL | CLOSE, payload.length, ...payload])
  const masked = payload.map((byte, at) => byte ^ (mask[at % 4] ?? 0))
  return Buffer.from([FINAL | CLOSE, MASKED | payload.length, ...mask, ...masked])
}
