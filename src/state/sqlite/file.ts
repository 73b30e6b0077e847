/** The interface of store.file for the rest of the gateway: one connection, in a thread of its own. */
import { extname } from 'node:path'
import { Worker } from 'node:worker_threads'
import { IpcCalls, type CallBatch, type AnswerBatch } from '../calls.ts'
import type { StoreUnavailable } from '../contract.ts'
import type { Change, FileCalls, FileEvent, Parameter, Row } from './thread.ts'

export type OnFileEvent = (event: FileEvent) => void

/** Every call is answered, or rejects with an Error of fault and remedy, in bounded time, even if the disk hangs. */
export type SqliteFile = ReturnType<typeof openSqliteFile>

/** Bound of a call: one that takes longer has met a disk that hangs. A start may read many counters. */
const ANSWER_TIMEOUT_MS = 10_000

/** Opens the file with the first call, as openOrSetAside does, in a thread of its own. Where that fails the call rejects with the reason. */
export function openSqliteFile(file: string, onEvent: OnFileEvent) {
  // The program is next to this file, as source or as built.
  const program = new URL(`./thread${extname(import.meta.filename)}`, import.meta.url)
  // The plain-text warning of Node.js 22 about SQLite does not belong in the log.
  const execArgv = ['--no-warnings']
  const worker = new Worker(program, { workerData: { file }, execArgv })
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread, no window
  const send = (batch: CallBatch): void => worker.postMessage(batch)
  const calls = new IpcCalls<FileCalls>({ send, timeoutMs: ANSWER_TIMEOUT_MS })
  const closed = new Error(`store.file ${file} is closed`)
  /** No further calls are taken, for this reason. */
  let ended: Error | undefined
  const fail = (reason: Error): void => {
    ended ??= reason
    calls.close()
  }
  // Without a listener an error in the thread would end the gateway.
  worker.on('error', (cause) =>
    fail(new Error(`store.file ${file} failed: its thread has ended: ${String(cause)}`, { cause })),
  )
  worker.on('exit', () => fail(closed))
  worker.on('message', (message: AnswerBatch | FileEvent) => {
    if ('event' in message) onEvent(message)
    else calls.receive(message)
  })
  // Open calls keep the process alive, by their timers; an idle file does not.
  worker.unref()

  const ask = async <Result>(call: () => Promise<Result>): Promise<Result> => {
    if (ended !== undefined) throw ended
    return call().catch(({ cause }: StoreUnavailable) => {
      // What the thread said of a call that it could not carry out.
      if (typeof cause === 'string') throw new Error(cause)
      throw (
        ended ??
        new Error(`store.file ${file} does not answer; check its disk, or name another file`)
      )
    })
  }
  const writeRows = (...changes: Change[]): Promise<void> => ask(() => calls.call('write', changes))
  return {
    /** Returns all rows of a query; a change has none. */
    read: (sql: string, ...parameters: Parameter[]): Promise<readonly Row[]> =>
      ask(() => calls.call('read', { sql, parameters })),
    write: (sql: string, ...parameters: Parameter[]): Promise<void> =>
      writeRows({ sql, columns: parameters.map((one) => [one]) }),
    /** Runs each statement once per row, one after the other, all of them in one transaction or none. */
    writeRows,
    /** Resolves when all calls are answered. May be called again. */
    close: async (): Promise<void> => {
      const last = ask(() => calls.call('close', undefined))
      ended ??= closed
      await last.catch(() => undefined)
      void worker.terminate()
    },
  }
}
