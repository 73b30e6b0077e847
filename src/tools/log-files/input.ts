/** Reads the bytes of logs from disk or from a stream. However many logs there are, few files are open at once. */
import { closeSync, fstatSync, openSync, read, statSync } from 'node:fs'
import { setTimeout } from 'node:timers/promises'
import { promisify } from 'node:util'
import { faultOf, LogFileFault } from './fault.ts'

/** Names the standard input on a command line. */
export const STDIN = '-'
const STDIN_DESCRIPTOR = 0

/** Most files open at once. One that was closed for others is opened again where its reading stopped. */
const MAX_OPEN = 128
const RETRY_MS = 20

const readInto = promisify(read)

export interface LogFile {
  readonly file: string
  /** undefined: a stream, which can be read only once. */
  readonly disk:
    { readonly bytes: number; readonly device: number; readonly inode: number } | undefined
}

/** Throws a LogFileFault for a file that does not exist, cannot be read or is named twice. */
export function findLogs(files: readonly string[]): LogFile[] {
  const seen = new Map<string, string>()
  return files.map((file) => {
    const found = findLog(file)
    const identity = found.disk ? `${found.disk.device}:${found.disk.inode}` : file
    const other = seen.get(identity)
    if (other !== undefined)
      throw new LogFileFault(file, `it is the same as ${other}`, 'name each log once')
    seen.set(identity, file)
    return found
  })
}

function findLog(file: string): LogFile {
  if (file === STDIN) return { file, disk: undefined }
  try {
    const stats = statSync(file)
    if (stats.isDirectory()) throw Object.assign(new Error(), { code: 'EISDIR' })
    // Opening a pipe would wait for its other end.
    if (!stats.isFile()) return { file, disk: undefined }
    closeSync(openSync(file, 'r'))
    return { file, disk: { bytes: stats.size, device: stats.dev, inode: stats.ino } }
  } catch (error) {
    throw faultOf(file, error)
  }
}

/** Open inputs, the least recently used first. */
export type OpenInputs = Set<Input>

export class Input {
  readonly #log: LogFile
  readonly #open: OpenInputs
  #descriptor: number | undefined
  #at = 0

  constructor(log: LogFile, open: OpenInputs) {
    this.#log = log
    this.#open = open
  }

  /** Returns the number of bytes read; 0: the end. */
  async read(into: Buffer): Promise<number> {
    const { file, disk } = this.#log
    try {
      const descriptor = (this.#descriptor ??= this.#reopen())
      if (disk !== undefined && this.#open.delete(this)) this.#open.add(this)
      const at = disk === undefined ? null : this.#at
      const { bytesRead } = await readInto(descriptor, into, 0, into.length, at)
      this.#at += bytesRead
      return bytesRead
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EAGAIN') throw faultOf(file, error)
      // Another process has made the standard input non-blocking.
      await setTimeout(RETRY_MS)
      return this.read(into)
    }
  }

  close(): void {
    if (this.#descriptor !== undefined && this.#descriptor !== STDIN_DESCRIPTOR)
      closeSync(this.#descriptor)
    this.#descriptor = undefined
    this.#open.delete(this)
  }

  #reopen(): number {
    const { file, disk } = this.#log
    if (file === STDIN) return STDIN_DESCRIPTOR
    const descriptor = openSync(file, 'r')
    if (disk === undefined) return descriptor
    const { ino, dev } = fstatSync(descriptor)
    if (ino !== disk.inode || dev !== disk.device) {
      closeSync(descriptor)
      throw new LogFileFault(file, 'another file has taken its name meanwhile', 'begin again')
    }
    const [oldest] = this.#open
    if (this.#open.size >= MAX_OPEN) oldest?.close()
    this.#open.add(this)
    return descriptor
  }
}
