/** Opens the catalogue's SQLite file, or reports the fault and its remedy. */
import { DatabaseSync } from 'node:sqlite'

/** "pets" in ASCII marks a file as a catalogue's, so that no other program's file is written to. */
const applicationId = 0x70657473
const schemaVersion = 1

/** AUTOINCREMENT never assigns an id twice, even after the animal with the highest one is gone. */
const schema = `
  CREATE TABLE pets (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    name TEXT NOT NULL,
    category_id INTEGER NOT NULL,
    status TEXT CHECK (status IN ('available', 'pending', 'sold'))
  ) STRICT;
  CREATE INDEX pets_by_status ON pets (status, id);
  PRAGMA application_id = ${applicationId};
  PRAGMA user_version = ${schemaVersion};
`

/** Creates the file and its table if they are missing, but no folder. Throws an Error with file, fault and remedy. */
export function openDatabase(file: string): DatabaseSync {
  let database: DatabaseSync | undefined
  try {
    database = new DatabaseSync(file)
    prepareDatabase(database)
    return database
  } catch (error) {
    database?.close()
    throw new Error(`catalogue database "${file}": ${faultAndRemedy(error)}`, {
      cause: error,
    })
  }
}

function prepareDatabase(database: DatabaseSync): void {
  // Node 22 does not know all of these as options of the constructor.
  database.exec('PRAGMA busy_timeout = 2000; PRAGMA trusted_schema = OFF')
  // With IMMEDIATE, the second of two processes that start on one new file waits and finds the table.
  database.exec('BEGIN IMMEDIATE')
  if (pragma(database, 'schema_version') === 0) database.exec(schema)
  database.exec('COMMIT')
  refuseForeignFile(database)
  // In WAL mode, less than FULL may lose an animal already answered with 201 in a power cut.
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
  // A damaged page would otherwise be noticed in the middle of a listing.
  const check = pragma(database, 'quick_check(1)')
  if (check !== 'ok') throw new Error(damaged)
}

function refuseForeignFile(database: DatabaseSync): void {
  if (pragma(database, 'application_id') !== applicationId) {
    throw new Error('it belongs to another program; name another file')
  }
  const version = pragma(database, 'user_version')
  if (version !== schemaVersion) {
    throw new Error(
      `it has schema version ${version}, this program knows ${schemaVersion}; use the program that made it, or name another file`,
    )
  }
}

function pragma(database: DatabaseSync, name: string): string | number {
  return Object.values(database.prepare(`PRAGMA ${name}`).get() ?? {})[0] as string | number
}

/** Codes of SQLite that its own message does not explain, https://www.sqlite.org/rescode.html. */
const CANTOPEN = 14
const CORRUPT = 11
const NOTADB = 26

const damaged =
  'it is damaged; restore it from a backup, or move it away to begin with an empty one'

function faultAndRemedy(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  // The upper bits of an extended result code only refine the primary one in the lowest byte.
  const code = 'errcode' in error ? Number(error.errcode) & 0xff : undefined
  if (code === CORRUPT) return damaged
  if (code === NOTADB)
    return 'it is not an SQLite database; name another file, or move this one away'
  if (code === CANTOPEN)
    return 'it cannot be opened; it must be a file that this user may read and write, in a folder where it may create files'
  return error.message
}
