/** The interface of store.file for the rest of the gateway: one connection, in a thread of its own. */
import { extname } from 'node:path'
import { MessageChannel, receiveMessageOnPort, Worker, type MessagePort } from 'node:worker_threads'
import { createIpcCalls, type AnswerBatch, type CallBatch } from '../calls.ts'
import type { StoreUnavailable } from '../contract.ts'
import type { Change, FileCalls, FileEvent, Parameter, Row, ThreadData } from './thread.ts'

export type OnFileEvent = (event: FileEvent) => void
type FromThread = AnswerBatch | FileEvent

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
/** The lane of calls for which this thread blocks. */
const NOW = 'now'

/**
 * Loads the thread's program. The thread's own events are not received while its start is awaited, so that a program that
 * cannot be loaded is reported like any fault.
 * The plain-text warning of Node.js 22 about SQLite does not belong in the log.
 */
const loader = `
  process.removeAllListeners('warning')
  const { file, port, answers, program } = require('node:worker_threads').workerData
  import(program).catch((error) => {
    const fault = 'store.file ' + file + ' cannot be opened: ' + error
    port.postMessage({ kind: 'answers', lane: '${NOW}', outcomes: [{ fault }] })
    Atomics.add(answers, 0, 1)
    Atomics.notify(answers, 0)
  })
`

/** Opens the file as openOrSetAside does, in a thread of its own. Throws an Error with file, fault and remedy. */
export function openSqliteFile(file: string, onEvent: OnFileEvent): SqliteFile {
  const { thread, port, answers } = startThread(file)
  const send = (batch: CallBatch): void => port.postMessage(batch)
  const calls = createIpcCalls<FileCalls>({ lane: 'file', send, timeoutMs: ANSWER_TIMEOUT_MS })
  const closed = new Error(`store.file ${file} is closed`)
  /** No further calls are taken, for this reason. */
  let ended: Error | undefined
  const fail = (reason: Error): void => {
    ended ??= reason
    calls.close()
  }
  // Without a listener an error in the thread would end the gateway.
  thread.on('error', (cause) =>
    fail(new Error(`store.file ${file} failed: its thread has ended`, { cause })),
  )
  thread.on('exit', () => fail(closed))
  const receive = (message: FromThread): void => {
    if ('event' in message) onEvent(message)
    else calls.receive(message)
  }
  const callNow = (name: keyof FileCalls, argument?: unknown): unknown => {
    send({ kind: 'calls', lane: NOW, calls: [{ id: 0, name, argument }] })
    for (;;) {
      const message = nextMessage(port, answers)
      if (message === undefined) throw silence(file)
      if ('event' in message || message.lane !== NOW) receive(message)
      else if (message.outcomes[0]?.ok) return message.outcomes[0].value
      else throw new Error(message.outcomes[0]?.fault)
    }
  }
  try {
    callNow('open')
  } catch (error) {
    void thread.terminate()
    throw error
  }
  // Open calls keep the process alive, by their timers; an idle file does not.
  port.on('message', receive).unref()

  const ask = async <Result>(call: () => Promise<Result>): Promise<Result> => {
    if (ended !== undefined) throw ended
    return call().catch((error: StoreUnavailable) => {
      throw faultOf(error) ?? ended ?? silence(file)
    })
  }
  const writeRows: SqliteFile['writeRows'] = (...changes) => ask(() => calls.call('write', changes))
  return {
    name: file,
    readNow: (sql, ...parameters) => callNow('read', { sql, parameters }) as Row[],
    read: (sql, ...parameters) => ask(() => calls.call('read', { sql, parameters })),
    write: (sql, ...parameters) => writeRows({ sql, columns: parameters.map((one) => [one]) }),
    writeRows,
    close: async () => {
      const last = ask(() => calls.call('close', undefined))
      ended ??= closed
      await last.catch(() => undefined)
      void thread.terminate()
    },
  }
}

function startThread(file: string) {
  const { port1: port, port2 } = new MessageChannel()
  const answers = new Int32Array(new SharedArrayBuffer(4))
  // The program is next to this file, as source or as built.
  const program = new URL(`./thread${extname(import.meta.filename)}`, import.meta.url).href
  const workerData: ThreadData & { program: string } = { file, port: port2, answers, program }
  const thread = new Worker(loader, { eval: true, workerData, transferList: [port2] })
  thread.unref()
  return { thread, port, answers }
}

/** Blocks this thread until there is a message; undefined: there is none in time. */
function nextMessage(port: MessagePort, answers: Int32Array): FromThread | undefined {
  const deadlineMs = performance.now() + NOW_TIMEOUT_MS
  for (;;) {
    const seen = Atomics.load(answers, 0)
    const received = receiveMessageOnPort(port)
    if (received !== undefined) return received.message
    const leftMs = Math.max(0, deadlineMs - performance.now())
    if (Atomics.wait(answers, 0, seen, leftMs) === 'timed-out') return undefined
  }
}

/** What the thread said of a call that it could not carry out. */
const faultOf = ({ cause }: StoreUnavailable): Error | undefined =>
  typeof cause === 'string' ? new Error(cause) : undefined

const silence = (file: string): Error =>
  new Error(`store.file ${file} does not answer; check its disk, or name another file`)
