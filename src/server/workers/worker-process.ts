/** One worker as its supervisor sees it: a child process with an IPC channel, a pipe for its log and a socket to listen on. */
import { fork, type ChildProcess } from 'node:child_process'
import { setTimeout as sleep } from 'node:timers/promises'
import { toPlainConfig } from '../../config/clients/client-table.ts'
import type { Config } from '../../config/config.ts'
import type { MetricsSnapshot } from '../../core/record/metric-registry.ts'
import { createIpcCalls } from '../../state/supervisor/calls.ts'
import type { WorkerCalls, WorkerFacts, WorkerLink } from '../gateway/worker-link.ts'
import type { SharedMessage, StartFault, StartMessage, ToSupervisor, ToWorker } from './messages.ts'
import { TableSender, START_TABLE } from './client-table-pipe.ts'

export interface WorkerProcessOptions {
  /** The file that a worker runs: src/main.ts, or what it was built to. */
  readonly entry: string
  readonly start: Omit<StartMessage, 'kind' | 'config'> & { readonly config: Config }
  readonly listenFd: number
  /** Takes whole lines of its log. */
  onLines(lines: string): void
  /** Receives messages that do not concern this process alone; may answer by `send`. */
  onMessage(message: SharedMessage, send: (answer: ToWorker) => void): void
}

/** How a worker has ended. */
export interface WorkerExit {
  readonly code: number | null
  readonly signal: NodeJS.Signals | null
  /** How long it took requests; 0: it never did. */
  readonly ranMs: number
  /** The fault that it reported before it ended, if it could not begin. */
  readonly fault: StartFault | undefined
}

export class WorkerFailed extends Error {
  readonly exit: WorkerExit

  constructor(number: number, exit: WorkerExit) {
    super(
      exit.fault?.message ?? `worker ${number} ended before it took requests: ${howEnded(exit)}`,
    )
    this.exit = exit
  }
}

export const howEnded = ({ code, signal }: Pick<WorkerExit, 'code' | 'signal'>): string =>
  signal === null ? `exit code ${code}` : `signal ${signal}`

/** Deadline to take its clients, and again to begin with them. */
const START_AT_MOST_MS = 30_000
/** A worker that stands still must not fill the memory of this process with its messages. */
const UNSENT_AT_MOST = 64
/** Deadline to take a configuration and build it aside. */
const PREPARE_AT_MOST_MS = 10_000
/** How long a page of metrics, or another question, waits for a worker that stands still. */
const ANSWER_AT_MOST_MS = 1_000

export class WorkerProcess implements WorkerLink {
  readonly number: number
  /** undefined: there is no process. */
  readonly pid: number | undefined
  /** It only ever moves forward. Written by #receive, drain and #end. */
  state: 'starting' | 'listening' | 'draining' | 'ended' = 'starting'
  /** Written by #receive, as are the next. */
  facts: WorkerFacts = {
    store: undefined,
    keySetFault: undefined,
    shed: 'nothing',
    backends: [],
  }
  latest: MetricsSnapshot | undefined
  now: (Extract<SharedMessage, { kind: 'second' }>['now'] & { receivedMs: number }) | undefined
  sinceMs: number | undefined
  /** The same by performance.now(). */
  #listeningSinceMs: number | undefined
  /** A question is sent even where notices are dropped: there is one message of them at a time, and no other would follow one that got lost. */
  readonly questions = createIpcCalls<WorkerCalls>({
    lane: 'questions',
    timeoutMs: ANSWER_AT_MOST_MS,
    send: (batch) => this.#send(batch),
  })
  /** Only the handler is kept: the clients that the worker starts with are not kept for it. */
  readonly #onMessage: WorkerProcessOptions['onMessage']
  readonly #child: ChildProcess
  readonly #tables: TableSender
  /** Number of messages not handed over yet. Written by #send. */
  #unsent = 0
  /** Whether a notice was left out. Written by notify and #send. */
  #hasMissed = false
  readonly #listening = Promise.withResolvers<void>()
  /** Resolves once it takes requests; rejects with a WorkerFailed if it ends before or takes too long. */
  readonly listening = this.#listening.promise
  readonly #ended = Promise.withResolvers<WorkerExit>()
  /** Resolves when it has ended and its last line was passed on. */
  readonly ended = this.#ended.promise
  /** Ends a start or a drain that takes too long. Written by #killAfter; stopped by #receive and #end. */
  #deadline: NodeJS.Timeout | undefined
  /** Why it could not begin. Written by #receive and, if there is no process at all, by the constructor. */
  #fault: StartFault | undefined
  /** The question for its values that is under way, one at a time. Written by measure. */
  #measured = { question: 0, ...Promise.withResolvers<void>() }
  /** The configuration that it is to prepare. Written by prepare. */
  #prepared:
    | { readonly round: number; readonly answer: PromiseWithResolvers<string | undefined> }
    | undefined
  /** Beats since its last message; after the first one it has been asked. Written by #receive, beat and resetBeats. */
  #silentBeats = 0

