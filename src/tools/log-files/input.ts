/** Finds logs, and reads their bytes from disk or from a stream. */
import { closeSync, createReadStream, openSync, statSync } from 'node:fs'

/** A log that cannot be read, with the reason and the remedy that a command prints. */
export class LogFileFault extends Error {
  override readonly name = 'LogFileFault'
  readonly code = 'unreadable'
  readonly file: string
  readonly reason: string
  readonly remedy: string

  constructor(file: string, reason: string, remedy: string) {
    super(`cannot read the log ${file}`)
    this.file = file
    this.reason = reason
    this.remedy = remedy
  }
}

const byCode: Readonly<Record<string, readonly [reason: string, remedy: string]>> = {
  ENOENT: ['there is no such file', 'name one that exists'],
  EACCES: ['this user may not read it', 'give the right to read it, or run as its owner'],
  EPERM: ['this user may not read it', 'give the right to read it, or run as its owner'],
  EISDIR: ['it is a directory', 'name the files in it, such as DIR/*.log'],
  EMFILE: ['this process may open no more files', 'raise the limit of open files (ulimit -n)'],
}

function faultOf(file: string, error: unknown): LogFileFault {
  if (error instanceof LogFileFault) return error
  const { code = '', message } = error as NodeJS.ErrnoException
  const [reason, remedy] = byCode[code] ?? [message, 'see whether the disk is well']
  return new LogFileFault(file, reason, remedy)
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

/** Throws a LogFileFault for a file that does not exist, cannot be read or is named twice. */
export function findLogs(files: readonly string[]): LogFile[] {
  const seen = new Map<string, string>()
  return files.map((file) => {
    const found = findLog(file)
    const other = seen.get(found.identity)
    if (other !== undefined)
      throw new LogFileFault(file, `it is the same as ${other}`, 'name each log once')
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

/** Yields the bytes of a log, as they are on disk, and counts them. Throws a LogFileFault. */
export async function* bytesOf(
  { file, identity, bytes }: LogFile,
  counts: { readBytes: number },
): AsyncGenerator<Buffer, undefined> {
  if (bytes !== undefined && findLog(file).identity !== identity)
    throw new LogFileFault(file, 'another file has taken its name meanwhile', 'begin again')
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
