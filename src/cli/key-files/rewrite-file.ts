/** Replaces a file whole or not at all: a reader sees the old text or the new one, and of two writers neither loses its change. */
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { basename, dirname, extname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { readText } from '../../config/files.ts'

const LOCK_AT_MOST_MS = 5_000
const LOCK_EVERY_MS = 50

interface Rewrite {
  readonly change: (text: string) => string
  /** Checks the new text, which stands in a temporary file with the same ending; throws if it is refused. */
  readonly judge?: (text: string, path: string) => void
  /** Makes the file where none has its name yet. Default: that is an error. */
  readonly mayMake?: boolean
  /** How long to wait for another writer. Default 5,000. */
  readonly lockAtMostMs?: number
}

/** Follows symbolic links. Rejects with ConfigError where the text cannot be read, with an Error that says why it was not written. */
export async function rewriteFile(file: string, how: Rewrite): Promise<void> {
  // The name as given, so that a missing file is reported as any other.
  const path = fs.existsSync(file) ? fs.realpathSync(file) : file
  const beside = (name: string): string => join(dirname(path), `.${basename(path)}.${name}`)
  const lock = beside('lock')
  await takeLock(lock, how.lockAtMostMs ?? LOCK_AT_MOST_MS)
  try {
    replace(path, beside(`${randomBytes(6).toString('hex')}.tmp${extname(file)}`), how)
  } finally {
    fs.rmSync(lock, { force: true })
  }
}

async function takeLock(lock: string, atMostMs: number): Promise<void> {
  const giveUpAtMs = performance.now() + atMostMs
  for (;;) {
    try {
      return fs.closeSync(fs.openSync(lock, 'wx'))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    }
    if (performance.now() > giveUpAtMs) {
      const since = fs.statSync(lock).mtime.toISOString()
      throw new Error(
        `${lock} is there since ${since}: another command writes the file; wait for it, or remove the lock if none is running`,
      )
    }
    await sleep(LOCK_EVERY_MS)
  }
}

/** A symbolic link that leads nowhere is not absent. */
export const isAbsent = (file: string): boolean =>
  fs.lstatSync(file, { throwIfNoEntry: false }) === undefined

function replace(path: string, temporary: string, { change, judge, mayMake }: Rewrite): void {
  const read = (): string => (mayMake && isAbsent(path) ? '' : readText(path))
  const text = read()
  const next = change(text)
  try {
    const file = fs.openSync(temporary, 'wx', 0o600)
    try {
      fs.writeFileSync(file, next)
      if (isAbsent(path)) fs.fchmodSync(file, 0o640)
      else keepOwner(file, fs.statSync(path))
      fs.fsyncSync(file)
    } finally {
      fs.closeSync(file)
    }
    judge?.(next, temporary)
    if (read() !== text) throw new Error(`${path} has changed meanwhile; try again`)
    fs.renameSync(temporary, path)
  } catch (error) {
    fs.rmSync(temporary, { force: true })
    throw error
  }
  const folder = fs.openSync(dirname(path), 'r')
  fs.fsyncSync(folder)
  fs.closeSync(folder)
}

/** Only root may give a file away; the group may be kept all the same. */
function keepOwner(file: number, { uid, gid, mode }: fs.Stats): void {
  for (const owner of [uid, fs.fstatSync(file).uid])
    try {
      fs.fchownSync(file, owner, gid)
      break
    } catch {
      continue
    }
  fs.fchmodSync(file, mode & 0o7777)
}
