/** Reads a file in pieces, so that no file has to fit into memory: the reader says how far it came, and gets the rest again with the next piece. */
import { createHash } from 'node:crypto'
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'

const MiB = 2 ** 20
const PIECE_BYTES = MiB
/** Length of the longest client. */
export const LONGEST_ENTRY_BYTES = 16 * MiB

export class TooLong extends Error {}

/** Receives a piece, which begins with the unused rest of the one before. A line feed stands behind `to`, which is no part of the file. Returns the end of the bytes used. */
export type UsePiece = (bytes: Buffer, to: number, isEnd: boolean) => number

/** Returns the SHA-256 of the file, in hex. Throws as node:fs does, and TooLong where the reader uses nothing of LONGEST_ENTRY_BYTES. */
export const readPieces = (path: string, use: UsePiece): string => {
  const hash = createHash('sha256')
  const fd = openSync(path, 'r')
  try {
    const size = Math.min(PIECE_BYTES, fstatSync(fd).size)
    let bytes = Buffer.allocUnsafeSlow(size + 2)
    let filled = 0
    for (;;) {
      if (filled >= bytes.length - 1) {
        if (bytes.length > LONGEST_ENTRY_BYTES) throw new TooLong()
        bytes = Buffer.concat([bytes, Buffer.alloc(bytes.length)])
      }
      const read = readSync(fd, bytes, filled, bytes.length - 1 - filled, null)
      hash.update(bytes.subarray(filled, filled + read))
      filled += read
      bytes[filled] = 0x0a
      const used = use(bytes, filled, read === 0)
      if (read === 0) return hash.digest('hex')
      bytes.copyWithin(0, used, filled)
      filled -= used
    }
  } finally {
    closeSync(fd)
  }
}