  constructor(options: WorkerProcessOptions) {
    this.number = options.start.number
    this.#onMessage = options.onMessage
    this.#child = fork(options.entry, ['worker'], {
      // The structured clone, as the configuration holds Maps.
      serialization: 'advanced',
      // Before its own handlers are installed, a signal would open the debugger of Node.js.
      execArgv: [...process.execArgv, '--disable-sigusr1'],
      // The standard output is for what commands print.
      stdio: ['ignore', 'ignore', 'pipe', 'ipc', options.listenFd, 'pipe'],
    })
    this.#tables = new TableSender(this.#child)
    this.pid = this.#child.pid
    this.listening.catch(() => undefined)
    this.#killAfter(START_AT_MOST_MS)
    const relay = createLineRelay(options.onLines)
    this.#child.stderr?.setEncoding('utf8').on('data', relay.take)
    this.#child.on('message', (message) => this.#receive(message as ToSupervisor))
    // This comes after its last line, unlike 'exit'.
    this.#child.on('close', (code, signal) => {
      relay.end()
      this.#end(code, signal)
    })
    this.#child.on('error', ({ message }) => {
      // This also reports a message that found no process; only a process that never began has no pid.
      if (this.pid !== undefined) return
      const cause = `worker ${this.number} cannot be started: ${message}`
      this.#fault = { message: cause, code: undefined, isListener: false }
      this.#end(null, null)
    })
    this.#send({ kind: 'start', ...options.start, config: toPlainConfig(options.start.config) })
    void this.#tables.send(START_TABLE, options.start.config).then(() => {
      if (this.state === 'starting') this.#killAfter(START_AT_MOST_MS)
    })
  }

  /** Returns its latest values, fresh if it answers in time; undefined if it never sent any. */
  async measure(): Promise<MetricsSnapshot | undefined> {
    if (this.#isTaking) {
      this.#measured = { question: this.#measured.question + 1, ...Promise.withResolvers() }
      this.#send({ kind: 'measure', question: this.#measured.question })
      const timeUp = sleep(ANSWER_AT_MOST_MS, undefined, { ref: false })
      await Promise.race([this.#measured.promise, timeUp])
    }
    return this.latest
  }

  /** Drops the notice while the worker does not take its messages, and sends `missed` later; `listen` is sent always, as it changes seldom. */
  notify(message: ToWorker): void {
    if (this.#isTaking || message.kind === 'listen') this.#send(message)
    else this.#hasMissed = true
  }

  /** Asks it to build a configuration aside; resolves with why it cannot, or with nothing. Never rejects. */
  prepare(round: number, config: Config): Promise<string | undefined> {
    const answer = Promise.withResolvers<string | undefined>()
    this.#prepared = { round, answer }
    this.#send({ kind: 'prepare', round, config: toPlainConfig(config) })
    void this.#tables.send(round, config)
    const isSilent = (): void =>
      answer.resolve(`has not answered for ${PREPARE_AT_MOST_MS / 1000} s`)
    // A worker that starts has the time of its start.
    const timeUp = this.state === 'listening' ? setTimeout(isSilent, PREPARE_AT_MOST_MS) : undefined
    return answer.promise.finally(() => clearTimeout(timeUp))
  }

  /** Commits or aborts what was prepared. */
  settle(kind: 'commit' | 'abort', round: number): void {
    this.#tables.giveUp(round)
    this.#send({ kind, round })
  }

  /** Asks a worker that takes requests for a sign of life; returns the beats without one since it was asked. */
  beat(): number {
    if (this.state !== 'listening') return 0
    if (this.#silentBeats === 0) this.#send({ kind: 'beat' })
    return this.#silentBeats++
  }

  /** Forgives the beats so far. */
  resetBeats(): void {
    this.#silentBeats = Math.min(this.#silentBeats, 1)
  }

  /** Asks it to end; kills it if it has not within timeoutMs. */
  drain({ idleMs, timeoutMs }: { readonly idleMs: number; readonly timeoutMs: number }): void {
    if (this.state === 'draining' || this.state === 'ended') return
    this.state = 'draining'
    this.#tables.close()
    // It ends under the configuration that it has.
    this.#prepared?.answer.resolve(undefined)
    this.#killAfter(timeoutMs)
    this.#send({ kind: 'drain', idleMs })
  }

  kill(): void {
    this.#child.kill('SIGKILL')
  }

  get #isTaking(): boolean {
    return this.#child.connected && this.#unsent <= UNSENT_AT_MOST
  }

  /** Sends to a live worker; the end of one that has gone is noticed elsewhere. */
  #send(message: ToWorker): void {
    if (!this.#child.connected) return
    this.#unsent++
    this.#child.send(message, () => {
      this.#unsent--
      if (this.#unsent > 0 || !this.#hasMissed) return
      this.#hasMissed = false
      this.#send({ kind: 'missed' })
    })
  }

  #killAfter(delayMs: number): void {
    clearTimeout(this.#deadline)
    this.#deadline = setTimeout(() => this.kill(), delayMs)
  }

  #receive(message: ToSupervisor): void {
    this.#silentBeats = 0
    switch (message.kind) {
      case 'second':
        this.now = { ...message.now, receivedMs: performance.now() }
        return this.#onMessage(message, (answer) => this.#send(answer))
      case 'calls':
      case 'decisions':
        return this.#onMessage(message, (answer) => this.#send(answer))
      case 'answers':
        return this.questions.receive(message)
      case 'listening':
        this.sinceMs = Date.now()
        this.#listeningSinceMs = performance.now()
        this.#listening.resolve()
        if (this.state !== 'starting') return
        this.state = 'listening'
        return clearTimeout(this.#deadline)
      case 'failed':
        return void (this.#fault = message.fault)
      case 'facts':
        return void (this.facts = message.facts)
      case 'prepared':
        if (message.round !== this.#prepared?.round) return
        return this.#prepared.answer.resolve(message.fault)
      case 'measured':
        this.latest = message.snapshot
        return message.question === this.#measured.question ? this.#measured.resolve() : undefined
      case 'alive':
    }
  }

  #end(code: number | null, signal: NodeJS.Signals | null): void {
    if (this.state === 'ended') return
    const wasServing = this.state === 'listening'
    this.state = 'ended'
    clearTimeout(this.#deadline)
    this.#measured.resolve()
    this.questions.close()
    // A worker that had not begun takes no part: its successor begins with the configuration in force then.
    this.#prepared?.answer.resolve(
      wasServing ? `has ended: ${howEnded({ code, signal })}` : undefined,
    )
    const sinceMs = this.#listeningSinceMs
    const ranMs = sinceMs === undefined ? 0 : performance.now() - sinceMs
    const exit = { code, signal, ranMs, fault: this.#fault }
    this.#listening.reject(new WorkerFailed(this.number, exit))
    this.#ended.resolve(exit)
  }
}

/** A line that never ends is cut here. */
const LINE_CHARS = 256 * 1024

/** Passes on a worker's output in whole lines, so that lines of several workers never mix. write: takes whole lines with their ends. */
export function createLineRelay(write: (lines: string) => void) {
  let begun = ''
  return {
    take: (text: string) => {
      const end = text.lastIndexOf('\n') + 1
      if (end > 0) {
        write(begun + text.slice(0, end))
        begun = ''
      }
      begun += text.slice(end)
      if (begun.length < LINE_CHARS) return
      write(`${begun}\n`)
      begun = ''
    },
    /** Passes on the incomplete last line. */
    end: () => {
      if (begun !== '') write(`${begun}\n`)
      begun = ''
    },
  }
}
