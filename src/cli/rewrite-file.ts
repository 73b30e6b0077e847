/** Replaces a file whole or not at all: who reads it meanwhile sees the old text or the new one, and of two who write none is lost. */
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { readText } from '../config/load.ts'

const LOCK_AT_MOST_MS = 5_000
const LOCK_EVERY_MS = 50

/** Symbolic links are followed. Rejects with ConfigError where the text cannot be read, with an Error that says why it was not written. */
export async function rewriteFile(file: string, change: (text: string) => string): Promise<void> {
  // The name as given, so that what is wrong with a file that is not there is told as of any other.
  const path = fs.existsSync(file) ? fs.realpathSync(file) : file
  const beside = (name: string): string => join(dirname(path), `.${basename(path)}.${name}`)
  const lock = beside('lock')
  await takeLock(lock)
  try {
    replace(path, beside(`${randomBytes(6).toString('hex')}.tmp`), change)
  } finally {
    fs.rmSync(lock, { force: true })
  }
}

async function takeLock(lock: string): Promise<void> {
  const giveUpAtMs = performance.now() + LOCK_AT_MOST_MS
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

function replace(path: string, temporary: string, change: (text: string) => string): void {
  const text = readText(path)
  const next = change(text)
  try {
    const file = fs.openSync(temporary, 'wx', 0o600)
    try {
      fs.writeFileSync(file, next)
      keepOwner(file, fs.statSync(path))
      fs.fsyncSync(file)
    } finally {
      fs.closeSync(file)
    }
    if (readText(path) !== text) throw new Error(`${path} has changed meanwhile; try again`)
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
