/** Reads and writes the animals in one SQLite file; no other module does. */
import { DatabaseSync } from 'node:sqlite'
import type { NewPet, Pet } from './pet.ts'
import type { PageQuery } from './request.ts'

export type PetStore = ReturnType<typeof openPetStore>

/** Opens or creates the database. Throws an Error that names the file and the remedy; the store's methods throw SQLite's errors. */
export function openPetStore(file: string) {
  const database = openDatabase(file)
  // STRICT tables and the CHECK hold every row to the shape of a Pet, whoever wrote it.
  const columns = 'id, name, category_id AS categoryId, status'
  const statements = {
    page: database.prepare(`SELECT ${columns} FROM pets WHERE id > ? ORDER BY id LIMIT ?`),
    pageOfStatus: database.prepare(
      `SELECT ${columns} FROM pets WHERE status = ? AND id > ? ORDER BY id LIMIT ?`,
    ),
    byId: database.prepare(`SELECT ${columns} FROM pets WHERE id = ?`),
    insert: database.prepare(
      `INSERT INTO pets (name, category_id, status) VALUES (?, ?, ?) RETURNING ${columns}`,
    ),
    any: database.prepare('SELECT id FROM pets LIMIT 1'),
  }
  return {
    /** Lists animals in rising order of id; more: whether others follow them. */
    list({ limit, status, cursor }: PageQuery): { pets: Pet[]; more: boolean } {
      // One row more than asked for shows whether there is a next page.
      const rows =
        status === undefined
          ? statements.page.all(cursor, limit + 1)
          : statements.pageOfStatus.all(status, cursor, limit + 1)
      const pets = rows as unknown as Pet[]
      return { pets: pets.slice(0, limit), more: pets.length > limit }
    },
    get(id: bigint): Pet | undefined {
      return statements.byId.get(id) as Pet | undefined
    },
    /** Stores the animal; it is durable on return. */
    add({ name, categoryId, status }: NewPet): Pet {
      return statements.insert.get(name, categoryId, status ?? null) as unknown as Pet
    },
    isEmpty: (): boolean => statements.any.get() === undefined,
    /** SQLite folds the write-ahead log into the file when the last connection closes. */
    close: () => database.close(),
  }
}

/** "pets" in ASCII marks a file as a catalogue's, so that no other program's file is written to. */
const applicationId = 0x70657473n
const schemaVersion = 1n

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

/** Creates the file and its table if they are missing, but no folder. Throws an Error that names the file, the fault and the remedy. */
function openDatabase(file: string): DatabaseSync {
  let database: DatabaseSync | undefined
  try {
    database = new DatabaseSync(file, { readBigInts: true, timeout: 2_000 })
    prepareDatabase(database)
    return database
  } catch (error) {
    database?.close()
    throw new Error(`catalogue database "${file}": ${faultAndRemedy(error)}`, { cause: error })
  }
}

function prepareDatabase(database: DatabaseSync): void {
  database.exec('PRAGMA trusted_schema = OFF')
  // With IMMEDIATE, the second of two processes that start on one new file waits and finds the table.
  database.exec('BEGIN IMMEDIATE')
  if (pragma(database, 'schema_version') === 0n) database.exec(schema)
  database.exec('COMMIT')
  if (pragma(database, 'application_id') !== applicationId)
    throw new Error('it belongs to another program; name another file')
  const version = pragma(database, 'user_version')
  if (version !== schemaVersion)
    throw new Error(
      `it has schema version ${version}, this program knows ${schemaVersion}; use the program that made it, or name another file`,
    )
  // In WAL mode, less than FULL may lose an animal already answered with 201 in a power cut.
  database.exec('PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL')
  // A damaged page would otherwise be noticed in the middle of a listing.
  if (pragma(database, 'quick_check(1)') !== 'ok') throw new Error(damaged)
}

const pragma = (database: DatabaseSync, name: string): string | bigint =>
  Object.values(database.prepare(`PRAGMA ${name}`).get() ?? {})[0] as string | bigint

const damaged =
  'it is damaged; restore it from a backup, or move it away to begin with an empty one'

/** Codes of SQLite that its own message does not explain, https://www.sqlite.org/rescode.html. */
const faults: Readonly<Record<number, string>> = {
  11: damaged,
  14: 'it cannot be opened; it must be a file that this user may read and write, in a folder where it may create files',
  26: 'it is not an SQLite database; name another file, or move this one away',
}

function faultAndRemedy(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  // The upper bits of an extended result code only refine the primary one in the lowest byte.
  const code = 'errcode' in error ? Number(error.errcode) & 0xff : 0
  return faults[code] ?? error.message
}
