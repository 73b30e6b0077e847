/** Unpacks logs, and splits them into lines. Their first bytes show how they are packed; their names do not matter. */
import { pipeline } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import { createGunzip, createZstdDecompress } from 'node:zlib'
import { bytesOf, LogFileFault, type LogFile } from './input.ts'

/** Counts over all logs of what has been read so far. */
export interface ReadCounts {
  /** Bytes on disk, packed or not. */
  readBytes: number
  /** Files that end within compressed data or within a line. */
  readonly cutOff: string[]
}

/** Yields the lines of a log as linesOf does. Throws a LogFileFault. */
export const readLines = (log: LogFile, counts: ReadCounts) =>
  linesOf(unpacked(bytesOf(log, counts), log.file, counts.cutOff))

/** Ten times as much as Tollgate writes on a line. */
export const MAX_LINE_CHARS = 64 * 1024

/** Yields the lines of a log, those of one chunk at a time. Returns whether it ends within a line, of which little more than the longest permitted length is kept. */
export async function* linesOf(
  chunks: AsyncIterable<Buffer>,
): AsyncGenerator<readonly string[], boolean> {
  const decoder = new StringDecoder()
  let rest = ''
  for await (const chunk of chunks) {
    const lines = (rest + decoder.write(chunk)).split('\n')
    rest = (lines.pop() ?? '').slice(0, MAX_LINE_CHARS + 1)
    yield lines
  }
  rest += decoder.end()
  if (rest !== '') yield [rest]
  return rest !== ''
}

type Pieces = AsyncGenerator<Buffer, undefined>

/** First bytes, and the program that packs so. */
const packings: readonly (readonly [begins: RegExp, program: string])[] = [
  [/^1f8b/, 'gzip'],
  // The second is a skippable frame (RFC 8878 section 3.1.2).
  [/^(?:28b52ffd|5.2a4d18)/, 'zstd'],
  [/^425a68/, 'bzip2'],
  [/^fd377a585a00/, 'xz'],
  [/^04224d18/, 'lz4'],
  [/^504b0304/, 'unzip'],
]
const MOST_BYTES = 6
/** No more is unpacked than is read: a fault loses what waits, and a small file may unpack to a thousand times its size. */
const BOUNDED = { chunkSize: 64 * 1024, readableHighWaterMark: 1 }

/** Yields unpacked bytes. cutOff: gets the file if its packed data ends too early, or is damaged from some byte on. */
async function* unpacked(pieces: Pieces, file: string, cutOff: string[]): Pieces {
  let givenBytes = 0
  const given = async function* (piece: Buffer | undefined): Pieces {
    for (; piece !== undefined; piece = (await pieces.next()).value) {
      givenBytes += piece.length
      yield piece
    }
  }
  try {
    const first = await firstOf(pieces)
    const begins = first?.toString('hex', 0, MOST_BYTES) ?? ''
    const [, program] = packings.find(([begin]) => begin.test(begins)) ?? []
    if (program === undefined) {
      yield* given(first)
      return
    }
    if (program !== 'gzip' && program !== 'zstd')
      throw new LogFileFault(
        file,
        `it is packed by ${program}, which is not read`,
        `unpack it on the way: ${program === 'unzip' ? 'unzip -p' : `${program} -dc`} ${file} | tollgate replay ... -`,
      )
    const stream = (program === 'gzip' ? createGunzip : createZstdDecompress)(BOUNDED)
    pipeline(given(first), stream, () => undefined)
    yield* stream
    // Node.js before 26 stops after the first frame of zstd. The last member of gzip is followed by padding at most.
    const isLeft = stream.bytesWritten < givenBytes || (await pieces.next()).value !== undefined
    if (program === 'zstd' && isLeft) cutOff.push(file)
  } catch (error) {
    if (error instanceof LogFileFault) throw error
    cutOff.push(file)
  } finally {
    await pieces.return(undefined)
  }
}

/** The first piece, with enough bytes to see how it is packed: a stream may begin with a shorter one. */
async function firstOf(pieces: Pieces): Promise<Buffer | undefined> {
  let first = Buffer.alloc(0)
  while (first.length < MOST_BYTES) {
    const { value } = await pieces.next()
    if (value === undefined) break
    first = Buffer.concat([first, value])
  }
  return first.length === 0 ? undefined : first
}
