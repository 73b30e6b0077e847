/**
 * Notices when a file has other content than before, whichever way it came there: written, renamed over, deleted and made
 * again, or behind a symbolic link that was swapped. Files are looked at now and then: a watch of the system is lost with the
 * name of its file, and notices nothing on a network file system.
 */
import { hash } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ReloadWish } from '../config/changes/blast-radius.ts'

interface FileWatchOptions {
  /** Called at each look. */
  files(): readonly string[]
  /**
   * Called once the files have stopped changing, and resolves to whether they were taken. While they were refused it is asked
   * with dryRun now and then, though none of them changes: an unknown file may be missing.
   */
  take(wish: ReloadWish): Promise<boolean>
}

const LOOK_EVERY_MS = 1_000
const SETTLED_MS = 300
const RETRY_AT_LEAST_MS = 2_000
const RETRY_AT_MOST_MS = 60_000
/** A longer file is identified by its time and size. */
const DIGEST_AT_MOST_BYTES = 1024 * 1024

export class FileWatch {
  readonly #options: FileWatchOptions
  /** Identity and content of each file. Written by #contentOf. */
  readonly #contents = new Map<string, { readonly identity: string; readonly content: string }>()
  #isClosed = false

  constructor(options: FileWatchOptions) {
    this.#options = options
  }

  /** reported: what the files held at first. A change in which files are watched counts as a change, too. */
  async start(reported: string | undefined): Promise<void> {
    const { take } = this.#options
    let [seen, retryAtMs, retryMs] = [reported, Infinity, RETRY_AT_LEAST_MS]
    for (let waitMs = 0; !this.#isClosed; await sleep(waitMs, undefined, { ref: false })) {
      const before = seen
      seen = await this.look()
      waitMs = seen === before ? LOOK_EVERY_MS : SETTLED_MS
      if (seen !== before) continue
      const isNew = seen !== reported
      if (isNew) [reported, retryMs] = [seen, RETRY_AT_LEAST_MS]
      else if (performance.now() < retryAtMs) continue
      const isTaken = (isNew || (await take({ dryRun: true }))) && (await take({}))
      retryAtMs = isTaken ? Infinity : performance.now() + retryMs
      retryMs = Math.min(2 * retryMs, RETRY_AT_MOST_MS)
    }
  }

  close(): void {
    this.#isClosed = true
  }

  /** Returns the content of all files now. One after the other: there may be thousands, or a file system that hangs. */
  async look(files = this.#options.files()): Promise<string> {
    const contents: string[] = []
    for (const file of files) contents.push(await this.#contentOf(file))
    return contents.join('\n')
  }

  async #contentOf(file: string): Promise<string> {
    try {
      const found = await stat(file, { bigint: true })
      const identity = [found.dev, found.ino, found.size, found.mtimeNs, found.ctimeNs].join(' ')
      const known = this.#contents.get(file)
      if (known?.identity === identity) return known.content
      // Reading a pipe could take forever.
      const isShort = found.isFile() && found.size <= DIGEST_AT_MOST_BYTES
      const digest = isShort ? hash('sha256', await readFile(file)) : identity
      const content = `${file} ${digest}`
      this.#contents.set(file, { identity, content })
      return content
    } catch {
      return `${file} cannot be read`
    }
  }
}
