/** Unpacks logs. Their first bytes show how they are packed; their names do not matter. */
import { createGunzip, createZstdDecompress, type Gunzip, type ZstdDecompress } from 'node:zlib'
import { LogFileFault } from './fault.ts'
import type { Input } from './input.ts'

const packings: readonly { readonly begins: string; readonly unpack: Unpack | string }[] = [
  { begins: '1f8b', unpack: (chunkBytes) => createGunzip(bounded(chunkBytes)) },
  { begins: '28b52ffd', unpack: zstd },
  // A skippable frame of zstd (RFC 8878 section 3.1.2).
  ...Array.from({ length: 16 }, (_, at) => ({ begins: `5${at.toString(16)}2a4d18`, unpack: zstd })),
  { begins: '425a68', unpack: 'bzip2' },
  { begins: 'fd377a585a00', unpack: 'xz' },
  { begins: '04224d18', unpack: 'lz4' },
  { begins: '504b0304', unpack: 'unzip' },
]
const MOST_BYTES = 6

type Unpack = (chunkSize: number) => Gunzip | ZstdDecompress
function zstd(chunkBytes: number): ZstdDecompress {
  return createZstdDecompress(bounded(chunkBytes))
}
/** The stream unpacks nothing more before its last chunk is read. */
const bounded = (chunkSize: number) => ({ chunkSize, readableHighWaterMark: 1 })

export interface Unpacking {
  readonly file: string
  /** Bytes read so far, still packed. */
  readBytes: number
  /** The packed data ends too early, or is damaged from some byte on. */
  isCutOff: boolean
}

/** Yields unpacked bytes; each chunk is valid until the next one is requested. */
export async function* unpacked(
  input: Input,
  state: Unpacking,
  chunkBytes: number,
): AsyncGenerator<Buffer, void> {
  const buffer = Buffer.allocUnsafe(chunkBytes)
  const more = async (): Promise<Buffer | undefined> => {
    const bytes = await input.read(buffer)
    state.readBytes += bytes
    return bytes === 0 ? undefined : buffer.subarray(0, bytes)
  }
  let first = await more()
  // A stream may begin with a shorter chunk.
  while (first !== undefined && first.length < MOST_BYTES) {
    const begun = Buffer.from(first)
    const next = await more()
    if (next === undefined) {
      first = begun
      break
    }
    first = Buffer.concat([begun, next])
  }
  if (first === undefined) return
  const begins = first.toString('hex', 0, MOST_BYTES)
  const unpack = packings.find((packing) => begins.startsWith(packing.begins))?.unpack
  if (typeof unpack === 'string')
    throw new LogFileFault(
      state.file,
      `it is packed by ${unpack}, which is not read`,
      `unpack it on the way: ${unpack === 'unzip' ? 'unzip -p' : `${unpack} -dc`} ${state.file} | tollgate replay ... -`,
    )
  if (unpack === undefined) {
    for (let chunk: Buffer | undefined = first; chunk; chunk = await more()) yield chunk
    return
  }
  for (let rest: Buffer | undefined = first; rest !== undefined;) {
    const left: Buffer | undefined = yield* through(unpack(chunkBytes), rest, more, state)
    // Node.js before 26 stops after the first frame of zstd. The last member of gzip is followed by padding at most.
    rest = unpack === zstd ? left : undefined
  }
}

/** Passes on what was unpacked before a fault: the stream is ended only when all its output was read. Returns the bytes that it did not consume. */
async function* through(
  stream: Gunzip | ZstdDecompress,
  first: Buffer,
  more: () => Promise<Buffer | undefined>,
  state: Unpacking,
): AsyncGenerator<Buffer, Buffer | undefined> {
  let givenBytes = 0
  let isTaken = false
  let isOver = false
  let wake = (): void => undefined
  const end = (): void => {
    isOver = true
    wake()
  }
  stream.on('readable', () => wake()).on('end', end)
  stream.on('error', () => {
    state.isCutOff = true
    end()
  })
  try {
    for (let piece: Buffer | undefined = first; ; piece = await more()) {
      isTaken = false
      const taken = (): void => {
        isTaken = true
        wake()
      }
      givenBytes += piece?.length ?? 0
      if (piece === undefined) stream.end()
      else stream.write(piece, taken)
      for (;;) {
        const out = stream.read() as Buffer | null
        if (out !== null) yield out
        else if (isTaken || isOver) break
        else await new Promise<void>((resolve) => (wake = resolve))
      }
      const untaken = givenBytes - stream.bytesWritten
      // The stream consumes no more, even if its end is not reported yet.
      if (!state.isCutOff && untaken > 0) return piece?.subarray(-untaken)
      if (piece === undefined || isOver) return undefined
    }
  } finally {
    stream.destroy()
  }
}
