/** Splits chunks into lines. Of an unfinished line, at most the longest permitted length is kept. */
import { MAX_LINE_BYTES } from './line-reader.ts'

const NEWLINE = 0x0a

/** Takes the line that begins at `from`; returns the index of its newline. */
type Take = (bytes: Buffer, from: number) => number

export class Lines {
  readonly #take: Take
  #rest = Buffer.alloc(0)
  #restBytes = 0

  constructor(take: Take) {
    this.#take = take
  }

  push(chunk: Buffer): void {
    const last = chunk.lastIndexOf(NEWLINE)
    let at = 0
    if (this.#restBytes > 0 && last !== -1) {
      const first = chunk.indexOf(NEWLINE)
      this.#keep(chunk.subarray(0, first))
      this.end()
      at = first + 1
    }
    while (at <= last) at = this.#take(chunk, at) + 1
    this.#keep(chunk.subarray(at))
  }

  /** Takes the last line, which has no newline. false: there is none. */
  end(): boolean {
    if (this.#restBytes === 0) return false
    this.#rest[this.#restBytes] = NEWLINE
    this.#restBytes = 0
    this.#take(this.#rest, 0)
    return true
  }

  #keep(bytes: Buffer): void {
    if (bytes.length === 0) return
    const room = MAX_LINE_BYTES + 1 - this.#restBytes
    const size = this.#restBytes + Math.min(bytes.length, room)
    if (this.#rest.length <= size) {
      const longer = Buffer.alloc(Math.min(2 * size, MAX_LINE_BYTES + 1) + 1)
      this.#rest.copy(longer, 0, 0, this.#restBytes)
      this.#rest = longer
    }
    bytes.copy(this.#rest, this.#restBytes, 0, room)
    this.#restBytes = size
  }
}
