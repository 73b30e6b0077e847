/** The interface of store.file for the rest of the gateway: one connection, in a thread of its own. */
import { extname } from 'node:path'
import { MessageChannel, receiveMessageOnPort, Worker, type MessagePort } from 'node:worker_threads'
import type {
  Asked,
  Change,
  FileEvent,
  Parameter,
  ThreadAnswer,
  ThreadCall,
  ThreadData,
} from './thread.ts'

export type OnFileEvent = (event: FileEvent) => void
export type Row = Readonly<Record<string, unknown>>

/** Every call is answered, or rejects with an Error of fault and remedy, within ANSWER_TIMEOUT_MS, even if the disk hangs. */
export interface SqliteFile {
  /** The path that the file was opened by. */
  readonly name: string
  /** Returns all rows of a query; a change has none. Blocks this thread until then: for starts only. */
  readNow(sql: string, ...parameters: Parameter[]): readonly Row[]
  read(sql: string, ...parameters: Parameter[]): Promise<readonly Row[]>
  write(sql: string, ...parameters: Parameter[]): Promise<void>
  /** Runs each statement once per row, one after the other, all of them in one transaction or none. */
  writeRows(...changes: Change[]): Promise<void>
  /** Resolves when all calls are answered. May be called again. */
  close(): Promise<void>
}

/** A call that takes longer has met a disk that hangs. */
const NOW_TIMEOUT_MS = 10_000
const ANSWER_TIMEOUT_MS = 5_000
/** The id of the first answer, which belongs to no call. */
const OPENING = 0

/**
 * Loads the thread's program. The thread's own events are not received while its start is awaited, so that a program that
 * cannot be loaded is reported like any fault.
 * The plain-text warning of Node.js 22 about SQLite does not belong in the log.
 */
const loader = `
  process.removeAllListeners('warning')
  const { file, port, answers, program } = require('node:worker_threads').workerData
  import(program).catch((error) => {
    port.postMessage({ id: ${OPENING}, fault: 'store.file ' + file + ' cannot be opened: ' + error })
    Atomics.add(answers, 0, 1)
    Atomics.notify(answers, 0)
  })
`

/** Opens the file as openOrSetAside does, in a thread of its own. Throws an Error with file, fault and remedy. */
export function openSqliteFile(file: string, onEvent: OnFileEvent): SqliteFile {
  const { port1: port, port2 } = new MessageChannel()
  const answers = new Int32Array(new SharedArrayBuffer(4))
  // The program is next to this file, as source or as built.
  const program = new URL(`./thread${extname(import.meta.filename)}`, import.meta.url).href
  const workerData: ThreadData & { program: string } = { file, port: port2, answers, program }
  const thread = new Worker(loader, { eval: true, workerData, transferList: [port2] })
  const calls = createCalls(port, { file, onEvent })
  thread.unref()
  // Without a listener an error in the thread would end the gateway.
  thread.on('error', (cause) =>
    calls.end(new Error(`store.file ${file} failed: its thread has ended`, { cause })),
  )
  thread.on('exit', () => calls.end(new Error(`store.file ${file} is closed`)))

  const answerNow = (id: number): unknown => {
    const deadlineMs = performance.now() + NOW_TIMEOUT_MS
    for (;;) {
      const seen = Atomics.load(answers, 0)
      const received = receiveMessageOnPort(port)
      if (received === undefined) {
        const leftMs = Math.max(0, deadlineMs - performance.now())
        if (Atomics.wait(answers, 0, seen, leftMs) === 'timed-out') throw silence(file)
        continue
      }
      const answer: ThreadAnswer = received.message
      if (answer.id === id) return valueOf(answer)
      calls.settle(answer)
    }
  }
  const end = (): void => {
    void thread.terminate()
    port.close()
  }
  try {
    answerNow(OPENING)
  } catch (error) {
    end()
    throw error
  }
  port.on('message', calls.settle).unref()

  const writeRows: SqliteFile['writeRows'] = async (...changes) =>
    void (await calls.ask({ kind: 'write', changes }))
  return {
    name: file,
    readNow: (sql, ...parameters) =>
      answerNow(calls.post({ kind: 'read', sql, parameters })) as Row[],
    read: async (sql, ...parameters) =>
      (await calls.ask({ kind: 'read', sql, parameters })) as Row[],
    write: (sql, ...parameters) => writeRows({ sql, columns: parameters.map((one) => [one]) }),
    writeRows,
    close: async () => {
      const closed = calls.ask({ kind: 'close' })
      calls.end(new Error(`store.file ${file} is closed`))
      await closed.catch(() => undefined)
      end()
    },
  }
}

/** Calls to the thread and the promises of their answers. */
function createCalls(
  port: MessagePort,
  { file, onEvent }: { readonly file: string; readonly onEvent: OnFileEvent },
) {
  const open = new Map<number, (answer: ThreadAnswer) => void>()
  let lastId = OPENING
  let ended: Error | undefined

  const post = (asked: Asked): number => {
    const call: ThreadCall = { ...asked, id: ++lastId }
    port.postMessage(call)
    return call.id
  }
  const settle = (answer: ThreadAnswer): void => {
    if ('event' in answer) onEvent(answer.event)
    open.get(answer.id)?.(answer)
    open.delete(answer.id)
    // Open calls keep the process alive; an idle file does not.
    if (open.size === 0) port.unref()
  }
  return {
    post,
    settle,
    ask: async (asked: Asked): Promise<unknown> => {
      if (ended !== undefined) throw ended
      const { promise, resolve } = Promise.withResolvers<ThreadAnswer>()
      const id = post(asked)
      open.set(id, resolve)
      port.ref()
      const timer = setTimeout(
        () => settle({ id, fault: silence(file).message }),
        ANSWER_TIMEOUT_MS,
      )
      const answer = await promise
      clearTimeout(timer)
      return valueOf(answer)
    },
    /** Takes no further calls; earlier ones are still answered, or time out. */
    end: (reason: Error): void => {
      ended ??= reason
    },
  }
}

function valueOf(answer: ThreadAnswer): unknown {
  if ('fault' in answer) throw new Error(answer.fault)
  return 'value' in answer ? answer.value : undefined
}

function silence(file: string): Error {
  return new Error(`store.file ${file} does not answer; check its disk, or name another file`)
}
