/** Unpacks logs. Their first bytes show how they are packed; their names do not matter. */
import { createGunzip, createZstdDecompress, type Gunzip, type ZstdDecompress } from 'node:zlib'
import { LogFileFault } from './input.ts'

type Pieces = AsyncGenerator<Buffer, undefined>

/** What gives an unpacker, or the name of the program that unpacks it. */
const packings: readonly (readonly [
  begins: RegExp,
  'gzip' | 'zstd' | 'bzip2' | 'xz' | 'lz4' | 'unzip',
])[] = [
  [/^1f8b/, 'gzip'],
  // The second is a skippable frame (RFC 8878 section 3.1.2).
  [/^(?:28b52ffd|5.2a4d18)/, 'zstd'],
  [/^425a68/, 'bzip2'],
  [/^fd377a585a00/, 'xz'],
  [/^04224d18/, 'lz4'],
  [/^504b0304/, 'unzip'],
]
const MOST_BYTES = 6
const CHUNK_BYTES = 64 * 1024
/** What is unpacked at once, of which a thousand times as much may come. */
const PART_BYTES = 16 * 1024

/** Yields unpacked bytes. cutOff: gets the file if its packed data ends too early, or is damaged from some byte on. */
export async function* unpacked(pieces: Pieces, file: string, cutOff: string[]): Pieces {
  try {
    const first = await firstOf(pieces)
    if (first === undefined) return
    const begins = first.toString('hex', 0, MOST_BYTES)
    const [, packing] = packings.find(([begin]) => begin.test(begins)) ?? []
    if (packing === undefined) {
      yield first
      yield* pieces
    } else if (packing === 'gzip' || packing === 'zstd')
      yield* unpackedBy(packing, first, pieces, () => cutOff.push(file))
    else
      throw new LogFileFault(
        file,
        `it is packed by ${packing}, which is not read`,
        `unpack it on the way: ${packing === 'unzip' ? 'unzip -p' : `${packing} -dc`} ${file} | tollgate replay ... -`,
      )
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

async function* unpackedBy(
  packing: 'gzip' | 'zstd',
  first: Buffer,
  pieces: Pieces,
  onFault: () => void,
): Pieces {
  const create = packing === 'gzip' ? createGunzip : createZstdDecompress
  let rest: Buffer | undefined = first
  while (rest !== undefined) {
    rest = yield* through(create({ chunkSize: CHUNK_BYTES }), rest, pieces, onFault)
    // Node.js before 26 stops after the first frame of zstd. The last member of gzip is followed by padding at most.
    if (packing === 'gzip') return
  }
}

/** Passes on what was unpacked before a fault: the stream is ended only when all its output was taken. Returns the bytes that it did not consume. */
async function* through(
  stream: Gunzip | ZstdDecompress,
  first: Buffer,
  pieces: Pieces,
  onFault: () => void,
): AsyncGenerator<Buffer, Buffer | undefined> {
  const out: Buffer[] = []
  let settle = (): void => undefined
  stream.on('data', (chunk: Buffer) => out.push(chunk))
  stream.on('end', () => settle())
  let isFaulty = false
  stream.on('error', () => {
    isFaulty = true
    onFault()
    settle()
  })
  let givenBytes = 0
  try {
    let piece: Buffer | undefined = first
    for (; piece !== undefined; piece = (await pieces.next()).value)
      for (let at = 0; at < piece.length; at += PART_BYTES) {
        const part = piece.subarray(at, at + PART_BYTES)
        givenBytes += part.length
        await new Promise<void>((resolve) => {
          settle = resolve
          stream.write(part, () => resolve())
        })
        yield* out.splice(0)
        if (isFaulty) return undefined
        const untaken = givenBytes - stream.bytesWritten
        if (untaken > 0) return piece.subarray(at + part.length - untaken)
      }
    await new Promise<void>((resolve) => {
      settle = resolve
      stream.end()
    })
    yield* out.splice(0)
    return undefined
  } finally {
    stream.destroy()
  }
}
