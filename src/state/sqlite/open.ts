/** Opens store.file for this process alone, sets a damaged one aside, or says why it cannot be opened and how to mend that. */
import {
  accessSync,
  closeSync,
  constants,
  existsSync,
  mkdirSync,
  openSync,
  readSync,
  renameSync,
  rmSync,
  statSync,
} from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { windowNames } from '../../config/time.ts'
import { columnOf, DAY_COUNTS } from '../usage.ts'

/** "toll" in ASCII marks the file as a gateway's. */
const APPLICATION_ID = 0x746f6c6c
/** The version of the tables, which rises when older releases would misread them. */
const LAYOUT = 1
/** A gateway that is being replaced may need a moment to let go of the file. */
const LOCK_TIMEOUT_MS = 1_000

/** Counts above 2^53 cannot be read back as numbers. */
const countColumn = (name: string): string =>
  `${name} INTEGER NOT NULL CHECK (${name} BETWEEN 0 AND 9007199254740991)`

const usageColumns = `day INTEGER NOT NULL, client TEXT NOT NULL, plan TEXT NOT NULL, ${DAY_COUNTS.map((name) => `${columnOf(name)} INTEGER NOT NULL`).join()}, batch INTEGER NOT NULL`
const quotaCounts = [...windowNames.flatMap((name) => [`${name}_index`, `${name}_taken`]), 'ahead']
const tables = [
  {
    name: 'bans',
    key: 'key_id',
    columns: `key_id TEXT NOT NULL, until_ms INTEGER NOT NULL, count INTEGER NOT NULL, started_ms INTEGER NOT NULL,
      epoch_ms INTEGER, made_by TEXT, reason TEXT`,
  },
  {
    name: 'quota',
    key: 'client',
    columns: `client TEXT NOT NULL, ${quotaCounts.map(countColumn).join()}`,
  },
  { name: 'usage', key: 'day, client', columns: usageColumns },
  { name: 'usage_by_plan', key: 'day, client, plan', columns: usageColumns },
]

/**
 * Opens the file, creating it and its folder where missing. A damaged file of the gateway's own is renamed to
 * FILE.damaged-<Unix ms> (keptAs) and a new one begun: lost counts must not keep the gateway from starting. Another program's
 * file is refused and left as it is. The file stays locked until it is closed or the process ends, however it ends. Throws an error
 * for explainSqliteFault.
 */
export function openOrSetAside(file: string) {
  // A pipe or a device could block the thread for ever.
  if (statSync(file, { throwIfNoEntry: false })?.isFile() === false) throw new Refused(unusable)
  makeFolder(dirname(file))
  try {
    return { database: open(file), keptAs: undefined }
  } catch (error) {
    if (!damage.has(primaryCode(error)) || !isMarked(file)) throw error
  }
  const keptAs = `${file}.damaged-${Date.now()}`
  for (const part of ['', '-wal', '-shm', '-journal'])
    if (existsSync(file + part)) renameSync(file + part, keptAs + part)
  return { database: open(file), keptAs }
}

/** Returns device and inode of the file at this path; undefined where there is none. */
export function identityOf(file: string): string | undefined {
  const found = statSync(file, { bigint: true, throwIfNoEntry: false })
  return found && `${found.dev}:${found.ino}`
}

/**
 * Writes an open database, whose file somebody has removed, anew at its path. A file in its place stays: it may be a copy to start
 * with, or another gateway's. The database stays open, without a name. Throws an error for explainSqliteFault.
 */
export function writeAnew(database: DatabaseSync, file: string): void {
  const copy = `${file}.new-${Date.now()}`
  try {
    if (existsSync(file)) throw new Refused(inItsPlace)
    makeFolder(dirname(file))
    database.prepare('VACUUM INTO ?').run(copy)
    // The write-ahead log of the removed file would be taken for that of the new one.
    rmSync(`${file}-wal`, { force: true })
    renameSync(copy, file)
  } catch (cause) {
    if (existsSync(copy)) rmSync(copy)
    throw new Refused(`was removed under the gateway and ${faultAndRemedy(cause)}`, { cause })
  }
}

/** mkdirSync with `recursive` never ends below /proc, where a folder that cannot be created counts as missing. */
function makeFolder(path: string): void {
  if (existsSync(path)) return
  makeFolder(dirname(path))
  try {
    mkdirSync(path)
  } catch (error) {
    // Another gateway may have created it at the same moment.
    if (!existsSync(path)) throw error
  }
}

/** Whether the first bytes mark a gateway's file (https://www.sqlite.org/fileformat.html); damage further on leaves them intact. */
function isMarked(file: string): boolean {
  const head = Buffer.alloc(72)
  const descriptor = openSync(file, 'r')
  readSync(descriptor, head)
  closeSync(descriptor)
  return (
    head.toString('latin1', 0, 16) === 'SQLite format 3\0' &&
    head.readUInt32BE(68) === APPLICATION_ID
  )
}

