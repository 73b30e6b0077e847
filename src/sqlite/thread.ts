/**
 * The thread that owns the connection to store.file; file.ts starts it. SQLite's calls block: in the thread that
 * serves requests, writing 100,000 counters took half a second in steps of up to 18 ms, each a stall for all clients.
 */
import type { DatabaseSync, StatementSync } from 'node:sqlite'
import { workerData, type MessagePort } from 'node:worker_threads'
import { explainSqliteFault, openOrSetAside } from './open.ts'

export interface ThreadData {
  readonly file: string
  readonly port: MessagePort
  /** One number, raised with every answer: who waits for an answer without an event loop waits for that. */
  readonly answers: Int32Array
}

/** One array per parameter of the statement, all of one length. */
export type Columns = readonly (readonly string[] | Float64Array)[]

/** For the places that `?` has in a statement, in their order: Node.js 22 binds none to `?1`. */
export type Parameter = string | number

export type Asked =
  | { readonly kind: 'read'; readonly sql: string; readonly parameters: readonly Parameter[] }
  | { readonly kind: 'write'; readonly sql: string; readonly columns: Columns }
  | { readonly kind: 'close' }

export type ThreadCall = Asked & { readonly id: number }

/** The answer to the opening has the id 0 and is the new name of a damaged file, if it was. */
export type ThreadAnswer = { readonly id: number } & (
  | { readonly value: unknown }
  /** Fault and remedy, as a person should read them. */
  | { readonly fault: string }
)

const { file, port, answers } = workerData as ThreadData

function answer(id: number, work: () => unknown): void {
  let result: ThreadAnswer
  try {
    result = { id, value: work() }
  } catch (error) {
    result = { id, fault: id === 0 ? (error as Error).message : explainSqliteFault(file, error) }
  }
  port.postMessage(result)
  Atomics.add(answers, 0, 1)
  Atomics.notify(answers, 0)
}

function serve(database: DatabaseSync): void {
  const statements = new Map<string, StatementSync>()
  const prepared = (sql: string): StatementSync => {
    let statement = statements.get(sql)
    if (statement === undefined) statements.set(sql, (statement = database.prepare(sql)))
    return statement
  }

  /** All rows or none. */
  const write = (sql: string, columns: Columns): void => {
    const statement = prepared(sql)
    const rows = columns[0]?.length ?? 0
    database.exec('BEGIN IMMEDIATE')
    try {
      for (let row = 0; row < rows; row++)
        statement.run(...columns.map((column) => column[row] ?? null))
      database.exec('COMMIT')
    } catch (error) {
      // On some faults SQLite has rolled back already.
      if (database.isTransaction) database.exec('ROLLBACK')
      throw error
    }
  }

  port.on('message', (call: ThreadCall) => {
    answer(call.id, () => {
      switch (call.kind) {
        case 'read':
          return prepared(call.sql).all(...call.parameters)
        case 'write':
          return write(call.sql, call.columns)
        case 'close':
          return database.close()
      }
    })
    if (call.kind === 'close') port.close()
  })
}

answer(0, () => {
  const { database, keptAs } = openOrSetAside(file)
  serve(database)
  return keptAs
})
