/**
 * The thread that owns the connection to store.file; file.ts starts it. SQLite's calls block: in the thread that
 * serves requests, writing 100,000 counters took half a second in steps of up to 18 ms, each a stall for all clients.
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { parentPort, workerData } from 'node:worker_threads'
import { answerCalls, type AnswerBatch, type CallBatch, type CallHandlers } from '../calls.ts'
import { explainSqliteFault, identityOf, openOrSetAside, writeAnew } from './open.ts'

/** One array per parameter of the statement, all of the same length. */
export type Columns = readonly (readonly Parameter[] | Float64Array)[]

/** Values of the `?` in a statement, in their order; Node.js 22 binds none to `?1`. */
export type Parameter = string | number | null

/** A statement to be run once per row. */
export interface Change {
  readonly sql: string
  readonly columns: Columns
}

export type Row = Readonly<Record<string, unknown>>

/** The calls of file.ts to the thread. Each opens the file if it has to; its fault is fault and remedy, for a person to read. */
export interface FileCalls {
  read(query: { readonly sql: string; readonly parameters: readonly Parameter[] }): readonly Row[]
  /** Writes all rows or none. */
  write(changes: readonly Change[]): void
  close(nothing: undefined): void
}

/** Something happened to the file itself, independent of any call; it becomes a line of the log. */
export type FileEvent =
  /** The file was damaged, and a new one was begun. */
  | { readonly event: 'storeFileSetAside'; readonly keptAs: string }
  /** The file had been removed under the gateway, and was written anew. */
  | { readonly event: 'storeFileRestored'; readonly file: string }
  /** The file was removed and cannot be written anew, as where another stands in its place; tried again every second. */
  | { readonly event: 'storeFileLost'; readonly message: string }

const { file } = workerData as { readonly file: string }

/** How often the path is compared with the file that is open. */
const COMPARE_EVERY_MS = 1_000

const port = parentPort

function post(message: AnswerBatch | FileEvent): void {
  port?.postMessage(message)
}

/** Keeps a database at the path of store.file, even where somebody removes the file. */
class StoreFile {
  #database = this.#open()
  #identity = identityOf(file)
  readonly #statements = new Map<string, StatementSync>()
  /** The error while the file is gone and cannot be written anew, when writes would be lost. */
  #lost: unknown

  #open(): DatabaseSync {
    const { database, keptAs } = openOrSetAside(file)
    if (keptAs !== undefined) post({ event: 'storeFileSetAside', keptAs })
    return database
  }

  #prepared(sql: string): StatementSync {
    let statement = this.#statements.get(sql)
    if (statement === undefined) {
      statement = this.#database.prepare(sql)
      this.#statements.set(sql, statement)
    }
    return statement
  }

  read: FileCalls['read'] = ({ sql, parameters }) => this.#prepared(sql).all(...parameters)

  write(changes: readonly Change[]): void {
    if (this.#lost !== undefined) throw this.#lost
    this.#database.exec('BEGIN IMMEDIATE')
    try {
      for (const { sql, columns } of changes) {
        const statement = this.#prepared(sql)
        // A statement without parameters runs once.
        const rows = columns[0]?.length ?? 1
        for (let row = 0; row < rows; row++)
          statement.run(...columns.map((column) => column[row] ?? null))
      }
      this.#database.exec('COMMIT')
    } catch (error) {
      // On some faults SQLite has rolled back already.
      if (this.#database.isTransaction) this.#database.exec('ROLLBACK')
      throw error
    }
  }

  /** Writes the file anew where the path no longer names the open file. */
  compare(): void {
    try {
      if (this.#database.isOpen) {
        if (identityOf(file) === this.#identity) {
          this.#lost = undefined
          return
        }
        writeAnew(this.#database, file)
        this.#statements.clear()
        this.#database.close()
      }
      this.#database = this.#open()
      this.#identity = identityOf(file)
      this.#lost = undefined
      post({ event: 'storeFileRestored', file })
    } catch (error) {
      const message = explainSqliteFault(file, error)
      if (this.#lost === undefined) post({ event: 'storeFileLost', message })
      this.#lost = error
    }
  }

  close(): void {
    this.compare()
    this.#database.close()
  }
}

let opened: StoreFile | undefined

function store(): StoreFile {
  return (opened ??= new StoreFile())
}

const handlers: CallHandlers<FileCalls> = {
  read: (query) => explained(() => store().read(query)),
  write: (changes) => explained(() => store().write(changes)),
  close: () => explained(() => opened?.close()),
}

function explained<Result>(work: () => Result): Result {
  try {
    return work()
  } catch (cause) {
    throw new Error(explainSqliteFault(file, cause), { cause })
  }
}

setInterval(() => opened?.compare(), COMPARE_EVERY_MS).unref()
parentPort?.on('message', (batch: CallBatch) => answerCalls(handlers, batch, post))
