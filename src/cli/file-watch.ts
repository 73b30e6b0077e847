/**
 * Notices when a file has other content than before, whichever way it came there: written, renamed over, deleted and made
 * again, or behind a symbolic link that was swapped. Folders are watched, as a watch on a file is lost with its name; changes
 * that the system does not report, as on a network file system, are found by looking every two seconds.
 */
import { createHash } from 'node:crypto'
import { watch, type FSWatcher } from 'node:fs'
import { readFile, realpath, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

export interface FileWatchOptions {
  /** Called at each look. */
  files(): readonly string[]
  /** Called once the files have stopped changing. Resolves to whether they were taken. */
  onChange(): Promise<boolean>
  /** Called now and then while they were refused, though none of them changes: an unknown file may be missing. */
  wouldBeTaken(): Promise<boolean>
}

const SETTLED_MS = 300
const BURST_MS = 50
const LOOK_EVERY_MS = 2_000
const RETRY_AT_MOST_MS = 60_000
/** A longer file is identified by its time and size. */
const DIGEST_AT_MOST_BYTES = 1024 * 1024

export class FileWatch {
  readonly #options: FileWatchOptions
  /** Watchers by folder. Written by #watchFolders. */
  readonly #watchers = new Map<string, FSWatcher>()
  /** Identity and content of each file. Written by #contentOf. */
  readonly #contents = new Map<string, { readonly identity: string; readonly content: string }>()
  /** Content of all files when last reported, or at first. Written by begin and start. */
  #reported = ''
  /** When to offer refused files again, and how long after that. Written by start and #retryLater. */
  #retryAtMs = Infinity
  #retryMs = LOOK_EVERY_MS
  /** Whether something has happened in a folder since the latest look began. Written by #noteChange and #look. */
  #hasChanged = false
  /** Ends the wait for the next look. Written by #wait. */
  #wake = (): void => {}
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
    while (!this.#isClosed) {
      const seen = await this.#look()
      if (seen !== this.#reported) {
        this.#reported = await this.#settled(seen)
        this.#retryMs = LOOK_EVERY_MS
      } else if (performance.now() < this.#retryAtMs) {
        await this.#wait()
        continue
      } else if (!(await this.#options.wouldBeTaken())) {
        this.#retryLater()
        continue
      }
      if (await this.#options.onChange()) this.#retryAtMs = Infinity
      else this.#retryLater()
    }
  }

  #retryLater(): void {
    this.#retryAtMs = performance.now() + this.#retryMs
    this.#retryMs = Math.min(2 * this.#retryMs, RETRY_AT_MOST_MS)
  }

  close(): void {
    this.#isClosed = true
    for (const watcher of this.#watchers.values()) watcher.close()
    this.#wake()
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

  /** Waits until something happens in a folder, or the time for a look has come. */
  async #wait(): Promise<void> {
    if (!this.#hasChanged) {
      const timeUp = setTimeout(() => this.#wake(), LOOK_EVERY_MS).unref()
      await new Promise<void>((resolve) => (this.#wake = resolve))
      clearTimeout(timeUp)
    }
    // Changes come in bursts.
    await sleep(BURST_MS, undefined, { ref: false })
  }

  /** Returns the content of all files now. */
  async #look(): Promise<string> {
    this.#hasChanged = false
    const files = this.#options.files()
    await this.#watchFolders(files)
    return (await Promise.all(files.map((file) => this.#contentOf(file)))).join('\n')
  }

  async #contentOf(file: string): Promise<string> {
    try {
      const { dev, ino, size, mtimeNs, ctimeNs } = await stat(file, { bigint: true })
      const identity = [dev, ino, size, mtimeNs, ctimeNs].join(' ')
      const known = this.#contents.get(file)
      if (known?.identity === identity) return known.content
      const digest =
        size > DIGEST_AT_MOST_BYTES
          ? identity
          : createHash('sha256')
              .update(await readFile(file))
              .digest('hex')
      const content = `${file} ${digest}`
      this.#contents.set(file, { identity, content })
      return content
    } catch {
      return `${file} cannot be read`
    }
  }

  /** Watches the folders of the files, and of the files that their links lead to. */
  async #watchFolders(files: readonly string[]): Promise<void> {
    const real = await Promise.all(files.map((file) => realpath(file).catch(() => file)))
    const wanted = new Set([...files, ...real].map((file) => dirname(file)))
    for (const [folder, watcher] of this.#watchers) {
      if (wanted.has(folder)) continue
      watcher.close()
      this.#watchers.delete(folder)
    }
    for (const folder of wanted) if (!this.#watchers.has(folder)) this.#watch(folder)
  }

  #noteChange(): void {
    this.#hasChanged = true
    this.#wake()
  }

  #watch(folder: string): void {
    if (this.#isClosed) return
    try {
      const watcher = watch(folder, { persistent: false }, () => this.#noteChange())
      const lose = (): void => void (watcher.close(), this.#watchers.delete(folder))
      watcher.on('error', lose)
      this.#watchers.set(folder, watcher)
    } catch {
      // The folder is missing, or the system has no watch left: the file is still looked at.
    }
  }
}
