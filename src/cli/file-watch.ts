/**
 * Notices when a file has other content than before, whichever way it came there: written, renamed over, deleted and made
 * again, or behind a symbolic link that was swapped. Files are looked at once a second: a watch of the system is lost with the
 * name of its file, and notices nothing on a network file system.
 */
import { hash } from 'node:crypto'
import { readFile, stat } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import type { ReloadWish } from '../config/changes/reload-outcome.ts'

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
  /** Content of all files when last reported, or at first. Written by begin and start. */
  #reported = ''
  /** When to offer refused files again, and how long after that. Written by start and #retryLater. */
  #retryAtMs = Infinity
  #retryMs = RETRY_AT_LEAST_MS
  #isClosed = false

  constructor(options: FileWatchOptions) {
    this.#options = options
  }

  /** Looks for the first time: later changes are reported once it starts. */
  async begin(): Promise<void> {
    this.#reported = await this.#look()
  }

  /** A change in which files are watched counts as a change, too. */
  async start(): Promise<void> {
    for (; !this.#isClosed; await sleep(LOOK_EVERY_MS, undefined, { ref: false })) {
      const seen = await this.#look()
      if (seen !== this.#reported) {
        this.#reported = await this.#settled(seen)
        this.#retryMs = RETRY_AT_LEAST_MS
      } else if (performance.now() < this.#retryAtMs) continue
      else if (!(await this.#options.take({ dryRun: true }))) {
        this.#retryLater()
        continue
      }
      if (await this.#options.take({})) this.#retryAtMs = Infinity
      else this.#retryLater()
    }
  }

  close(): void {
    this.#isClosed = true
  }

  #retryLater(): void {
    this.#retryAtMs = performance.now() + this.#retryMs
    this.#retryMs = Math.min(2 * this.#retryMs, RETRY_AT_MOST_MS)
  }

  async #settled(seen: string): Promise<string> {
    let before: string | undefined
    while (before !== seen && !this.#isClosed) {
      before = seen
      await sleep(SETTLED_MS, undefined, { ref: false })
      seen = await this.#look()
    }
    return seen
  }

  /** Returns the content of all files now. */
  async #look(): Promise<string> {
    const contents = this.#options.files().map((file) => this.#contentOf(file))
    return (await Promise.all(contents)).join('\n')
  }

  async #contentOf(file: string): Promise<string> {
    try {
      const { dev, ino, size, mtimeNs, ctimeNs } = await stat(file, { bigint: true })
      const identity = [dev, ino, size, mtimeNs, ctimeNs].join(' ')
      const known = this.#contents.get(file)
      if (known?.identity === identity) return known.content
      const isLong = size > DIGEST_AT_MOST_BYTES
      const digest = isLong ? identity : hash('sha256', await readFile(file))
      const content = `${file} ${digest}`
      this.#contents.set(file, { identity, content })
      return content
    } catch {
      return `${file} cannot be read`
    }
  }
}
