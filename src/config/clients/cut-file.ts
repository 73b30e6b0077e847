/** Reads a file in pieces, so that no file has to fit into memory, and cuts it into lines. */
import { createHash } from 'node:crypto'
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'
import { ConfigError, ofWholeFile } from '../problems.ts'

const MiB = 2 ** 20
const PIECE_BYTES = MiB
/** Length of the longest line. */
const LONGEST_LINE_BYTES = 16 * MiB
const tooLong = ofWholeFile('has a client of more than 16MiB; divide it')

/** Takes a piece: the unused rest of the one before and more, up to `to`, where a line feed is added. Returns the end of what it used. */
type UsePiece = (bytes: Buffer, to: number, isEnd: boolean) => number

/** Returns the SHA-256 of the file, in hex. Throws as node:fs does, and ConfigError where more than LONGEST_LINE_BYTES stay unused. */
export const readPieces = (path: string, use: UsePiece): string => {
  const hash = createHash('sha256')
  const fd = openSync(path, 'r')
  try {
    const size = Math.min(PIECE_BYTES, fstatSync(fd).size)
    let bytes = Buffer.allocUnsafeSlow(size + 2)
    let filled = 0
    for (;;) {
      if (filled >= bytes.length - 1) {
        if (bytes.length > LONGEST_LINE_BYTES) throw new ConfigError(path, [tooLong])
        bytes = Buffer.concat([bytes, Buffer.alloc(bytes.length)])
      }
      const read = readSync(fd, bytes, filled, bytes.length - 1 - filled, null)
      hash.update(bytes.subarray(filled, filled + read))
      filled += read
      bytes[filled] = lineFeed
      const used = use(bytes, filled, read === 0)
      if (read === 0) return hash.digest('hex')
      bytes.copyWithin(0, used, filled)
      filled -= used
    }
  } finally {
    closeSync(fd)
  }
}

const [tab, lineFeed, carriageReturn, blank] = [0x09, 0x0a, 0x0d, 0x20]

const isBlank = (bytes: Buffer, start: number, end: number): boolean => {
  let at = start
  while (bytes[at] === blank || bytes[at] === tab || bytes[at] === carriageReturn) at++
  return at >= end
}

/** A range of bytes; end is excluded. The bytes change when the call that received them returns. */
export interface ByteRange {
  readonly bytes: Buffer
  readonly start: number
  readonly end: number
}

/** Returns the SHA-256 of the file, in hex, and throws as readPieces does. take: receives each line that is not blank, with its number from 1. */
export const cutFile = (path: string, take: (span: ByteRange, line: number) => void): string => {
  let line = 0
  return readPieces(path, (bytes, to, isEnd) => {
    let at = 0
    while (at < to) {
      const end = bytes.indexOf(lineFeed, at)
      // A line that may be incomplete comes again with the next piece.
      if (end === to && !isEnd) break
      line++
      if (!isBlank(bytes, at, end)) take({ bytes, start: at, end }, line)
      at = end + 1
    }
    return at
  })
}
