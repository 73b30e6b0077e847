/** Reads a file in pieces, so that no file has to fit into memory, and cuts it into clients at the lines that begin one. */
import { createHash } from 'node:crypto'
import { closeSync, fstatSync, openSync, readSync } from 'node:fs'

const MiB = 2 ** 20
const PIECE_BYTES = MiB
/** Length of the longest client. */
export const LONGEST_ENTRY_BYTES = 16 * MiB

export class TooLong extends Error {}

/** Takes a piece: the unused rest of the one before and more, up to `to`, where a line feed is added. Returns the end of what it used. */
type UsePiece = (bytes: Buffer, to: number, isEnd: boolean) => number

/** Returns the SHA-256 of the file, in hex. Throws as node:fs does, and TooLong where more than LONGEST_ENTRY_BYTES stay unused. */
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

const [tab, lineFeed, carriageReturn, blank, hash, dash] = [0x09, 0x0a, 0x0d, 0x20, 0x23, 0x2d]

/** Says whether a line is a client, is the first line of one, or belongs to what came before, as blank lines and comments do. */
type LineKind = (bytes: Buffer, start: number, end: number) => 'client' | 'first' | 'inside'

/** Returns the SHA-256 of the file, in hex, and throws as readPieces does. take: receives each client, whose bytes change when the call returns, and its first line, from 1. */
export const cutFile = (
  path: string,
  kindOf: LineKind,
  take: (text: Buffer, line: number) => void,
): string => {
  /** Number of lines before the piece. */
  let before = 0
  return readPieces(path, (bytes, to, isEnd) => {
    let [line, at] = [before, 0]
    let entry: { readonly start: number; readonly line: number } | undefined
    while (at < to) {
      const end = bytes.indexOf(lineFeed, at)
      if (end === to && !isEnd) break
      line++
      const kind = kindOf(bytes, at, end)
      if (kind === 'client') take(bytes.subarray(at, end), line)
      if (kind === 'first') {
        if (entry !== undefined) take(bytes.subarray(entry.start, at), entry.line)
        entry = { start: at, line }
      }
      at = end + 1
    }
    if (isEnd && entry !== undefined) take(bytes.subarray(entry.start, to), entry.line)
    if (isEnd) return to
    // A client that may be incomplete comes again with the next piece.
    before = entry === undefined ? line : entry.line - 1
    return entry?.start ?? at
  })
}

/** Each line of JSONL that is not blank is a client. */
export const jsonLine: LineKind = (bytes, start, end) => {
  let at = start
  while (at < end && isSpace(bytes[at])) at++
  return at < end ? 'client' : 'inside'
}

const isSpace = (byte = 0): boolean => byte === blank || byte === tab || byte === carriageReturn

/**
 * Cuts a YAML list, bare or under `clients:`, at the dashes of its own indent: inside an item everything is indented deeper.
 * A file with a line of another kind (isForeign) cannot be cut and has to be read as a whole.
 */
export class YamlItems {
  /** Whether a line of another kind has come. */
  isForeign = false
  /** Indent of the dashes; undefined: none has come. */
  #indent: number | undefined
  #hasHead = false

  readonly kindOf: LineKind = (bytes, start, end) => {
    let at = start
    while (bytes[at] === blank) at++
    const first = bytes[at]
    if (first === hash || isLineEnd(bytes, at, end)) return 'inside'
    const indent = at - start
    const isDash = first === dash && (bytes[at + 1] === blank || isLineEnd(bytes, at + 1, end))
    if (isDash) this.#indent ??= indent
    if (isDash && indent === this.#indent) return 'first'
    if (this.#indent === undefined) {
      this.isForeign ||= this.#hasHead || !/^clients: *(?:#.*)?$/.test(lineText(bytes, start, end))
      this.#hasHead = true
    } else this.isForeign ||= indent <= this.#indent || first === tab
    return 'inside'
  }
}

const isLineEnd = (bytes: Buffer, at: number, end: number): boolean =>
  at >= end || (bytes[at] === carriageReturn && at + 1 === end)

const lineText = (bytes: Buffer, from: number, end: number): string =>
  bytes
    .toString('utf8', from, end)
    .replace(/\r$/, '')
    .replace(/^\uFEFF/, '')
