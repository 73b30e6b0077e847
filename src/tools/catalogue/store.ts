/** Reads and writes the animals in one SQLite file; no other module does. */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { openDatabase } from './open-database.ts'
import type { PageQuery } from './parameters.ts'
import type { NewPet, Pet, PetStatus } from './pet.ts'

export type PetStore = ReturnType<typeof openPetStore>

/** STRICT tables and the CHECK hold every row to this shape, whoever wrote it. */
interface Row {
  readonly id: bigint
  readonly name: string
  readonly category_id: bigint
  readonly status: PetStatus | null
}

const toPet = ({ id, name, category_id: categoryId, status }: Row): Pet =>
  status === null ? { id, name, categoryId } : { id, name, categoryId, status }

/** Opens or creates the database. Throws an Error that names the file and the remedy; the store's methods throw SQLite's errors. */
export function openPetStore(file: string) {
  const database = openDatabase(file)
  const columns = 'id, name, category_id, status'
  const statements = {
    page: prepare(database, `SELECT ${columns} FROM pets WHERE id > ? ORDER BY id LIMIT ?`),
    pageOfStatus: prepare(
      database,
      `SELECT ${columns} FROM pets WHERE status = ? AND id > ? ORDER BY id LIMIT ?`,
    ),
    byId: prepare(database, `SELECT ${columns} FROM pets WHERE id = ?`),
    insert: prepare(
      database,
      `INSERT INTO pets (name, category_id, status) VALUES (?, ?, ?) RETURNING ${columns}`,
    ),
    any: prepare(database, 'SELECT id FROM pets LIMIT 1'),
  }
  return {
    /** Lists animals in rising order of id; more: whether others follow them. */
    list({ limit, status, afterId }: PageQuery): { pets: Pet[]; more: boolean } {
      // One row more than asked for shows whether there is a next page.
      const rows =
        status === undefined
          ? statements.page.all(afterId, limit + 1)
          : statements.pageOfStatus.all(status, afterId, limit + 1)
      const pets = (rows as unknown as Row[]).map(toPet)
      return { pets: pets.slice(0, limit), more: pets.length > limit }
    },
    get(id: bigint): Pet | undefined {
      const row = statements.byId.get(id)
      return row && toPet(row as unknown as Row)
    },
    /** Stores the animal; it is durable on return. */
    add({ name, categoryId, status }: NewPet): Pet {
      return toPet(statements.insert.get(name, categoryId, status ?? null) as unknown as Row)
    },
    isEmpty: (): boolean => statements.any.get() === undefined,
    /** SQLite folds the write-ahead log into the file when the last connection closes. */
    close: () => database.close(),
  }
}

function prepare(database: DatabaseSync, sql: string): StatementSync {
  const statement = database.prepare(sql)
  statement.setReadBigInts(true)
  return statement
}
