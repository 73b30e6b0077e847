/**
 * Sees when a file has another content than before, whichever way it came there: written, renamed over, deleted and made
 * again, or behind a symbolic link that was swapped. Folders are watched, as a watched file is lost with its name; what
 * the system does not tell, as on a network file system, is found by looking every two seconds.
 */
import { createHash } from 'node:crypto'
import { watch, type FSWatcher } from 'node:fs'
import { readFile, realpath, stat } from 'node:fs/promises'
import { dirname } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

export interface FileWatchOptions {
  /** Asked at each look. */
  files(): readonly string[]
  /** Told once the files have stood still. Whether they were taken. */
  onChange(): Promise<boolean>
  /** Asked now and then while they were not, though none of them changes: they may lack a file that nobody knows of. */
  wouldBeTaken(): Promise<boolean>
}

const SETTLED_MS = 300
const STIRRED_MS = 50
const LOOK_EVERY_MS = 2_000
const RETRY_AT_MOST_MS = 60_000
/** A file beyond it is known by its time and size. */
const DIGEST_AT_MOST_BYTES = 1024 * 1024

export class FileWatch {
  readonly #options: FileWatchOptions
  /** By folder. Written by #watchFolders. */
  readonly #watchers = new Map<string, FSWatcher>()
  /** By file: what it is known by, and its content. Written by #contentOf. */
  readonly #contents = new Map<string, { readonly identity: string; readonly content: string }>()
  /** What all of them held when last told of, or at first. Written by begin and start. */
  #told = ''
  /** When to try again what was not taken, and how long after that. Written by start and #retryLater. */
  #retryAtMs = Infinity
  #retryMs = LOOK_EVERY_MS
  /** Something has happened in a folder since the latest look began. Written by #stir and #look. */
  #isStirred = false
  /** Ends the wait for the next look. Written by #wait. */
  #wake = (): void => {}
  #isClosed = false

  constructor(options: FileWatchOptions) {
    this.#options = options
  }

  /** Looks for the first time: of what happens from here on is told once it starts. */
  async begin(): Promise<void> {
    this.#told = await this.#look()
  }

  /** Where other files are looked at after a change, that is told once more. */
  async start(): Promise<void> {
    while (!this.#isClosed) {
      const seen = await this.#look()
      if (seen !== this.#told) {
        this.#told = await this.#settled(seen)
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

  /** Until something happens in a folder, or the time for a look has come. */
  async #wait(): Promise<void> {
    if (!this.#isStirred) {
      const timeUp = setTimeout(() => this.#wake(), LOOK_EVERY_MS).unref()
      await new Promise<void>((resolve) => (this.#wake = resolve))
      clearTimeout(timeUp)
    }
    // Things come in crowds.
    await sleep(STIRRED_MS, undefined, { ref: false })
  }

  /** What all files hold now. */
  async #look(): Promise<string> {
    this.#isStirred = false
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

  /** Those of the files, and those that their links lead to. */
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

  #stir(): void {
    this.#isStirred = true
    this.#wake()
  }

  #watch(folder: string): void {
    if (this.#isClosed) return
    try {
      const watcher = watch(folder, { persistent: false }, () => this.#stir())
      const lose = (): void => void (watcher.close(), this.#watchers.delete(folder))
      watcher.on('error', lose)
      this.#watchers.set(folder, watcher)
    } catch {
      // It is not there, or the system has none left to give: it is looked at all the same.
    }
  }
}