function open(file: string): DatabaseSync {
  const database = new DatabaseSync(file, { timeout: LOCK_TIMEOUT_MS })
  try {
    // SQLite's own lock, which the kernel drops with the process: nothing stale is left behind by a kill -9.
    database.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA trusted_schema = OFF')
    refuseForeignFile(database)
    // Nothing changes before COMMIT in a file that will be set aside.
    database.exec(
      `BEGIN IMMEDIATE; PRAGMA application_id = ${APPLICATION_ID}; PRAGMA user_version = ${LAYOUT}`,
    )
    for (const { name, columns, key } of tables) {
      database.exec(
        `CREATE TABLE IF NOT EXISTS ${name} (${columns}, PRIMARY KEY (${key})) STRICT, WITHOUT ROWID`,
      )
      const there = database.prepare('SELECT name FROM pragma_table_info(?)').all(name)
      const wanted = Array.from(columns.matchAll(/(\w+) (?:TEXT|INTEGER)/g), ([, column]) => column)
      if (wanted.some((column) => there.every((one) => one['name'] !== column)))
        throw new DamagedFile()
    }
    // The totals of days are not checked: 40 million rows take longer than a start may.
    for (const table of ['bans', 'quota'])
      if (pragma(database, `quick_check(${table})`) !== 'ok') throw new DamagedFile()
    // NORMAL: a power cut may lose the last moments, never the file.
    database.exec('COMMIT; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL')
    // Opens the write-ahead log now: later its folder may be gone, and then the database could not even be read.
    database.exec('BEGIN IMMEDIATE; COMMIT')
    return database
  } catch (error) {
    database.close()
    throw error
  }
}

function refuseForeignFile(database: DatabaseSync): void {
  const owner = pragma(database, 'application_id')
  if (owner === APPLICATION_ID) {
    const layout = Number(pragma(database, 'user_version'))
    if (layout > LAYOUT)
      throw new Refused(
        `was written by a newer release (its layout is ${layout}, this one knows ${LAYOUT}); start that release, or name another file`,
      )
    return
  }
  const table = database.prepare("SELECT 1 FROM sqlite_schema WHERE type = 'table'").get()
  if (owner !== 0 || table !== undefined)
    throw new Refused('belongs to another program; name another file')
}

function pragma(database: DatabaseSync, name: string): string | number {
  return Object.values(database.prepare(`PRAGMA ${name}`).get() ?? {})[0] as string | number
}

/** Damage that SQLite itself did not report, with its code SQLITE_CORRUPT. */
class DamagedFile extends Error {
  readonly errcode = 11
}

/** The message is fault and remedy. */
class Refused extends Error {}

/** SQLITE_CORRUPT and SQLITE_NOTADB: nothing in the file can be trusted. */
const damage = new Set<number | undefined>([11, 26])
const readOnlyMount =
  'cannot be written, as its file system is mounted read-only; mount it writable, or name another file'
const unusable =
  'cannot be opened; it must be a file that this user may read and write, in a folder where it may make files; mend that, or name another file, or "" to count in memory only'
const inItsPlace =
  'another file stands in its place; move that away to keep what this gateway has counted, or restart the gateway to begin with it'
/** By primary result code, https://www.sqlite.org/rescode.html. */
const remedies: Readonly<Record<number, string>> = {
  3: unusable,
  5: 'is in use by another gateway; give each its own store.file, or share one Redis with store.redis',
  8: 'is read-only; give this user write permission on the file and its folder, or name another file',
  10: 'cannot be read or written, as the disk reported an error; check the disk, or name another file',
  11: 'is damaged; move it away to begin with an empty one',
  13: 'cannot be written, as the disk is full; make room',
  14: unusable,
  26: 'is not an SQLite database; name another file, or move it away to begin with an empty one',
}
/** Error codes of creating the folder. */
const folderFaults = new Set(['EACCES', 'EPERM', 'EROFS', 'ENOTDIR', 'EEXIST', 'ENOENT'])

/** Returns `store.file FILE`, its fault and the remedy. */
export const explainSqliteFault = (file: string, error: unknown): string =>
  `store.file ${file} ${isOnReadOnlyMount(file, error) ? readOnlyMount : faultAndRemedy(error)}`

/** Whether the file system is read-only, which SQLite reports as a fault of the disk, or as a file that cannot be opened. */
function isOnReadOnlyMount(file: string, error: unknown): boolean {
  if (primaryCode(error) === undefined) return false
  try {
    accessSync(existsSync(file) ? file : dirname(file), constants.W_OK)
    return false
  } catch (cause) {
    return (cause as NodeJS.ErrnoException).code === 'EROFS'
  }
}

function faultAndRemedy(error: unknown): string {
  if (!(error instanceof Error)) return `failed: ${String(error)}`
  if (error instanceof Refused) return error.message
  const { code } = error as NodeJS.ErrnoException
  if (code !== undefined && folderFaults.has(code)) return `${unusable} (${code})`
  return remedies[primaryCode(error) ?? -1] ?? `failed: ${error.message}`
}

/** Returns the primary result code, which is the low byte of an extended one. */
function primaryCode(error: unknown): number | undefined {
  const code = error instanceof Error && 'errcode' in error ? error.errcode : undefined
  return typeof code === 'number' ? code & 0xff : undefined
}
