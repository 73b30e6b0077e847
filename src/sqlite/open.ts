/** Opens store.file for this process alone, sets a damaged one aside, or says what keeps it from being opened and how to mend it. */
import { existsSync, mkdirSync, renameSync } from 'node:fs'
import { dirname } from 'node:path'
import { DatabaseSync } from 'node:sqlite'

/** "toll" in ASCII: marks the file as a gateway's. */
const APPLICATION_ID = 0x746f6c6c
/** Rises when tables change in a way that older releases would misread. */
const LAYOUT = 1
/** A gateway that is being replaced may need a moment to let go of the file. */
const LOCK_TIMEOUT_MS = 1_000

/** Counts above 2^53 cannot be read back as numbers. */
const count = 'INTEGER NOT NULL CHECK (%s BETWEEN 0 AND 9007199254740991)'
const countColumn = (name: string): string => `${name} ${count.replace('%s', name)}`

const tables = `
  CREATE TABLE IF NOT EXISTS bans (
    key_id TEXT PRIMARY KEY, until_ms INTEGER NOT NULL, count INTEGER NOT NULL, started_ms INTEGER NOT NULL
  ) STRICT, WITHOUT ROWID;
  CREATE TABLE IF NOT EXISTS quota (
    client TEXT PRIMARY KEY, ${['minute_index', 'minute_taken', 'day_index', 'day_taken'].map(countColumn).join(', ')}
  ) STRICT, WITHOUT ROWID;
  PRAGMA application_id = ${APPLICATION_ID};
  PRAGMA user_version = ${LAYOUT};
`
const columnsThere = `
  SELECT key_id, until_ms, count, started_ms FROM bans LIMIT 1;
  SELECT client, minute_index, minute_taken, day_index, day_taken FROM quota LIMIT 1;
`

export interface OpenedFile {
  readonly database: DatabaseSync
  /** The new name of a damaged file that was set aside. */
  readonly keptAs: string | undefined
}

/**
 * Opens the file, making it and its folder where missing. One that is damaged, or holds tables that nobody has marked as
 * theirs, is renamed to FILE.damaged-<Unix ms> and a new one begun: lost counts must not keep the gateway from starting.
 * The file stays locked until it is closed or the process ends, however it ends.
 * Throws an Error with file, fault and remedy.
 */
export function openOrSetAside(file: string): OpenedFile {
  try {
    mkdirSync(dirname(file), { recursive: true })
    try {
      return { database: open(file), keptAs: undefined }
    } catch (error) {
      if (!isDamage(error)) throw error
    }
    const keptAs = setAside(file)
    return { database: open(file), keptAs }
  } catch (cause) {
    throw new Error(explainSqliteFault(file, cause), { cause })
  }
}

function open(file: string): DatabaseSync {
  const database = new DatabaseSync(file, { timeout: LOCK_TIMEOUT_MS })
  try {
    // SQLite's own lock, which the kernel drops with the process: nothing stale is left behind by a kill -9.
    database.exec('PRAGMA locking_mode = EXCLUSIVE; PRAGMA trusted_schema = OFF')
    refuseForeignFile(database)
    if (pragma(database, 'quick_check(1)') !== 'ok') throw new DamagedFile()
    // Until COMMIT nothing is changed in a file that will be set aside.
    database.exec(`BEGIN IMMEDIATE; ${tables}`)
    requireColumns(database)
    // NORMAL: a power cut may lose the last moments, never the file.
    database.exec('COMMIT; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL')
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
  if (owner !== 0) throw new Refused('belongs to another program; name another file')
  const names = database.prepare("SELECT name FROM sqlite_schema WHERE type = 'table'").all()
  // Before there was a mark, the file held bans alone.
  if (names.some(({ name }) => name !== 'bans')) throw new DamagedFile()
}

function requireColumns(database: DatabaseSync): void {
  try {
    database.exec(columnsThere)
  } catch (error) {
    throw primaryCode(error) === SQLITE_ERROR ? new DamagedFile() : error
  }
}

function pragma(database: DatabaseSync, name: string): string | number {
  return Object.values(database.prepare(`PRAGMA ${name}`).get() ?? {})[0] as string | number
}

function setAside(file: string): string {
  const keptAs = `${file}.damaged-${Date.now()}`
  for (const part of ['', '-wal', '-shm', '-journal'])
    if (existsSync(file + part)) renameSync(file + part, keptAs + part)
  return keptAs
}

class DamagedFile extends Error {}

/** The message is fault and remedy. */
class Refused extends Error {}

/** Primary result codes, https://www.sqlite.org/rescode.html. */
const SQLITE_ERROR = 1
/** SQLITE_CORRUPT and SQLITE_NOTADB: nothing in the file can be trusted. */
const damage = new Set<number | undefined>([11, 26])
const unusable =
  'cannot be opened; it must be a file that this user may read and write, in a folder where it may make files; mend that, or name another file, or "" to count in memory only'
const remedies: Readonly<Record<number, string>> = {
  3: unusable,
  5: 'is in use by another gateway; give each its own store.file, or share one Redis with store.redis',
  8: 'is read-only; give this user write permission on the file and its folder, or name another file',
  10: 'cannot be read or written, as the disk reported an error; check the disk, or name another file',
  11: 'is damaged; move it away to begin with an empty one',
  13: 'cannot be written, as the disk is full; make room',
  14: unusable,
  26: 'is not an SQLite database; move it away to begin with an empty one',
}
/** Of making the folder. */
const folderFaults = new Set(['EACCES', 'EPERM', 'EROFS', 'ENOTDIR', 'EEXIST', 'ENOENT'])

/** `store.file FILE`, what is wrong with it, and what to do. */
export function explainSqliteFault(file: string, error: unknown): string {
  return `store.file ${file} ${faultAndRemedy(error)}`
}

function faultAndRemedy(error: unknown): string {
  if (!(error instanceof Error)) return `failed: ${String(error)}`
  if (error instanceof Refused) return error.message
  const { code } = error as NodeJS.ErrnoException
  if (code !== undefined && folderFaults.has(code)) return `${unusable} (${code})`
  return remedies[primaryCode(error) ?? -1] ?? `failed: ${error.message}`
}

function isDamage(error: unknown): boolean {
  return error instanceof DamagedFile || damage.has(primaryCode(error))
}

/** Extended codes carry the primary one in their low byte. */
function primaryCode(error: unknown): number | undefined {
  const code = error instanceof Error && 'errcode' in error ? error.errcode : undefined
  return typeof code === 'number' ? code & 0xff : undefined
}
