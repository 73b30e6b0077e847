/** Finds logs, and reads their lines from disk or from a stream. Their first bytes show how they are packed; their names do not matter. */
import { closeSync, createReadStream, openSync, statSync } from 'node:fs'
import { pipeline } from 'node:stream'
import { StringDecoder } from 'node:string_decoder'
import { createGunzip, createZstdDecompress } from 'node:zlib'
import { Fault } from '../fault.ts'

export const unreadableLog = (file: string, reason: string, remedy: string): Fault =>
  new Fault('unreadable', `cannot read the log ${file}`, { reason, remedy })

const byCode: Readonly<Record<string, readonly [reason: string, remedy: string]>> = {
  ENOENT: ['there is no such file', 'name one that exists'],
  EACCES: ['this user may not read it', 'give the right to read it, or run as its owner'],
  EPERM: ['this user may not read it', 'give the right to read it, or run as its owner'],
  EISDIR: ['it is a directory', 'name the files in it, such as DIR/*.log'],
  EMFILE: ['this process may open no more files', 'raise the limit of open files (ulimit -n)'],
}

function faultOf(file: string, error: unknown): Fault {
  if (error instanceof Fault) return error
  const { code = '', message } = error as NodeJS.ErrnoException
  const [reason, remedy] = byCode[code] ?? [message, 'see whether the disk is well']
  return unreadableLog(file, reason, remedy)
}

/** Names the standard input on a command line. */
const STDIN = '-'

export interface LogFile {
  readonly file: string
  /** Tells a file on disk from others, whatever their names; of a stream, its name. */
  readonly identity: string
  /** Size on disk; undefined: a stream, which can be read only once. */
  readonly bytes: number | undefined
}

/** Throws a Fault for a file that does not exist, cannot be read or is named twice. */
export function findLogs(files: readonly string[]): LogFile[] {
  const seen = new Map<string, string>()
  return files.map((file) => {
    const found = findLog(file)
    const other = seen.get(found.identity)
    if (other !== undefined)
      throw unreadableLog(file, `it is the same as ${other}`, 'name each log once')
    seen.set(found.identity, file)
    return found
  })
}

function findLog(file: string): LogFile {
  const stream = { file, identity: file, bytes: undefined }
  if (file === STDIN) return stream
  try {
    const stats = statSync(file)
    if (stats.isDirectory()) throw Object.assign(new Error(), { code: 'EISDIR' })
    // Opening a pipe would wait for its other end.
    if (!stats.isFile()) return stream
    closeSync(openSync(file, 'r'))
    return { file, identity: `${stats.dev}:${stats.ino}`, bytes: stats.size }
  } catch (error) {
    throw faultOf(file, error)
  }
}

/** Yields the bytes of a log, as they are on disk, and counts them. Throws a Fault. */
async function* bytesOf(
  { file, identity, bytes }: LogFile,
  counts: { readBytes: number },
): AsyncGenerator<Buffer, undefined> {
  if (bytes !== undefined && findLog(file).identity !== identity)
    throw unreadableLog(file, 'another file has taken its name meanwhile', 'begin again')
  try {
    const stream = file === STDIN ? process.stdin : createReadStream(file)
    for await (const chunk of stream as AsyncIterable<Buffer>) {
      counts.readBytes += chunk.length
      yield chunk
    }
  } catch (error) {
    throw faultOf(file, error)
  }
}

/** Counts over all logs of what has been read so far. */
export interface ReadCounts {
  /** Bytes on disk, packed or not. */
  readBytes: number
  /** Files that end within compressed data or within a line. */
  readonly cutOff: string[]
}

/** Yields the lines of a log as linesOf does. Throws a Fault. */
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
      throw unreadableLog(
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
    if (error instanceof Fault) throw error
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
